// Asking NVML.
#include "backend/cuda_plan/card_use.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "base/bytes.h"

namespace snug::cuda {
namespace {

constexpr unsigned kMostProcesses = 64;

template <typename Ask>
std::string text_of(Ask ask) {
  std::array<char, 256> text{};
  return ask(text.data(), static_cast<unsigned>(text.size() - 1)) == kNvmlSuccess ? text.data() : "";
}

using ListProcesses = int (*)(void*, unsigned*, NvmlProcess*);

void add_processes(const NvmlTable& table, void* card, ListProcesses list, std::vector<CardProcess>& found) {
  std::array<NvmlProcess, kMostProcesses> infos{};
  unsigned count = kMostProcesses;
  if (list == nullptr || list(card, &count, infos.data()) != kNvmlSuccess) {
    return;
  }
  for (const NvmlProcess& info : std::span(infos).first(std::min(count, kMostProcesses))) {
    // One that computes and draws is in both lists.
    bool is_known = std::any_of(found.begin(), found.end(),
                                [&](const CardProcess& process) { return process.pid == info.pid; });
    if (is_known) {
      continue;
    }
    std::string name = table.process_name == nullptr ? "" : text_of([&](char* text, unsigned length) {
      return table.process_name(info.pid, text, length);
    });
    int64_t bytes = info.used_bytes == kNvmlNotAvailable ? 0 : static_cast<int64_t>(info.used_bytes);
    found.push_back({info.pid, name.substr(name.rfind('/') + 1), bytes});
  }
}

bool read_memory(const NvmlTable& table, void* card, CardUse& use) {
  NvmlMemoryV2 memory{};
  memory.version = kNvmlMemoryV2;
  if (table.memory_v2 != nullptr && table.memory_v2(card, &memory) == kNvmlSuccess) {
    use.total_bytes = static_cast<int64_t>(memory.total);
    use.reserved_bytes = static_cast<int64_t>(memory.reserved);
    use.used_bytes = static_cast<int64_t>(memory.total - memory.free);
    return true;
  }
  NvmlMemory plain{};
  if (table.memory == nullptr || table.memory(card, &plain) != kNvmlSuccess) {
    return false;
  }
  use.total_bytes = static_cast<int64_t>(plain.total);
  use.used_bytes = static_cast<int64_t>(plain.used);
  return true;
}

std::optional<CardUse> read_card(const NvmlTable& table, void* card) {
  CardUse use;
  if (!read_memory(table, card, use)) {
    return std::nullopt;
  }
  if (table.name != nullptr) {
    use.name = text_of([&](char* text, unsigned length) { return table.name(card, text, length); });
  }
  int major = 0;
  int minor = 0;
  if (table.capability != nullptr && table.capability(card, &major, &minor) == kNvmlSuccess) {
    use.capability = major * 10 + minor;
  }
  if (table.driver_version != nullptr) {
    use.driver_version = text_of(table.driver_version);
  }
  if (table.cuda_version != nullptr && table.cuda_version(&use.cuda_version) != kNvmlSuccess) {
    use.cuda_version = 0;
  }
  add_processes(table, card, table.compute_processes, use.processes);
  add_processes(table, card, table.graphics_processes, use.processes);
  return use;
}

}  // namespace

std::optional<int64_t> CardUse::unclaimed_bytes() const {
  int64_t claimed = reserved_bytes;
  for (const CardProcess& process : processes) {
    if (process.bytes == 0) {
      return std::nullopt;
    }
    claimed += process.bytes;
  }
  return std::max<int64_t>(used_bytes - claimed, 0);
}

std::optional<CardUse> card_use(const std::string& pci_bus_id, const NvmlTable& table) {
  void* card = nullptr;
  if (table.by_pci_bus_id == nullptr || table.by_pci_bus_id(pci_bus_id.c_str(), &card) != kNvmlSuccess) {
    return std::nullopt;
  }
  return read_card(table, card);
}

std::vector<CardUse> all_cards(const NvmlTable& table) {
  std::vector<CardUse> cards;
  unsigned count = 0;
  if (table.count == nullptr || table.by_index == nullptr || table.count(&count) != kNvmlSuccess) {
    return cards;
  }
  for (unsigned i = 0; i < count; ++i) {
    void* card = nullptr;
    if (table.by_index(i, &card) != kNvmlSuccess) {
      continue;
    }
    if (std::optional<CardUse> use = read_card(table, card)) {
      cards.push_back(std::move(*use));
    }
  }
  return cards;
}

std::optional<int64_t> own_card_bytes(const CardUse& use) {
  for (const CardProcess& process : use.processes) {
    if (process.pid == static_cast<unsigned>(getpid()) && process.bytes > 0) {
      return process.bytes;
    }
  }
  return std::nullopt;
}

std::string describe_others(const CardUse& use) {
  std::string text;
  for (const CardProcess& process : use.processes) {
    if (process.pid != static_cast<unsigned>(getpid())) {
      text += fmt::format("{}{} (pid {}) holds {}", text.empty() ? "" : ", ",
                          process.name.empty() ? "a process" : process.name, process.pid,
                          process.bytes == 0 ? "an unknown amount" : format_bytes(process.bytes));
    }
  }
  return text;
}

}  // namespace snug::cuda
