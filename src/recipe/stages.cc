// What stages may be, and what follows from their order.
#include "recipe/stages.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>

#include "recipe/choices.h"
#include "recipe/key_types.h"
#include "recipe/keys.h"
#include "recipe/write.h"

namespace snug {
namespace {

constexpr std::array<std::string_view, 7> kRunKeys = {
    "model.path",         "model.dtype",  "model.quantization", "model.compute",
    "model.from_scratch", "memory.limit", "output_dir"};
constexpr size_t kLongestName = 60;

std::string printed(const RecipeKey& key, const Recipe& recipe) {
  return yaml_value(key.print(recipe));
}

// Whether both name the same files to evaluate with; rows kept from train_file are a stage's own.
bool has_same_sets(const DataSection& a, const DataSection& b) {
  return !a.eval_file.empty() && a.eval_file == b.eval_file && a.eval_sets == b.eval_sets;
}

// The same adapter is trained on, so that all but its dropout must be as it was.
void find_other_adapter(const Recipe& before, const Recipe& stage, std::vector<std::string>& problems) {
  for (const RecipeKey& key : recipe_keys()) {
    bool may_differ = key.section() != "lora" || key.leaf() == "lora_dropout" || key.leaf() == "start";
    if (!may_differ && key.print(before) != key.print(stage)) {
      problems.push_back(
          fmt::format("{} is {}, but stage {}, which it continues, has {}: keep that, or write start: stack "
                      "or start: merge for a new adapter",
                      key.name, printed(key, stage), before.stage.name, printed(key, before)));
    }
  }
}

void find_start_problems(const Recipe& before, const Recipe& stage, std::vector<std::string>& problems) {
  auto refuse = [&](bool wrong, const std::string& why) {
    if (wrong) {
      problems.push_back(why);
    }
  };
  const std::string& last = before.stage.name;
  bool both_adapt = before.lora && stage.lora;
  switch (stage.stage.start) {
    case StageStart::fresh:
      refuse(true, "start is missing: expected " + allowed_text(names_in(kStageStarts)));
      break;
    case StageStart::go_on:
      refuse(before.lora.has_value() != stage.lora.has_value(),
             fmt::format("start is continue, but stage {} trains {} and this one {}: {}", last,
                         before.lora ? "adapters" : "all weights", stage.lora ? "adapters" : "all weights",
                         before.lora ? "write start: merge" : "leave lora as it was"));
      if (both_adapt) {
        find_other_adapter(before, stage, problems);
      }
      break;
    case StageStart::stack:
      refuse(!both_adapt,
             fmt::format("start is stack, but {} no adapters: write a section lora for both, or start: "
                         "{}",
                         before.lora ? "this stage has" : fmt::format("stage {} has", last),
                         before.lora ? "merge" : "continue"));
      refuse(both_adapt && (before.lora->bias != LoraBias::none || stage.lora->bias != LoraBias::none),
             "start is stack, but lora.bias trains biases, of which there is one each and not one a stage: "
             "set lora.bias to none, or write start: merge");
      break;
    case StageStart::merge_first:
      refuse(
          !before.lora,
          fmt::format("start is merge, but stage {} has no adapters to merge: write start: continue", last));
      break;
  }
}

// A name means one set in the whole run, or the table of what was forgotten would mix them.
void find_set_problems(const Recipe& before, const Recipe& stage, std::vector<std::string>& problems) {
  std::vector<EarlierStage> others = before.stage.earlier;
  others.push_back({before.stage.name, before.data});
  std::vector<std::string> own = own_set_names(stage.stage.name, stage.data);
  for (const EarlierStage& other : others) {
    if (has_same_sets(other.data, stage.data)) {
      return;
    }
    for (const std::string& name : own_set_names(other.name, other.data)) {
      if (std::find(own.begin(), own.end(), name) != own.end()) {
        problems.push_back(
            fmt::format("its evaluation set {} is called like one of stage {}, which has other files: give "
                        "it another name "
                        "in data.eval_file",
                        name, other.name));
      }
    }
  }
}

}  // namespace

std::string find_name_problem(const std::string& name, const std::vector<std::string>& names_before) {
  auto is_plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
  };
  if (name.empty()) {
    return "a stage has no name: write name, which is also its folder's";
  }
  if (name.size() > kLongestName || name.front() == '-' || name.starts_with("checkpoint-") ||
      !std::all_of(name.begin(), name.end(), is_plain)) {
    return fmt::format(
        "a stage's name is {}: expected letters, digits, _ and - (up to {}, and not checkpoint-...), as a "
        "folder is called so",
        yaml_value(Json(name)), kLongestName);
  }
  bool is_known = std::find(names_before.begin(), names_before.end(), name) != names_before.end();
  return is_known ? fmt::format("two stages are called {}: give one another name", name) : "";
}

std::string read_start(const YamlNode& value, bool is_first, StageStart& out) {
  if (is_first) {
    return "start is for stages behind the first, which begins as the recipe says (lora.start for an "
           "adapter): "
           "remove it";
  }
  size_t index = 0;
  std::vector<std::string> names = names_in(kStageStarts);
  if (std::optional<BadValue> bad = read_choice(value, names, index)) {
    return fmt::format(
        "start is {}: expected {}{}", describe(value), allowed_text(names),
        bad->did_you_mean.empty() ? "" : fmt::format("; did you mean \"{}\"?", bad->did_you_mean));
  }
  out = kStageStarts[index].second;
  return "";
}

bool is_run_key(std::string_view key) {
  return std::find(kRunKeys.begin(), kRunKeys.end(), key) != kRunKeys.end();
}

std::vector<std::string> find_moved_run_keys(const Recipe& before, const Recipe& stage) {
  std::vector<std::string> problems;
  for (std::string_view name : kRunKeys) {
    const RecipeKey& key = *find_recipe_key(name);
    if (key.print(before) != key.print(stage)) {
      problems.push_back(
          fmt::format("{} is {} here, but it is the same for all stages: write it at the top level", name,
                      printed(key, stage)));
    }
  }
  return problems;
}

std::vector<std::string> find_stage_problems(const Recipe* before, const Recipe& stage) {
  std::vector<std::string> problems;
  if (stage.model.from_scratch && stage.lora) {
    problems.emplace_back(
        "model.from_scratch makes fresh weights in each stage, and lora keeps none of them: set "
        "model.from_scratch to false, or lora to null");
  }
  if (before == nullptr) {
    return problems;
  }
  find_start_problems(*before, stage, problems);
  if (stage.lora && !stage.lora->start.empty()) {
    problems.emplace_back(
        "lora.start is for the first stage; what this one begins with is said by start: remove lora.start");
  }
  find_set_problems(*before, stage, problems);
  return problems;
}

void place_behind(const Recipe& before, Recipe& stage) {
  StageSection& place = stage.stage;
  place.stacked.clear();
  if (place.start == StageStart::go_on || place.start == StageStart::stack) {
    place.stacked = before.stage.stacked;
  }
  if (place.start == StageStart::stack) {
    place.stacked.push_back(*before.lora);
  }
  place.earlier = before.stage.earlier;
  if (evaluates(before.data)) {
    place.earlier.push_back({before.stage.name, before.data});
  }
  std::erase_if(place.earlier, [&](const EarlierStage& one) { return has_same_sets(one.data, stage.data); });
}

bool evaluates(const DataSection& data) {
  return !data.eval_file.empty() || data.eval_split > 0;
}

std::vector<std::string> own_set_names(const std::string& stage, const DataSection& data) {
  if (!evaluates(data)) {
    return {};
  }
  if (data.eval_sets.empty()) {
    return {stage};
  }
  std::set<std::string> names(data.eval_sets.begin(), data.eval_sets.end());
  return {names.begin(), names.end()};
}

}  // namespace snug
