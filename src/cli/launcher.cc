// What launchers tell the processes they start, through the environment.
#include "cli/launcher.h"

#include <fmt/format.h>

#include <array>
#include <cstdlib>
#include <string_view>

#include "base/error.h"

namespace snug {
namespace {

struct Launcher {
  const char* variable;  // how many processes there are
  std::string_view name;
};

// srun's own variable, not SLURM_NTASKS: a batch script has that too, and runs once.
constexpr auto kLaunchers = std::to_array<Launcher>({
    {"WORLD_SIZE", "torchrun or accelerate"},
    {"SLURM_STEP_NUM_TASKS", "srun"},
    {"OMPI_COMM_WORLD_SIZE", "mpirun"},
    {"PMI_SIZE", "mpirun"},
});

}  // namespace

void refuse_several_ranks() {
  for (const Launcher& launcher : kLaunchers) {
    const char* count = std::getenv(launcher.variable);
    if (count != nullptr && std::atoi(count) > 1) {
      throw bad_input(
          fmt::format("{} processes were started ({}={}, set by {}), but snug trains in one process on one "
                      "card: start it "
                      "alone, without the launcher",
                      count, launcher.variable, count, launcher.name));
    }
  }
}

}  // namespace snug
