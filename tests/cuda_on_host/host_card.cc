// What CUDA's runtime tells of a card.
#include "cuda_on_host/host_card.h"

#include <cuda_runtime_api.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "backend/cuda/kernels_version.h"
#include "cuda_on_host/tensor_map.h"

namespace snug {

const char* const kKernelsVersion = "on the host";

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
}  // namespace snug

using namespace snug::cuda_on_host;

cudaError_t cudaGetLastError() {
  return cudaSuccess;
}
const char* cudaGetErrorName(cudaError_t /*error*/) {
  return "cudaError";
}
const char* cudaGetErrorString(cudaError_t /*error*/) {
  return "an error on the host";
}

cudaError_t cudaGetDeviceCount(int* count) {
  *count = 1;
  return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
  return device == 0 ? cudaSuccess : cudaErrorInvalidDevice;
}
cudaError_t cudaDeviceReset() {
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetPCIBusId(char* id, int length, int /*device*/) {
  std::snprintf(id, static_cast<size_t>(length), "none");
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int /*device*/) {
  *properties = {};
  std::strcpy(properties->name, "the host as a card");
  properties->major = capability() / 10;
  properties->minor = capability() % 10;
  properties->totalGlobalMem = kCardBytes;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr which, int /*device*/) {
  switch (which) {
    case cudaDevAttrMultiProcessorCount:
      *value = 132;
      return cudaSuccess;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      *value = (capability() == 75 ? 64 : capability() == 90 ? 227 : 99) * 1024;
      return cudaSuccess;
    case cudaDevAttrClockRate:  // kHz
      *value = 1'000'000;
      return cudaSuccess;
    case cudaDevAttrMemoryClockRate:
      *value = 1'000'000;
      return cudaSuccess;
    case cudaDevAttrGlobalMemoryBusWidth:  // bits
      *value = 1024;
      return cudaSuccess;
    default:
      return cudaErrorInvalidValue;
  }
}

cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** function, unsigned /*version*/,
                                             unsigned long long /*flags*/,
                                             cudaDriverEntryPointQueryResult* result) {
  bool is_known = std::string(name) == "cuTensorMapEncodeTiled";
  *function = is_known ? reinterpret_cast<void*>(&encode_map) : nullptr;
  *result = is_known ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
  return cudaSuccess;
}
