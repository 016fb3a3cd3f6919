// Arenas by mmap.
#include "backend/cpu/cpu_backend.h"

#include <cblas.h>
#include <fmt/format.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <string>

#include "backend/cpu/kernels.h"
#include "backend/cpu/machine_memory.h"
#include "base/bytes.h"
#include "base/check.h"
#include "base/error.h"
#include "ops/table.h"

namespace snug {

CpuBackend::~CpuBackend() {
  for (int home = 0; home < kHomeCount; ++home) {
    const Arena& arena = arenas_.of(static_cast<Home>(home));
    if (arena.data != nullptr) {
      ::munmap(arena.data, static_cast<size_t>(arena.bytes));
    }
  }
}

std::string CpuBackend::description() const {
  return fmt::format("{} thread{}", threads_, threads_ == 1 ? "" : "s");
}

// The processor's name, where Linux knows one.
DeviceIdentity CpuBackend::identity() const {
  std::ifstream file("/proc/cpuinfo");
  std::string line;
  while (std::getline(file, line)) {
    if (size_t colon = line.find(": "); line.starts_with("model name") && colon != std::string::npos) {
      return {.model = line.substr(colon + 2), .driver = ""};
    }
  }
  return {};
}

std::string CpuBackend::find_unsupported(const Program& program, const Op& op) const {
  if (cpu::kernel_of(op.kind).run == nullptr) {
    return fmt::format("the cpu backend has no kernel for op {}", row_of(op.kind).name);
  }
  // These move bytes or convert; all other kernels compute on fp32 and bf16.
  if (op.kind == OpKind::copy || op.kind == OpKind::fill || op.kind == OpKind::cache_write) {
    return "";
  }
  auto problem_with = [&](const std::vector<BufferId>& ids) -> std::string {
    for (BufferId id : ids) {
      if (id != kNoBuffer && program.buffer(id).format == DType::f16) {
        return fmt::format(
            "the cpu backend has no {} kernel for op {} (buffer \"{}\"): use fp32 or bf16, or a "
            "card (--device cuda)",
            name_of(DType::f16), row_of(op.kind).name, program.buffer(id).name);
      }
    }
    return "";
  };
  std::string problem = problem_with(op.inputs);
  return problem.empty() ? problem_with(op.outputs) : problem;
}

int64_t CpuBackend::workspace_bytes(const Program& program, const Op& op) const {
  const cpu::Kernel& kernel = cpu::kernel_of(op.kind);
  return kernel.workspace_bytes == nullptr ? 0 : kernel.workspace_bytes(program, op, threads_);
}

std::byte* CpuBackend::allocate_arena(Home home, int64_t bytes) {
  arenas_.require_free(home, bytes);
  int64_t others = 0;
  for (int other = 0; other < kHomeCount; ++other) {
    others += allocated_bytes(static_cast<Home>(other));
  }
  // The kernel promises more than it has and kills the process later; refuse now instead.
  int64_t total = machine_memory_bytes();
  if (bytes > total - others) {
    throw environment_error(fmt::format(
        "the {} arena needs {} ({} bytes), but this machine has {} in all{}; lower the memory limit, the "
        "micro-batch or the sequence length, or use a larger machine",
        name_of(home), format_bytes(bytes), bytes, format_bytes(total),
        others == 0 ? "" : fmt::format(", of which other arenas hold {}", format_bytes(others))));
  }
  if (bytes == 0) {
    arenas_.take(home, nullptr, 0);
    return nullptr;
  }
  void* address =
      ::mmap(nullptr, static_cast<size_t>(bytes), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (address == MAP_FAILED) {
    throw environment_error(fmt::format(
        "the system refused {} ({} bytes) for the {} arena: {}; close other programs or raise the limit "
        "(ulimit -v, vm.overcommit_memory)",
        format_bytes(bytes), bytes, name_of(home), std::strerror(errno)));
  }
  // Fewer page faults and address translations; a refusal costs speed only.
  ::madvise(address, static_cast<size_t>(bytes), MADV_HUGEPAGE);
  arenas_.take(home, static_cast<std::byte*>(address), bytes);
  return static_cast<std::byte*>(address);
}

void CpuBackend::run(const KernelCall& call) {
  const cpu::Kernel& kernel = cpu::kernel_of(call.op.kind);
  SNUG_CHECK(kernel.run != nullptr, "op without a kernel; find_unsupported says so before");
  SNUG_CHECK(thread_count() <= threads_, "more threads than were planned for");
  arenas_.announce(call);
  kernel.run(call);
}

void CpuBackend::upload(void* device, const void* host, int64_t bytes) {
  arenas_.announce(device, bytes);
  std::memcpy(device, host, static_cast<size_t>(bytes));
}

void CpuBackend::download(void* host, const void* device, int64_t bytes) {
  std::memcpy(host, device, static_cast<size_t>(bytes));
}

std::optional<int64_t> CpuBackend::device_total_bytes() const {
  return machine_memory_bytes();
}

std::optional<int64_t> CpuBackend::host_available_bytes() const {
  return available_memory_bytes();
}

std::string cpu_libraries() {
  std::string_view config = openblas_get_config();  // "OpenBLAS 0.3.21 NO_LAPACKE ..."
  size_t version_end = config.find(' ', config.find(' ') + 1);
  return std::string(config.substr(0, version_end)) + " (kernels for " + cpu_kernels() + ")";
}

std::string cpu_kernels() {
  return openblas_get_corename();
}

}  // namespace snug
