// A build with CUDA.
#include "backend/cpu/cpu_backend.h"
#include "backend/cuda/cuda_backend.h"
#include "cli/make_backend.h"

namespace snug {

bool build_has_cuda() {
  return true;
}

std::string describe_backends() {
  return "cpu: " + cpu_libraries() + "; cuda: " + cuda_libraries();
}

std::unique_ptr<Backend> open_card(const DeviceArguments& arguments) {
  return std::make_unique<CudaBackend>(CudaOptions{.tf32 = arguments.tf32});
}

}  // namespace snug
