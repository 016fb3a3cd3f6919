// A card on the host: as much of its backend as tests of kernels ask for, and the few functions of CUDA's
// runtime that kernels' launchers call.
#include "cuda_on_host/host_card.h"

#include <cstdlib>
#include <cstring>
#include <string>

#include "backend/cuda/blas.h"
#include "backend/cuda/check.h"
#include "backend/cuda/cuda_backend.h"
#include "backend/cuda/kernels.h"
#include "backend/cuda/quantise.h"
#include "base/check.h"
#include "cuda_on_host/tensor_map.h"

namespace snug {
namespace cuda_on_host {

int capability() {
  static const int value = [] {
    const char* named = std::getenv("SNUG_HOST_CARD");
    return named == nullptr ? 90 : std::stoi(named);
  }();
  return value;
}

int most_threads_of_hopper() {
  return capability() == 90 ? 1024 : 32;
}

int clusters_at_once(unsigned blocks) {
  return blocks > 6 ? 15 : 132 / static_cast<int>(blocks);
}

}  // namespace cuda_on_host

CudaBackend::CudaBackend() : blas_(std::make_unique<cuda::Blas>(false)) {}

CudaBackend::~CudaBackend() {
  for (std::byte* arena : arenas_) {
    std::free(arena);
  }
}

std::string CudaBackend::find_unsupported(const Program& program, const Op& op) const {
  return cuda::find_unsupported(program, op, cuda_on_host::capability());
}

std::byte* CudaBackend::allocate_arena(Home /*home*/, int64_t bytes) {
  auto* arena = static_cast<std::byte*>(std::aligned_alloc(4096, static_cast<size_t>(bytes)));
  SNUG_CHECK(arena != nullptr, "out of memory in a test");
  arenas_.push_back(arena);
  return arena;
}

void CudaBackend::run(const KernelCall& call) {
  cuda::kernel_of(call.op.kind)({nullptr, blas_.get()}, call);
}

void CudaBackend::upload(void* device, const void* host, int64_t bytes) {
  std::memcpy(device, host, static_cast<size_t>(bytes));
}

void CudaBackend::download(void* host, const void* device, int64_t bytes) {
  std::memcpy(host, device, static_cast<size_t>(bytes));
}

void CudaBackend::quantise(const CodePiece& piece) {
  cuda::quantise(nullptr, piece);
}

namespace cuda {

void check(cudaError_t status, const char* doing) {
  SNUG_CHECK(status == cudaSuccess, doing);
}

}  // namespace cuda
}  // namespace snug

cudaError_t cudaGetLastError() {
  return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t /*stream*/) {
  return cudaSuccess;
}

cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr which, int /*device*/) {
  int capability = snug::cuda_on_host::capability();
  switch (which) {
    case cudaDevAttrMultiProcessorCount:
      *value = 132;
      return cudaSuccess;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      *value = (capability == 75 ? 64 : capability == 90 ? 227 : 99) * 1024;
      return cudaSuccess;
    default:
      return cudaErrorInvalidValue;
  }
}

cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** function, unsigned /*version*/,
                                             unsigned long long /*flags*/,
                                             cudaDriverEntryPointQueryResult* result) {
  bool is_known = std::string(name) == "cuTensorMapEncodeTiled";
  *function = is_known ? reinterpret_cast<void*>(&snug::cuda_on_host::encode_map) : nullptr;
  *result = is_known ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
  return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void* target, int value, size_t bytes, cudaStream_t /*stream*/) {
  std::memset(target, value, bytes);
  return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void* target, const void* source, size_t bytes, cudaMemcpyKind /*kind*/,
                            cudaStream_t /*stream*/) {
  std::memcpy(target, source, bytes);
  return cudaSuccess;
}
