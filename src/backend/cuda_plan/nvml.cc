// Opening the library.
#include "backend/cuda_plan/nvml.h"

#include <dlfcn.h>

namespace snug::cuda {
namespace {

template <typename Function>
void find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
}

NvmlTable open_nvml() {
  NvmlTable table;
  void* library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    return table;
  }
  int (*initialise)() = nullptr;
  find(library, "nvmlInit_v2", initialise);
  if (initialise == nullptr || initialise() != kNvmlSuccess) {
    dlclose(library);
    return table;
  }
  find(library, "nvmlSystemGetDriverVersion", table.driver_version);
  find(library, "nvmlSystemGetCudaDriverVersion_v2", table.cuda_version);
  find(library, "nvmlDeviceGetCount_v2", table.count);
  find(library, "nvmlDeviceGetHandleByIndex_v2", table.by_index);
  find(library, "nvmlDeviceGetHandleByPciBusId_v2", table.by_pci_bus_id);
  find(library, "nvmlDeviceGetName", table.name);
  find(library, "nvmlDeviceGetCudaComputeCapability", table.capability);
  find(library, "nvmlDeviceGetMemoryInfo", table.memory);
  find(library, "nvmlDeviceGetMemoryInfo_v2", table.memory_v2);
  find(library, "nvmlDeviceGetComputeRunningProcesses_v3", table.compute_processes);
  find(library, "nvmlDeviceGetGraphicsRunningProcesses_v3", table.graphics_processes);
  find(library, "nvmlDeviceGetTemperature", table.temperature);
  find(library, "nvmlDeviceGetPowerUsage", table.power);
  find(library, "nvmlDeviceGetTotalEnergyConsumption", table.energy);
  // Drivers before 535 know them by another name.
  find(library, "nvmlDeviceGetCurrentClocksEventReasons", table.slowdown_reasons);
  if (table.slowdown_reasons == nullptr) {
    find(library, "nvmlDeviceGetCurrentClocksThrottleReasons", table.slowdown_reasons);
  }
  find(library, "nvmlSystemGetProcessName", table.process_name);
  return table;
}

}  // namespace

const NvmlTable& nvml() {
  static const NvmlTable table = open_nvml();
  return table;
}

}  // namespace snug::cuda
