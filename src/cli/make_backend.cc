// Choosing a device by its name.
#include "cli/make_backend.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "backend/cpu/cpu_backend.h"
#include "backend/cuda_plan/planned_card.h"
#include "base/error.h"

namespace snug {
namespace {

bool wants_card(const DeviceArguments& arguments) {
  if (arguments.device.empty()) {
    return build_has_cuda();
  }
  if (arguments.device != "cuda" && arguments.device != "cpu") {
    throw bad_input(fmt::format("--device is \"{}\": expected cpu or cuda", arguments.device));
  }
  return arguments.device == "cuda";
}

}  // namespace

void add_device_arguments(CLI::App& command, DeviceArguments& arguments) {
  command.add_option("--device", arguments.device,
                     build_has_cuda()
                         ? "cuda (the default of this build) or cpu"
                         : "cpu (the default of this build) or cuda, which every build plans for");
  if (build_has_cuda()) {
    command.add_flag("--tf32", arguments.tf32,
                     "On the card: multiply fp32 with 10 bits of mantissa, which is several times as fast");
  }
}

std::unique_ptr<Backend> make_backend(const DeviceArguments& arguments) {
  if (wants_card(arguments)) {
    return open_card(arguments);
  }
  return std::make_unique<CpuBackend>();
}

std::unique_ptr<Device> make_planning_device(const DeviceArguments& arguments) {
  if (!wants_card(arguments)) {
    return std::make_unique<CpuBackend>();
  }
  try {
    return open_card(arguments);
  } catch (const Error&) {
    return std::make_unique<PlannedCard>();
  }
}

std::string describe_device(const Device& device, const DeviceArguments& arguments) {
  std::string text(device.name());
  if (std::string found = device.description(); !found.empty()) {
    text += ": " + found;
  }
  if (arguments.device.empty() && device.name() == "cpu") {
    text += " (to plan for a card: snug plan --device cuda)";
  }
  return text;
}

}  // namespace snug
