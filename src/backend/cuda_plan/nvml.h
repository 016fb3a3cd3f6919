// NVML, the driver's library that tells of cards: the few functions that are needed here, by their stable
// names. It is opened at run time, in every build; a machine without a driver does not have it.
#pragma once

namespace snug::cuda {

inline constexpr int kNvmlSuccess = 0;

struct NvmlMemory {
  unsigned long long total;
  unsigned long long free;
  unsigned long long used;  // with what the driver keeps for itself
};

// The same with what the driver keeps for itself apart; `version` says which layout is asked for.
struct NvmlMemoryV2 {
  unsigned version;
  unsigned long long total;
  unsigned long long reserved;
  unsigned long long free;
  unsigned long long used;
};
inline constexpr unsigned kNvmlMemoryV2 = sizeof(NvmlMemoryV2) | (2U << 24);

struct NvmlProcess {
  unsigned pid;
  unsigned long long used_bytes;
  unsigned gpu_instance;
  unsigned compute_instance;
};
inline constexpr unsigned long long kNvmlNotAvailable = ~0ULL;

// Null where the library does not have the function; all are null where there is no library, or where it does
// not start.
struct NvmlTable {
  int (*driver_version)(char* text, unsigned length) = nullptr;
  int (*cuda_version)(int* version) = nullptr;  // 12080 is 12.8
  int (*count)(unsigned* cards) = nullptr;
  int (*by_index)(unsigned index, void** card) = nullptr;
  int (*by_pci_bus_id)(const char* id, void** card) = nullptr;
  int (*name)(void* card, char* text, unsigned length) = nullptr;
  int (*capability)(void* card, int* major, int* minor) = nullptr;
  int (*memory)(void* card, NvmlMemory* memory) = nullptr;
  int (*memory_v2)(void* card, NvmlMemoryV2* memory) = nullptr;
  // `count` is the room there is, and then how many there are.
  int (*compute_processes)(void* card, unsigned* count, NvmlProcess* processes) = nullptr;
  int (*graphics_processes)(void* card, unsigned* count, NvmlProcess* processes) = nullptr;
  int (*temperature)(void* card, int sensor, unsigned* celsius) = nullptr;
  int (*power)(void* card, unsigned* milliwatts) = nullptr;
  int (*energy)(void* card, unsigned long long* millijoules) = nullptr;  // since the driver was loaded
  // Why its clocks are lower than asked for: bits.
  int (*slowdown_reasons)(void* card, unsigned long long* reasons) = nullptr;
  int (*process_name)(unsigned pid, char* text, unsigned length) = nullptr;

  bool is_there() const { return count != nullptr; }
};

// The machine's; opened once, and kept open.
const NvmlTable& nvml();

}  // namespace snug::cuda
