// Arenas by mmap, and what of them has been written.
#include "backend/cpu/cpu_backend.h"

#include <cblas.h>
#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "backend/cpu/kernels.h"
#include "backend/cpu/machine_memory.h"
#include "base/bytes.h"
#include "base/check.h"
#include "base/error.h"
#include "base/threads.h"
#include "ops/table.h"

namespace snug {
namespace {

// The pattern of a poisoned arena: no value that a kernel writes follows it, not even zeros or repeats.
uint64_t poison_word(int64_t word_index) {
  uint64_t value = (static_cast<uint64_t>(word_index) + 1) * 0x9E3779B97F4A7C15ULL;
  value = (value ^ (value >> 29)) * 0xBF58476D1CE4E5B9ULL;
  return value ^ (value >> 32);
}

std::byte poison_byte(int64_t offset) {
  return static_cast<std::byte>(poison_word(offset / 8) >> (offset % 8 * 8));
}

void fill_with_poison(std::byte* data, int64_t bytes) {
  parallel_for(bytes / 8, 1 << 16, [&](int64_t first, int64_t last) {
    for (int64_t word = first; word < last; ++word) {
      uint64_t value = poison_word(word);
      std::memcpy(data + word * 8, &value, sizeof value);
    }
  });
  for (int64_t offset = bytes / 8 * 8; offset < bytes; ++offset) {
    data[offset] = poison_byte(offset);
  }
}

// The offset after the last byte that no longer follows the pattern.
int64_t end_of_writes(const std::byte* data, int64_t bytes) {
  int64_t end = bytes;
  while (end > 0) {
    if (end % 8 == 0) {
      uint64_t value;
      std::memcpy(&value, data + end - 8, sizeof value);
      if (value == poison_word(end / 8 - 1)) {
        end -= 8;
        continue;
      }
    }
    if (data[end - 1] != poison_byte(end - 1)) {
      break;
    }
    --end;
  }
  return end;
}

}  // namespace

CpuBackend::~CpuBackend() {
  for (const Arena& arena : arenas_) {
    if (arena.data != nullptr) {
      ::munmap(arena.data, static_cast<size_t>(arena.bytes));
    }
  }
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
      if (id != kNoBuffer && program.buffer(id).dtype == DType::f16) {
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
  return kernel.workspace_bytes == nullptr ? 0 : kernel.workspace_bytes(program, op);
}

std::byte* CpuBackend::allocate_arena(Home home, int64_t bytes) {
  Arena& wanted = arenas_[static_cast<size_t>(home)];
  SNUG_CHECK(!wanted.taken, fmt::format("the {} arena is taken twice", name_of(home)));
  SNUG_CHECK(bytes >= 0, "an arena of negative size");
  int64_t others = 0;
  for (const Arena& arena : arenas_) {
    others += arena.bytes;
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
  wanted.taken = true;
  if (bytes == 0) {
    return nullptr;
  }
  void* address =
      ::mmap(nullptr, static_cast<size_t>(bytes), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (address == MAP_FAILED) {
    wanted.taken = false;
    throw environment_error(fmt::format(
        "the system refused {} ({} bytes) for the {} arena: {}; close other programs or raise the limit "
        "(ulimit -v, vm.overcommit_memory)",
        format_bytes(bytes), bytes, name_of(home), std::strerror(errno)));
  }
  // Fewer page faults and address translations; a refusal costs speed only.
  ::madvise(address, static_cast<size_t>(bytes), MADV_HUGEPAGE);
  wanted.data = static_cast<std::byte*>(address);
  wanted.bytes = bytes;
  if (poison_) {
    fill_with_poison(wanted.data, bytes);
  }
  return wanted.data;
}

int64_t CpuBackend::allocated_bytes(Home home) const {
  return arena(home).bytes;
}

int64_t CpuBackend::touched_bytes(Home home) const {
  const Arena& asked = arena(home);
  int64_t end = poison_ ? end_of_writes(asked.data, asked.bytes) : asked.touched_bytes;
  return std::min(align_up(end), asked.bytes);
}

void CpuBackend::note_write(const void* address, int64_t bytes) {
  const auto* begin = static_cast<const std::byte*>(address);
  for (Arena& arena : arenas_) {
    if (arena.data != nullptr && begin >= arena.data && begin < arena.data + arena.bytes) {
      int64_t end = begin - arena.data + bytes;
      SNUG_CHECK(end <= arena.bytes,
                 fmt::format("a write ends {} bytes behind its arena", end - arena.bytes));
      arena.touched_bytes = std::max(arena.touched_bytes, end);
      return;
    }
  }
}

void CpuBackend::run(const KernelCall& call) {
  const cpu::Kernel& kernel = cpu::kernel_of(call.op.kind);
  SNUG_CHECK(kernel.run != nullptr, "op without a kernel; find_unsupported says so before");
  for (const Tensor& output : call.outputs) {
    if (output.data != nullptr) {
      note_write(output.data, output.bytes());
    }
  }
  note_write(call.workspace.data(), static_cast<int64_t>(call.workspace.size()));
  kernel.run(call);
}

void CpuBackend::upload(void* device, const void* host, int64_t bytes) {
  note_write(device, bytes);
  std::memcpy(device, host, static_cast<size_t>(bytes));
}

void CpuBackend::download(void* host, const void* device, int64_t bytes) {
  std::memcpy(host, device, static_cast<size_t>(bytes));
}

std::optional<int64_t> CpuBackend::device_total_bytes() const {
  return machine_memory_bytes();
}

std::string cpu_libraries() {
  std::string_view config = openblas_get_config();  // "OpenBLAS 0.3.21 NO_LAPACKE ..."
  size_t version_end = config.find(' ', config.find(' ') + 1);
  return std::string(config.substr(0, version_end)) + " (kernels for " + openblas_get_corename() + ")";
}

}  // namespace snug
