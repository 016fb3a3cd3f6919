// What `snug train` is given, and what its two ways (one run, or stages) share.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "cli/make_backend.h"
#include "data/run_data.h"
#include "recipe/recipe.h"
#include "report/terminal.h"

namespace snug {

struct TrainArguments {
  RecipeArguments recipe;
  DeviceArguments device;
  int threads = 0;  // as --threads says; other numbers of threads round sums otherwise
  bool json = false;
  bool overwrite = false;
  std::optional<int64_t> wait_minutes;  // until there is room; 0: for ever
  std::optional<std::string> resume;    // "" for the newest checkpoint of output_dir
};

// A recipe with stages.
int train_stages(const TrainArguments& given, std::vector<Recipe> stages);

void print_data(const RunData& data, const DataSection& section, const Style& style);
void say_warning(const std::string& line);
void warn_of_damaged(const std::vector<std::string>& checkpoints);
// What to type to go on.
std::string resume_command(const TrainArguments& given);

}  // namespace snug
