// The machine beside its cards: processor, memory, limits of this process, disk.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>
#include <vector>

#include "doctor/check.h"

namespace snug {

// What a process may have, as `ulimit` sets it; nothing: no limit.
struct ProcessLimits {
  std::optional<int64_t> open_files;
  std::optional<int64_t> locked_bytes;
  std::optional<int64_t> file_bytes;
  std::optional<int64_t> address_bytes;
};
ProcessLimits read_process_limits();

// `all_bytes`: the machine's, or its container's if that is less.
Check check_memory(int64_t all_bytes, std::optional<int64_t> available_bytes);
// `kernels`: the processor that OpenBLAS takes this one for.
Check check_processor(std::string_view kernels, bool has_avx2);
bool processor_has_avx2();
// `largest_file_bytes`: that the run will write; 0: not known.
std::vector<Check> check_limits(const ProcessLimits& limits, int64_t largest_file_bytes);
// Whether a run can write `bytes`, if that is known, into a folder that need not be there yet.
Check check_output(const std::filesystem::path& folder, std::optional<int64_t> bytes);

}  // namespace snug
