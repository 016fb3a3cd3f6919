// The CPU backend: arenas in ordinary memory, kernels that run on the calling thread and the pool of threads.
#pragma once

#include <string>

#include "backend/backend.h"
#include "base/threads.h"

namespace snug {

class CpuBackend : public Backend {
 public:
  // Plans for so many threads, and runs on no more.
  explicit CpuBackend(int threads = thread_count()) : threads_(threads) {}
  ~CpuBackend() override;
  CpuBackend(const CpuBackend&) = delete;
  CpuBackend& operator=(const CpuBackend&) = delete;

  std::string_view name() const override { return "cpu"; }
  std::string description() const override;
  DeviceIdentity identity() const override;
  int threads() const override { return threads_; }
  std::string find_unsupported(const Program& program, const Op& op) const override;
  int64_t workspace_bytes(const Program& program, const Op& op) const override;

  // Host and device are one memory here.
  Home home_of(Home home) const override { return home == Home::host ? home : Home::device; }

  // Refused with an environment error if the machine (or its container) does not have that much. An arena
  // of 0 bytes has no address.
  std::byte* allocate_arena(Home home, int64_t bytes) override;

  void run(const KernelCall& call) override;
  void upload(void* device, const void* host, int64_t bytes) override;
  void download(void* host, const void* device, int64_t bytes) override;
  void synchronize() override {}

  std::optional<int64_t> device_total_bytes() const override;
  int64_t context_bytes() const override { return 0; }
  std::optional<int64_t> host_available_bytes() const override;

 private:
  int threads_;
};

// "OpenBLAS 0.3.21 (kernels for Haswell)", for --version.
std::string cpu_libraries();

// The processor that the library's kernels were made for, by its name there.
std::string cpu_kernels();

}  // namespace snug
