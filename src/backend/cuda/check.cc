// What a CUDA error means to the person in front of it.
#include "backend/cuda/check.h"

#include <fmt/format.h>

#include <string>

#include "base/error.h"

namespace snug::cuda {
namespace {

std::string remedy_for(cudaError_t status) {
  switch (status) {
    case cudaErrorNoDevice:
      return "there is no NVIDIA card that this process may use: check nvidia-smi and CUDA_VISIBLE_DEVICES, "
             "or "
             "use --device cpu";
    case cudaErrorInsufficientDriver:
    case cudaErrorSystemDriverMismatch:
    case cudaErrorUnsupportedPtxVersion:
      return "the NVIDIA driver is missing or older than this build needs (CUDA 13: driver 580 or newer): "
             "update "
             "the driver, or use --device cpu";
    case cudaErrorNoKernelImageForDevice:
    case cudaErrorInvalidDeviceFunction:
      return "this build has no code for this card: build with SNUG_CUDA_ARCHITECTURES naming its compute "
             "capability";
    case cudaErrorMemoryAllocation:
      return "the card has no memory left: other processes may have taken it since the plan was made "
             "(nvidia-smi lists them)";
    case cudaErrorDevicesUnavailable:
      return "the card is in exclusive use by another process (nvidia-smi lists it)";
    case cudaErrorECCUncorrectable:
      return "the card's memory failed: restart the run on another card and have this one checked";
    case cudaErrorNotPermitted:
    case cudaErrorOperatingSystem:
      return "the system refused the driver's request: check the container's device permissions";
    case cudaErrorIllegalAddress:
    case cudaErrorMisalignedAddress:
    case cudaErrorLaunchFailure:
    case cudaErrorAssert:
    case cudaErrorIllegalInstruction:
    case cudaErrorHardwareStackError:
      return "the run cannot go on; files written so far are whole. Start it again; if this comes back, it "
             "is "
             "a mistake in snug (a report with the recipe helps) or failing hardware (dmesg shows Xid lines)";
    default:
      return "the run cannot go on; files written so far are whole";
  }
}

}  // namespace

std::string driver_problem(int found, int needed) {
  auto version = [](int number) { return fmt::format("{}.{}", number / 1000, number % 1000 / 10); };
  if (found == 0) {
    return "there is no NVIDIA driver on this machine (libcuda.so.1 was not found): install one (580 or "
           "newer), or "
           "use --device cpu";
  }
  return fmt::format(
      "the NVIDIA driver knows CUDA {}, and this build needs CUDA {}: update the driver (580 or newer), "
      "or use --device cpu",
      version(found), version(needed));
}

void check(cudaError_t status, const char* doing) {
  if (status != cudaSuccess) {
    throw environment_error(fmt::format("CUDA error while {}: {} ({}); {}", doing, cudaGetErrorString(status),
                                        cudaGetErrorName(status), remedy_for(status)));
  }
}

void check(cublasStatus_t status, const char* doing) {
  if (status != CUBLAS_STATUS_SUCCESS) {
    throw environment_error(
        fmt::format("cuBLASLt error while {}: {}; check that libcublasLt belongs to CUDA 13", doing,
                    cublasLtGetStatusString(status)));
  }
}

}  // namespace snug::cuda
