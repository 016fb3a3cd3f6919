// What a backend does beyond being a device that is planned for: hold the arenas and run one op at a time on
// addresses that the plan chose.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>

#include "backend/arenas.h"
#include "backend/device.h"

namespace snug {

// A buffer as a kernel sees it: an address and the sizes of this execution.
struct Tensor {
  void* data = nullptr;  // null: the op has no such input or output
  DType dtype = DType::f32;
  int rank = 0;
  std::array<int64_t, 4> dims{};
  const Buffer* coded = nullptr;  // a weight of codes: code_layout says what lies where; null: plain elements

  int64_t rows() const { return rank == 0 ? 1 : dims[0]; }
  int64_t columns() const { return rank < 2 ? 1 : dims[1]; }
  int64_t elements() const;
  int64_t bytes() const { return coded != nullptr ? coded->max_bytes() : bytes_of(dtype, elements()); }
  template <typename T>
  T* as() const {
    return static_cast<T*>(data);
  }
};

// `data` is where the buffer lies; the buffer must outlive the tensor.
Tensor tensor_of(const Buffer& buffer, void* data, const Extents& extents);

struct KernelCall {
  const Op& op;
  std::span<const Tensor> inputs;
  std::span<const Tensor> outputs;
  std::span<std::byte> workspace;

  bool has_input(size_t i) const { return i < inputs.size() && inputs[i].data != nullptr; }
  bool has_output(size_t i) const { return i < outputs.size() && outputs[i].data != nullptr; }
};

// Values of one tensor that are to become codes (base/code_formula.h): whole blocks, or rows, of which the
// last block may be shorter if it ends the tensor.
struct CodePiece {
  Format format;
  int64_t columns = 0;           // of the tensor; rows of int8 and fp8 share a scale
  const void* values = nullptr;  // of the format's dtype, in the pinned arena
  int64_t count = 0;
  std::byte* codes = nullptr;  // where the codes of these values begin
  float* scales = nullptr;     // their scales, in any arena that the device reaches

  int64_t unit() const { return format.block == 0 ? columns : format.block; }  // values that share a scale
  int64_t units() const { return (count + unit() - 1) / unit(); }
  int64_t code_bytes() const { return (count * code_bits(format.coding) + 7) / 8; }
};

class Backend : public Device {
 public:
  // Takes one arena. Called once a home; the memory is released with the backend.
  virtual std::byte* allocate_arena(Home home, int64_t bytes) = 0;
  // The arena of that home: one that was taken before, which must be as large, or a new one.
  std::byte* arena(Home home, int64_t bytes);
  // What allocate_arena has taken.
  int64_t allocated_bytes(Home home) const { return arenas_.of(home).bytes; }
  // From the arena's start to the end of what run() and upload() were told to write, or the host said it
  // writes by itself. That nothing else is written is what tests watch.
  int64_t announced_bytes(Home home) const { return arenas_.announced_bytes(home); }
  void announce(const void* address, int64_t bytes) { arenas_.announce(address, bytes); }

  virtual void run(const KernelCall& call) = 0;
  // `run_ops` calls run() for all ops of a phase. At equal sizes it makes equal calls, so that a backend may
  // record them and replay the recording instead.
  virtual void run_phase(std::string_view /*phase*/, const Extents& /*extents*/,
                         const std::function<void()>& run_ops) {
    run_ops();
  }

  // Phases of these names are another plan's from now on.
  virtual void forget_phases() {}

  // Whether calls return before their work is done, so that reading anything back makes the host wait.
  virtual bool runs_ahead() const { return false; }

  virtual void upload(void* device, const void* host, int64_t bytes) = 0;
  virtual void download(void* host, const void* device, int64_t bytes) = 0;
  // An upload that makes codes of values on the way. As it is here, all of it is memory of the host.
  virtual void quantise(const CodePiece& piece);
  virtual void synchronize() = 0;
  // wait_for(mark()) returns when all that was asked for before mark() is done; what came later may go on.
  // The last few marks are kept. For a backend that does everything at once there is nothing to wait for.
  virtual uint64_t mark() { return 0; }
  virtual void wait_for(uint64_t /*mark*/) {}

 protected:
  Arenas arenas_;
};

}  // namespace snug
