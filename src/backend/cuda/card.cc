// NVML's few functions that are needed here, by their stable names.
#include "backend/cuda/card.h"

#include <cuda_runtime.h>
#include <dlfcn.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "backend/cuda/check.h"
#include "base/bytes.h"
#include "base/error.h"

namespace snug::cuda {
namespace {

constexpr int kSuccess = 0;

struct Memory {
  unsigned long long total;
  unsigned long long free;
  unsigned long long used;
};

struct ProcessInfo {
  unsigned pid;
  unsigned long long used_bytes;
  unsigned gpu_instance;
  unsigned compute_instance;
};
constexpr unsigned long long kNotAvailable = ~0ULL;

// The library, open while this lives.
class Nvml {
 public:
  Nvml() : library_(dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL)) {
    if (library_ == nullptr) {
      return;
    }
    auto initialise = find<int (*)()>("nvmlInit_v2");
    ready_ = initialise != nullptr && initialise() == kSuccess;
  }
  ~Nvml() {
    if (ready_) {
      if (auto shut_down = find<int (*)()>("nvmlShutdown")) {
        shut_down();
      }
    }
    if (library_ != nullptr) {
      dlclose(library_);
    }
  }
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  bool ready() const { return ready_; }
  template <typename Function>
  Function find(const char* name) const {
    return reinterpret_cast<Function>(dlsym(library_, name));
  }

 private:
  void* library_;
  bool ready_ = false;
};

std::string text_of(const Nvml& nvml, const char* function) {
  std::array<char, 96> text{};
  auto ask = nvml.find<int (*)(char*, unsigned)>(function);
  bool known = ask != nullptr && ask(text.data(), static_cast<unsigned>(text.size() - 1)) == kSuccess;
  return known ? text.data() : "";
}

std::vector<CardProcess> processes_of(const Nvml& nvml, void* device) {
  using List = int (*)(void*, unsigned*, ProcessInfo*);
  using Name = int (*)(unsigned, char*, unsigned);
  std::array<ProcessInfo, 64> infos{};
  auto count = static_cast<unsigned>(infos.size());
  auto list = nvml.find<List>("nvmlDeviceGetComputeRunningProcesses_v3");
  if (list == nullptr || list(device, &count, infos.data()) != kSuccess) {
    return {};
  }
  auto name_of_process = nvml.find<Name>("nvmlSystemGetProcessName");
  std::vector<CardProcess> processes;
  for (unsigned i = 0; i < std::min<unsigned>(count, static_cast<unsigned>(infos.size())); ++i) {
    std::array<char, 256> name{};
    if (name_of_process == nullptr ||
        name_of_process(infos[i].pid, name.data(), static_cast<unsigned>(name.size() - 1)) != kSuccess) {
      name[0] = '\0';
    }
    std::string text = name.data();
    int64_t bytes = infos[i].used_bytes == kNotAvailable ? 0 : static_cast<int64_t>(infos[i].used_bytes);
    processes.push_back({infos[i].pid, text.substr(text.rfind('/') + 1), bytes});
  }
  return processes;
}

// Without NVML a card has to be opened for that, and is left as it was found.
int64_t ask_free_bytes(int card) {
  size_t free_bytes = 0;
  size_t all_bytes = 0;
  check(cudaSetDevice(card), "looking at the cards");
  check(cudaMemGetInfo(&free_bytes, &all_bytes), "asking for free memory");
  check(cudaDeviceReset(), "looking at the cards");
  return static_cast<int64_t>(free_bytes);
}

double attribute(cudaDeviceAttr which, int card) {
  int value = 0;
  check(cudaDeviceGetAttribute(&value, which, card), "looking at the card");
  return value;
}

}  // namespace

void require_card() {
  int count = 0;
  cudaError_t status = cudaGetDeviceCount(&count);
  if (status == cudaErrorInsufficientDriver) {
    int found = 0;
    check(cudaDriverGetVersion(&found), "looking for a driver");
    throw environment_error(driver_problem(found, CUDART_VERSION));
  }
  if (status == cudaSuccess && count == 0) {
    status = cudaErrorNoDevice;
  }
  check(status, "looking for a card");
}

std::vector<Card> find_cards() {
  require_card();
  int count = 0;
  check(cudaGetDeviceCount(&count), "looking for cards");
  std::vector<Card> cards;
  for (int number = 0; number < count; ++number) {
    cudaDeviceProp properties{};
    check(cudaGetDeviceProperties(&properties, number), "looking at the cards");
    Card card{.number = number,
              .name = properties.name,
              .free_bytes = 0,
              .total_bytes = static_cast<int64_t>(properties.totalGlobalMem)};
    if (std::optional<CardUse> use = card_use(pci_bus_id(number))) {
      card.free_bytes = use->total_bytes - use->used_bytes;
    } else if (count > 1) {
      card.free_bytes = ask_free_bytes(number);
    }
    cards.push_back(card);
  }
  return cards;
}

CardShape read_card_shape(int card) {
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, card), "looking at the card");
  double bits = attribute(cudaDevAttrGlobalMemoryBusWidth, card);
  double memory_khz = attribute(cudaDevAttrMemoryClockRate, card);
  return {.capability = properties.major * 10 + properties.minor,
          .multiprocessors = attribute(cudaDevAttrMultiProcessorCount, card),
          .clock_hz = 1e3 * attribute(cudaDevAttrClockRate, card),
          .memory_bytes_hz = 2 * 1e3 * memory_khz * bits / 8,
          .half_rate = adds_at_half_rate(properties.name)};
}

std::string pci_bus_id(int card) {
  std::array<char, 32> id{};
  check(cudaDeviceGetPCIBusId(id.data(), static_cast<int>(id.size()), card), "looking at the card");
  return id.data();
}

std::optional<CardUse> card_use(const std::string& pci_bus_id) {
  Nvml nvml;
  if (!nvml.ready()) {
    return std::nullopt;
  }
  void* device = nullptr;
  auto open = nvml.find<int (*)(const char*, void**)>("nvmlDeviceGetHandleByPciBusId_v2");
  auto ask_memory = nvml.find<int (*)(void*, Memory*)>("nvmlDeviceGetMemoryInfo");
  Memory memory{};
  if (open == nullptr || ask_memory == nullptr || open(pci_bus_id.c_str(), &device) != kSuccess ||
      ask_memory(device, &memory) != kSuccess) {
    return std::nullopt;
  }
  return CardUse{.driver_version = text_of(nvml, "nvmlSystemGetDriverVersion"),
                 .total_bytes = static_cast<int64_t>(memory.total),
                 .used_bytes = static_cast<int64_t>(memory.used),
                 .processes = processes_of(nvml, device)};
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
