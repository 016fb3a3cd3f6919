// The CPU backend: arenas in ordinary memory, kernels that run on the calling thread and the pool of threads.
#pragma once

#include <array>
#include <string>

#include "backend/backend.h"

namespace snug {

class CpuBackend : public Backend {
 public:
  // poison (for tests): arenas start filled with a pattern, and touched_bytes is found by the bytes that
  // differ from it, so that every write is seen. Else it is found by the addresses that run() and upload()
  // were told to write, which costs nothing.
  explicit CpuBackend(bool poison = false) : poison_(poison) {}
  ~CpuBackend() override;
  CpuBackend(const CpuBackend&) = delete;
  CpuBackend& operator=(const CpuBackend&) = delete;

  std::string_view name() const override { return "cpu"; }
  std::string find_unsupported(const Program& program, const Op& op) const override;
  int64_t workspace_bytes(const Program& program, const Op& op) const override;

  // Host and device are one memory here.
  Home home_of(Home) const override { return Home::device; }

  // Refused with an environment error if the machine (or its container) does not have that much. An arena
  // of 0 bytes has no address.
  std::byte* allocate_arena(Home home, int64_t bytes) override;
  int64_t allocated_bytes(Home home) const override;
  // Rounded up to kAlignment, at most the arena's size.
  int64_t touched_bytes(Home home) const override;

  void run(const KernelCall& call) override;
  void upload(void* device, const void* host, int64_t bytes) override;
  void download(void* host, const void* device, int64_t bytes) override;
  void synchronize() override {}

  std::optional<int64_t> device_total_bytes() const override;
  int64_t context_bytes() const override { return 0; }

 private:
  struct Arena {
    std::byte* data = nullptr;
    int64_t bytes = 0;
    int64_t touched_bytes = 0;
    bool taken = false;
  };

  const Arena& arena(Home home) const { return arenas_[static_cast<size_t>(home)]; }
  void note_write(const void* address, int64_t bytes);

  bool poison_;
  std::array<Arena, kHomeCount> arenas_{};
};

// "OpenBLAS 0.3.21 (kernels for Haswell)", for --version.
std::string cpu_libraries();

}  // namespace snug
