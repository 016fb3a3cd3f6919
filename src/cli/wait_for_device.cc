// What is asked for: the driver's word on a card, the system's on its own memory.
#include "cli/wait_for_device.h"

#include <fmt/format.h>
#include <unistd.h>

#include "backend/cpu/machine_memory.h"
#include "backend/cuda_plan/context.h"
#include "cli/run_signals.h"
#include "doctor/card_checks.h"
#include "doctor/waiting.h"
#include "report/console.h"

namespace snug {
namespace {

bool is_card(const DeviceArguments& arguments) {
  return arguments.device.empty() ? build_has_cuda() : arguments.device != "cpu";
}

std::optional<DeviceMemory> memory_of(const DeviceArguments& arguments) {
  if (!is_card(arguments)) {
    std::optional<int64_t> bytes = available_memory_bytes();
    return bytes ? std::optional(DeviceMemory{"this machine", *bytes, {}}) : std::nullopt;
  }
  std::optional<cuda::CardUse> use = look_at_card(arguments);
  if (!use) {
    return std::nullopt;
  }
  return DeviceMemory{use->name, use->free_bytes(),
                      describe_holders(*use, [](unsigned pid) { return read_process(pid); })};
}

}  // namespace

std::optional<int> wait_for_device(const TrainArguments& given, const std::string& device,
                                   int64_t wanted_bytes) {
  if (!given.wait_minutes) {
    return std::nullopt;
  }
  std::FILE* stream = given.json ? stderr : stdout;
  bool for_ever = *given.wait_minutes == 0;
  WaitResult result = wait_for_memory(
      wanted_bytes,
      {.look = [&] { return memory_of({.device = device, .tf32 = false, .gpu = ""}); },
       .should_stop = stop_requested,
       .sleep = [](int seconds) { ::sleep(static_cast<unsigned>(seconds)); },  // a signal ends it
       .tell = [&](const std::string& text) { say("  " + text, stream); },
       .most_minutes = for_ever ? std::nullopt : given.wait_minutes});
  switch (result) {
    case WaitResult::has_room:
      return std::nullopt;
    case WaitResult::stopped:
      say("  stopped while waiting; nothing was begun\n", stream);
      return kExitStopped;
    case WaitResult::too_long:
      say(fmt::format("  there was no room within {} minutes; nothing was begun\n", *given.wait_minutes),
          stderr);
      return kExitDoesNotFit;
  }
  return std::nullopt;
}

std::optional<int> wait_to_open(const TrainArguments& given) {
  if (!given.wait_minutes) {
    return std::nullopt;
  }
  catch_stop_signals();
  return is_card(given.device) ? wait_for_device(given, given.device.device,
                                                 cuda::kTypicalContextBytes + cuda::kLateLoadingBytes)
                               : std::nullopt;
}

}  // namespace snug
