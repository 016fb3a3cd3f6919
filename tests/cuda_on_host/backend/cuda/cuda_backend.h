// In place of src/backend/cuda/cuda_backend.h: a card whose kernels the host runs, with as much of the
// backend as the tests of single kernels ask for. There is no stream: kernels are done when they have been
// called.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "backend/cuda/blas.h"
#include "backend/cuda_plan/needs.h"

namespace snug {

class CudaBackend {
 public:
  CudaBackend();
  ~CudaBackend();
  CudaBackend(const CudaBackend&) = delete;
  CudaBackend& operator=(const CudaBackend&) = delete;

  std::string find_unsupported(const Program& program, const Op& op) const;
  int64_t workspace_bytes(const Program& program, const Op& op) const {
    return cuda::workspace_bytes(program, op);
  }
  std::byte* allocate_arena(Home home, int64_t bytes);
  void run(const KernelCall& call);
  void upload(void* device, const void* host, int64_t bytes);
  void download(void* host, const void* device, int64_t bytes);
  void quantise(const CodePiece& piece);
  void synchronize() {}

 private:
  std::unique_ptr<cuda::Blas> blas_;
  std::vector<std::byte*> arenas_;
};

}  // namespace snug
