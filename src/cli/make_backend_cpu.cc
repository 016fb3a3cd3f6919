// A build without CUDA: the CPU is all there is to run on.
#include <fmt/format.h>

#include "backend/cpu/cpu_backend.h"
#include "base/error.h"
#include "cli/make_backend.h"
#include "cli/wait_for_device.h"

namespace snug {

bool build_has_cuda() {
  return false;
}

std::string describe_backends() {
  return "cpu: " + cpu_libraries();
}

std::unique_ptr<Backend> open_card(const DeviceArguments& arguments, const CardChoice&) {
  throw bad_input(fmt::format(
      "--device is \"{}\", but this is a build for the CPU: build with 'make cuda'. To plan for a "
      "card, any build will do: snug plan --device cuda",
      arguments.device));
}

std::optional<cuda::CardUse> look_at_card(const DeviceArguments&) {
  return std::nullopt;
}

}  // namespace snug
