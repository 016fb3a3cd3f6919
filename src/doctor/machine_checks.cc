// Processor, memory, limits and disk.
#include "doctor/machine_checks.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "base/bytes.h"
#include "io/printable.h"
#include "train/run_record.h"

namespace snug {
namespace {

namespace fs = std::filesystem;

// Shards, data files, the token cache, libraries: some dozens, and the driver takes some for itself.
constexpr int64_t kFewFiles = 256;
constexpr int64_t kLittleMemory = int64_t{1} << 30;

std::optional<int64_t> limit_of(int resource) {
  rlimit limit{};
  bool is_limited =
      getrlimit(static_cast<__rlimit_resource_t>(resource), &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
  return is_limited ? std::optional(static_cast<int64_t>(limit.rlim_cur)) : std::nullopt;
}

// The folder, or the one that it would be made in.
fs::path nearest_folder(fs::path folder) {
  std::error_code ignored;
  folder = fs::absolute(folder).lexically_normal();
  while (!fs::exists(folder, ignored) && folder.has_relative_path()) {
    folder = folder.parent_path();
  }
  return folder;
}

}  // namespace

ProcessLimits read_process_limits() {
  return {.open_files = limit_of(RLIMIT_NOFILE),
          .locked_bytes = limit_of(RLIMIT_MEMLOCK),
          .file_bytes = limit_of(RLIMIT_FSIZE),
          .address_bytes = limit_of(RLIMIT_AS)};
}

Check check_memory(int64_t all_bytes, std::optional<int64_t> available_bytes) {
  Check found{
      .subject = "memory",
      .text = fmt::format("{} for this process, by the machine or its container", format_bytes(all_bytes))};
  if (available_bytes) {
    found.text += fmt::format("; {} are available", format_bytes(*available_bytes));
    if (*available_bytes < kLittleMemory) {
      found.status = CheckStatus::warning;
      found.remedy = "loading a model and its data takes memory too: close what is not needed";
    }
  }
  return found;
}

bool processor_has_avx2() {
#ifdef __x86_64__
  return __builtin_cpu_supports("avx2") != 0;
#else
  return false;
#endif
}

// A processor that is newer than the library is taken for the oldest one of its maker.
Check check_processor(std::string_view kernels, bool has_avx2) {
  constexpr std::array<std::string_view, 8> kOld = {"Prescott", "Core2",   "Penryn",    "Dunnington",
                                                    "Nehalem",  "Opteron", "Barcelona", "Generic"};
  Check found{.subject = "processor",
              .text = fmt::format("OpenBLAS multiplies with its kernels for {}", printable(kernels))};
  if (has_avx2 && std::find(kOld.begin(), kOld.end(), kernels) != kOld.end()) {
    found.status = CheckStatus::warning;
    found.text += ", which know no AVX2, as this processor does";
    found.remedy =
        "set OPENBLAS_CORETYPE=Haswell in the environment: on the CPU snug is up to twice as fast then";
  }
  return found;
}

std::vector<Check> check_limits(const ProcessLimits& limits, int64_t largest_file_bytes) {
  auto bytes = [](const std::optional<int64_t>& limit) {
    return limit ? format_bytes(*limit) : std::string("no limit");
  };
  std::vector<Check> checks;
  Check files{.subject = "limits",
              .text = fmt::format("open files {}, locked memory {}, size of a file {}",
                                  limits.open_files ? format_count(*limits.open_files) : "no limit",
                                  bytes(limits.locked_bytes), bytes(limits.file_bytes))};
  if (limits.open_files && *limits.open_files < kFewFiles) {
    files.status = CheckStatus::warning;
    files.remedy = "a model in many files needs more open ones: ulimit -n 4096";
  }
  checks.push_back(files);
  if (limits.file_bytes && largest_file_bytes > *limits.file_bytes) {
    checks.push_back({.subject = "limits",
                      .status = CheckStatus::problem,
                      .text = fmt::format("a checkpoint has files of up to {}, and {} is the limit",
                                          format_bytes(largest_file_bytes), format_bytes(*limits.file_bytes)),
                      .remedy = "ulimit -f unlimited"});
  }
  if (limits.address_bytes) {
    checks.push_back({.subject = "limits",
                      .status = CheckStatus::warning,
                      .text = fmt::format("addresses are limited to {}", format_bytes(*limits.address_bytes)),
                      .remedy =
                          "a card's driver and mapped files need many addresses and little memory: ulimit -v "
                          "unlimited"});
  }
  return checks;
}

Check check_output(const fs::path& folder, std::optional<int64_t> bytes) {
  Check found{.subject = "output", .text = printable(folder.string())};
  fs::path place = nearest_folder(folder);
  if (::access(place.c_str(), W_OK | X_OK) != 0) {
    found.status = CheckStatus::problem;
    found.text += fmt::format(": nothing can be written in {}", in_quotes(place.string()));
    found.remedy = "set output_dir to a folder of yours (--set output_dir=FOLDER)";
    return found;
  }
  struct statvfs disk {};
  if (::statvfs(place.c_str(), &disk) == 0 && disk.f_blocks > 0) {
    auto left = static_cast<int64_t>(disk.f_bavail * disk.f_frsize);
    found.text += fmt::format(": {} free on its disk", format_bytes(left));
    if (bytes) {
      found.text += fmt::format(", {} wanted for the result and checkpoints", format_bytes(*bytes));
    }
    if (bytes && left < *bytes) {
      found.status = CheckStatus::problem;
      found.remedy =
          "free some, keep fewer checkpoints (training.save_total_limit), or set output_dir to another disk";
      return found;
    }
  }
  if (holds_run(folder)) {
    found.status = CheckStatus::warning;
    found.text += "; it holds an earlier run";
    found.remedy = "go on with that one (--resume), replace it (--overwrite), or set another output_dir";
  }
  return found;
}

}  // namespace snug
