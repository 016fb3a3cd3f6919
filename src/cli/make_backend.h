// The one place that knows which backends this build has.
#pragma once

#include <memory>
#include <string>

#include "backend/backend.h"

namespace CLI {
class App;
}

namespace snug {

struct DeviceArguments {
  std::string device;  // "": the build's own
  bool tf32 = false;
};
// --device and what belongs to it, of a command that computes or plans.
void add_device_arguments(CLI::App& command, DeviceArguments& arguments);

// "cpu: OpenBLAS 0.3.21 (kernels for Haswell)", for --version.
std::string describe_backends();

// To run on. Throws environment_error if the device is not there: another is used only when it is asked for.
std::unique_ptr<Backend> make_backend(const DeviceArguments& arguments);

// To plan for, on any machine: with a card as it is, without one as `limit` describes it.
std::unique_ptr<Backend> make_planning_backend(const DeviceArguments& arguments, bool has_limit);

}  // namespace snug
