// The CUDA backend: one card, one stream, one arena a home, and nothing else on the card after the start.
#pragma once

#include <array>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "backend/backend.h"
#include "backend/cpu/machine_memory.h"
#include "backend/cuda/kernels.h"
#include "backend/cuda_plan/calibration.h"
#include "backend/cuda_plan/card_rates.h"
#include "backend/cuda_plan/needs.h"

namespace snug {

namespace cuda {
class GraphCache;
}

struct CudaOptions {
  int card = 0;        // among those that this process may see
  bool tf32 = false;   // fp32 products on tensor cores, with 10 bits of mantissa
  bool graphs = true;  // record what is repeated
  // Where measured rates are remembered ("": nowhere); nothing: the card is not measured.
  std::optional<std::filesystem::path> rates_folder = std::nullopt;
  bool measure_again = false;  // whatever is remembered
};

class CudaBackend : public Backend {
 public:
  // Opens a card, by default the first that the process may see. Throws environment_error if there is none,
  // or if its driver or its compute capability is too old.
  explicit CudaBackend(const CudaOptions& options = {});
  ~CudaBackend() override;
  CudaBackend(const CudaBackend&) = delete;
  CudaBackend& operator=(const CudaBackend&) = delete;

  std::string_view name() const override { return "cuda"; }
  std::string label() const override;
  std::string description() const override;
  DeviceIdentity identity() const override;
  std::optional<CardHealth> health() const override;
  // Remembered, or measured when they are first asked for, which is before an arena is taken.
  DeviceRates rates(DType dtype) const override;
  DeviceRates assumed_rates(DType dtype) const override;
  RatesOrigin rates_origin() const override;
  std::string find_unsupported(const Program& program, const Op& op) const override {
    return cuda::find_unsupported(program, op, shape_.capability);
  }
  int64_t workspace_bytes(const Program& program, const Op& op) const override {
    return cuda::workspace_bytes(program, op);
  }

  std::byte* allocate_arena(Home home, int64_t bytes) override;

  void run(const KernelCall& call) override;
  void run_phase(std::string_view phase, const Extents& extents,
                 const std::function<void()>& run_ops) override;
  void forget_phases() override;

  bool runs_ahead() const override { return true; }

  // From pageable memory the source may be changed when this returns; from the pinned arena only after
  // synchronize().
  void upload(void* device, const void* host, int64_t bytes) override;
  // Returns when the bytes are there.
  void download(void* host, const void* device, int64_t bytes) override;
  void quantise(const CodePiece& piece) override;
  void synchronize() override;
  uint64_t mark() override;
  void wait_for(uint64_t mark) override;

  std::optional<int64_t> device_total_bytes() const override { return total_bytes_; }
  // Measured when the card was opened, with a reserve for kernels and graphs that the driver loads later.
  int64_t context_bytes() const override { return context_bytes_; }
  std::optional<int64_t> host_available_bytes() const override { return available_memory_bytes(); }

  // For programs that measure: what runs on the stream can be timed there.
  cudaStream_t stream() const { return queue_.stream; }

  // What the driver says this process has of the card now; the difference of two readings if it does not tell
  // processes apart. 0: it tells nothing.
  int64_t driver_bytes() const;

 private:
  void open();
  std::byte* allocate_on_card(int64_t bytes);
  const cuda::Calibration& calibration() const;
  std::string find_measuring_obstacle() const;

  CudaOptions options_;
  std::string card_name_;
  cuda::CardShape shape_;
  mutable std::optional<cuda::Calibration> calibration_;  // once it was asked for
  std::string pci_bus_id_;
  int64_t total_bytes_ = 0;
  int64_t context_bytes_ = 0;
  int64_t used_before_bytes_ = 0;  // by others, when this process came
  int64_t others_bytes_ = 0;       // of those, not the driver's own
  cuda::Queue queue_;
  std::unique_ptr<cuda::Blas> blas_;
  std::unique_ptr<cuda::GraphCache> graphs_;
  static constexpr size_t kKeptMarks = 4;
  std::array<cudaEvent_t, kKeptMarks> marks_{};
  uint64_t next_mark_ = 0;
};

// "CUDA 13.0, cuBLASLt 13.0.2", for --version; asks no card.
std::string cuda_libraries();

}  // namespace snug
