// Stages of a recipe: each is a recipe of its own that begins with what the one before it made.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "recipe/recipe.h"
#include "recipe/yaml_tree.h"

namespace snug {

inline constexpr const char* kStagesKey = "stages";
// Far above any real run. Each stage knows all before it, so that text alone could ask for any memory.
inline constexpr size_t kMostStages = 100;

// What is wrong, in words, or "". A stage's name is also that of a folder and of an evaluation set.
std::string find_name_problem(const std::string& name, const std::vector<std::string>& names_before);
std::string read_start(const YamlNode& value, bool is_first, StageStart& out);

// Keys that are the whole run's, and those that a stage has changed all the same.
bool is_run_key(std::string_view key);
std::vector<std::string> find_moved_run_keys(const Recipe& before, const Recipe& stage);

// Whatever does not go together with the stage before (null for the first one), each with its remedy.
std::vector<std::string> find_stage_problems(const Recipe* before, const Recipe& stage);

// Fills in the rest of the stage's place: what is stacked below it, and what else it is evaluated with.
void place_behind(const Recipe& before, Recipe& stage);

// Whether the recipe evaluates with data of its own.
bool evaluates(const DataSection& data);

// The names of a stage's own sets; that of one without a name is the stage's.
std::vector<std::string> own_set_names(const std::string& stage, const DataSection& data);

}  // namespace snug
