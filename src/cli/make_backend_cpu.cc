// A build without CUDA: the CPU is all there is.
#include <CLI/CLI.hpp>

#include "backend/cpu/cpu_backend.h"
#include "base/error.h"
#include "cli/make_backend.h"

namespace snug {

void add_device_arguments(CLI::App& command, DeviceArguments& arguments) {
  command.add_option("--device", arguments.device,
                     "cpu (this build has no CUDA; 'make cuda' builds with it)");
}

std::string describe_backends() {
  return "cpu: " + cpu_libraries();
}

std::unique_ptr<Backend> make_backend(const DeviceArguments& arguments) {
  if (arguments.device == "cuda") {
    throw bad_input("--device is \"cuda\", but this is a build for the CPU: build with 'make cuda'");
  }
  if (!arguments.device.empty() && arguments.device != "cpu") {
    throw bad_input("--device is \"" + arguments.device + "\": expected cpu");
  }
  return std::make_unique<CpuBackend>();
}

std::unique_ptr<Backend> make_planning_backend(const DeviceArguments& arguments, bool /*has_limit*/) {
  return make_backend(arguments);
}

}  // namespace snug
