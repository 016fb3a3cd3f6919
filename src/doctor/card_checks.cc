// Lines about cards and about those who use them.
#include "doctor/card_checks.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>

#include "base/bytes.h"
#include "io/printable.h"

namespace snug {
namespace {

constexpr int kOldestCapability = 75;  // Turing
// Below this it is a screen's, or a rounding of the driver's.
constexpr int64_t kWorthAWord = int64_t{256} << 20;
constexpr size_t kShownCommand = 80;
// Cards of one kind differ by less than this.
constexpr double kSlowCard = 0.5;

std::string describe_process(const cuda::CardProcess& process, const FindProcess& find) {
  std::string held =
      process.bytes > 0 ? format_bytes(process.bytes) : "an amount that the driver does not tell";
  std::optional<ProcessFacts> facts = find(process.pid);
  if (!facts) {
    std::string name = process.name.empty() ? "" : fmt::format(" ({})", printable(process.name));
    return fmt::format("{}: process {}{}, which cannot be seen from here", held, process.pid, name);
  }
  std::string command = facts->command.empty() ? process.name : facts->command;
  return fmt::format("{}: process {} of {}, for {}: {}", held, process.pid, facts->user,
                     format_duration(facts->seconds), printable(command, kShownCommand));
}

std::vector<cuda::CardProcess> other_processes(const cuda::CardUse& use) {
  std::vector<cuda::CardProcess> others;
  for (const cuda::CardProcess& process : use.processes) {
    if (process.pid != static_cast<unsigned>(getpid())) {
      others.push_back(process);
    }
  }
  std::stable_sort(others.begin(), others.end(),
                   [](const cuda::CardProcess& a, const cuda::CardProcess& b) { return a.bytes > b.bytes; });
  return others;
}

std::string plan_for_the_rest(const cuda::CardUse& use) {
  return fmt::format("plan for what is free (--memory {}MiB)", use.free_bytes() >> 20);
}

Check check_card(const cuda::CardUse& use, const std::string& subject) {
  std::string driver = use.driver_version.empty() ? "" : "; driver " + use.driver_version;
  if (use.cuda_version > 0) {
    driver += fmt::format(", CUDA {}.{}", use.cuda_version / 1000, use.cuda_version % 1000 / 10);
  }
  Check found{.subject = subject,
              .text = fmt::format("{}: {} of {} free{}", use.name.empty() ? "a card" : printable(use.name),
                                  format_bytes(use.free_bytes()), format_bytes(use.total_bytes), driver)};
  if (use.capability > 0 && use.capability < kOldestCapability) {
    found.status = CheckStatus::problem;
    found.text += fmt::format("; compute capability {}.{}", use.capability / 10, use.capability % 10);
    found.remedy = "snug needs compute capability 7.5 (Turing) or newer: use another card, or --device cpu";
  }
  return found;
}

void add_holders(const cuda::CardUse& use, const std::string& subject, const FindProcess& find,
                 std::vector<Check>& checks) {
  for (const cuda::CardProcess& process : other_processes(use)) {
    Check found{.subject = subject, .text = "holds " + describe_process(process, find)};
    if (process.bytes == 0 || process.bytes >= kWorthAWord) {
      found.status = CheckStatus::warning;
      found.remedy = fmt::format("wait until it is done (snug train --wait), speak with its owner, or {}",
                                 plan_for_the_rest(use));
    }
    checks.push_back(std::move(found));
  }
  if (int64_t bytes = use.unclaimed_bytes().value_or(0); bytes >= kWorthAWord) {
    checks.push_back({.subject = subject,
                      .status = CheckStatus::warning,
                      .text = fmt::format("{} are held by no process that can be seen", format_bytes(bytes)),
                      .remedy = fmt::format(
                          "they are another container's, or a process is ending and the driver still has to "
                          "free them: wait (snug train --wait), or {}",
                          plan_for_the_rest(use))});
  }
}

}  // namespace

std::vector<std::string> describe_holders(const cuda::CardUse& use, const FindProcess& find) {
  std::vector<std::string> lines;
  for (const cuda::CardProcess& process : other_processes(use)) {
    lines.push_back(describe_process(process, find));
  }
  if (int64_t bytes = use.unclaimed_bytes().value_or(0); bytes >= kWorthAWord) {
    lines.push_back(fmt::format("{}: no process that can be seen", format_bytes(bytes)));
  }
  return lines;
}

std::vector<Check> check_cards(const cuda::NvmlTable& nvml, bool needs_card, const FindProcess& find) {
  std::vector<cuda::CardUse> cards = cuda::all_cards(nvml);
  if (cards.empty()) {
    Check none{.subject = "card",
               .text = nvml.is_there()
                           ? "the driver knows no card"
                           : "none can be seen: there is no NVIDIA driver here (libnvidia-ml.so.1)"};
    if (needs_card) {
      none.status = CheckStatus::problem;
      none.remedy =
          "install the driver, give the container its cards, or train on the processor: --device cpu";
    }
    return {none};
  }
  std::vector<Check> checks;
  for (size_t i = 0; i < cards.size(); ++i) {
    std::string subject = cards.size() == 1 ? "card" : fmt::format("card {}", i);
    checks.push_back(check_card(cards[i], subject));
    add_holders(cards[i], subject, find, checks);
  }
  return checks;
}

Check check_rates(const Device& card) {
  constexpr DType kDType = DType::f16;  // as bf16, where a card has that
  DeviceRates rates = card.rates(kDType);
  DeviceRates usual = card.assumed_rates(kDType);
  RatesOrigin origin = card.rates_origin();
  Check found{.subject = "rates",
              .text = fmt::format("products {:.0f} TFLOP/s in 16 bits, memory {} GB/s, {}",
                                  rates.product_flops / 1e12,
                                  format_count(std::llround(rates.bytes_per_second / 1e9)), origin.text)};
  if (!origin.is_measured) {
    return found;
  }
  double products = rates.product_flops / usual.product_flops;
  double memory = rates.bytes_per_second / usual.bytes_per_second;
  found.text +=
      fmt::format(": {:.0f}% and {:.0f}% of what such a card usually reaches", 100 * products, 100 * memory);
  if (products < kSlowCard || memory < kSlowCard) {
    found.status = CheckStatus::warning;
    found.remedy =
        "a limit on its power, heat, or another process that was at work: nvidia-smi -q -d "
        "CLOCK,POWER,PERFORMANCE tells; snug doctor --calibrate measures again";
  }
  return found;
}

}  // namespace snug
