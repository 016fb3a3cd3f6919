// Choosing a device by its name.
#include "cli/make_backend.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <optional>

#include "backend/cpu/cpu_backend.h"
#include "backend/cuda_plan/planned_card.h"
#include "base/error.h"
#include "cli/argument_checks.h"
#include "io/printable.h"

namespace snug {
namespace {

// Nothing: the CPU.
std::optional<CardChoice> chosen_card(const DeviceArguments& arguments) {
  if (arguments.device.empty()) {
    return build_has_cuda() ? std::optional(CardChoice{}) : std::nullopt;
  }
  std::optional<CardChoice> card = parse_card_choice(arguments.device);
  if (!card && arguments.device != "cpu") {
    throw bad_input(fmt::format("--device is {}: expected cpu, cuda, cuda:N (a card's number) or cuda:auto",
                                in_quotes(arguments.device)));
  }
  return card;
}

}  // namespace

void add_device_arguments(CLI::App& command, DeviceArguments& arguments) {
  command
      .add_option("--device", arguments.device,
                  build_has_cuda()
                      ? "cuda (the default of this build: the first card), cuda:N, cuda:auto (the card with "
                        "the most free memory) or cpu"
                      : "cpu (the default of this build) or cuda, which every build plans for")
      ->check(find_emptiness);
  if (build_has_cuda()) {
    command.add_flag("--tf32", arguments.tf32,
                     "On the card: multiply fp32 with 10 bits of mantissa, which is several times as fast");
  }
}

void add_gpu_argument(CLI::App& command, DeviceArguments& arguments) {
  command
      .add_option(
          "--gpu", arguments.gpu,
          "Plan for a card that is not here, by its name: 3090, A10G, \"RTX 6000 Ada\" ... (docs/cards.md, "
          "or snug docs cards)")
      ->check(find_emptiness)
      ->excludes("--device");
}

std::unique_ptr<Backend> make_backend(const DeviceArguments& arguments) {
  if (std::optional<CardChoice> card = chosen_card(arguments)) {
    return open_card(arguments, *card);
  }
  return std::make_unique<CpuBackend>();
}

std::unique_ptr<Device> make_planning_device(const DeviceArguments& arguments) {
  if (!arguments.gpu.empty()) {
    return std::make_unique<PlannedCard>(&find_catalogue_card(arguments.gpu));
  }
  std::optional<CardChoice> card = chosen_card(arguments);
  if (!card) {
    return std::make_unique<CpuBackend>();
  }
  if (!build_has_cuda()) {
    return std::make_unique<PlannedCard>();
  }
  try {
    return open_card(arguments, *card);
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::bad_input) {
      throw;  // there are cards, but not this one
    }
    return std::make_unique<PlannedCard>();
  }
}

std::string describe_device(const Device& device, const DeviceArguments& arguments) {
  std::string text = device.label();
  if (arguments.device == "cuda:auto" && text != device.name()) {
    text += ", the freest";
  }
  if (std::string found = device.description(); !found.empty()) {
    text += ": " + found;
  }
  if (arguments.device.empty() && device.name() == "cpu") {
    text += " (to plan for a card: snug plan --device cuda)";
  }
  return text;
}

}  // namespace snug
