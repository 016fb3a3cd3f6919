// A build with CUDA: the card, or the CPU when it is asked for.
#include <CLI/CLI.hpp>

#include "backend/cpu/cpu_backend.h"
#include "backend/cuda/cuda_backend.h"
#include "base/error.h"
#include "cli/make_backend.h"

namespace snug {
namespace {

bool wants_card(const DeviceArguments& arguments) {
  if (arguments.device.empty() || arguments.device == "cuda") {
    return true;
  }
  if (arguments.device != "cpu") {
    throw bad_input("--device is \"" + arguments.device + "\": expected cuda or cpu");
  }
  return false;
}

}  // namespace

void add_device_arguments(CLI::App& command, DeviceArguments& arguments) {
  command.add_option("--device", arguments.device, "cuda (the default of this build) or cpu");
  command.add_flag("--tf32", arguments.tf32,
                   "On the card: multiply fp32 with 10 bits of mantissa, which is several times as fast");
}

std::string describe_backends() {
  return "cpu: " + cpu_libraries() + "; cuda: " + cuda_libraries();
}

std::unique_ptr<Backend> make_backend(const DeviceArguments& arguments) {
  if (!wants_card(arguments)) {
    return std::make_unique<CpuBackend>();
  }
  return std::make_unique<CudaBackend>(CudaOptions{.tf32 = arguments.tf32});
}

std::unique_ptr<Backend> make_planning_backend(const DeviceArguments& arguments, bool has_limit) {
  if (!wants_card(arguments)) {
    return std::make_unique<CpuBackend>();
  }
  try {
    return make_backend(arguments);
  } catch (const Error& error) {
    if (!has_limit) {
      throw environment_error(
          std::string(error.what()) +
          "; to plan for a card that is not here, say how much memory it has: --memory 24GB");
    }
    return std::make_unique<CudaBackend>(CudaOptions{.opened = false});
  }
}

}  // namespace snug
