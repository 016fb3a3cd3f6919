// Looking for it, and saying what it changes.
#include "train/other_split.h"

#include <fmt/format.h>

#include "fit/alternatives.h"
#include "plan/training.h"
#include "recipe/parse.h"
#include "recipe/write.h"

namespace snug {

std::optional<OtherSplit> find_other_split(const Recipe& recipe, const ModelSpec& spec, const Device& device,
                                           const LimitsOf& limits) {
  std::vector<Alternative> found = find_alternatives(recipe, spec, device, limits).same;
  if (found.empty()) {
    return std::nullopt;
  }
  OtherSplit other;
  const std::vector<std::string>& settings = found.front().settings;
  other.recipe = parse_recipe(recipe_to_yaml(recipe), recipe.source_path, settings);
  other.recipe.stage = recipe.stage;  // no key of the text
  other.plan = plan_training(other.recipe, spec, device, limits);
  // Recomputed is computed again, by the same ops on the same numbers; another split adds in another order.
  bool same_sums = other.recipe.memory.micro_batch_tokens == recipe.memory.micro_batch_tokens;
  other.warning = fmt::format(
      "the plan of the checkpoint does not fit here, so the run goes on with {}: {}",
      fmt::join(settings, ", "),
      same_sums
          ? "its bits are those of a run that never stopped"
          : "the experiment is the same, but its bits will differ from those of a run that never stopped");
  return other;
}

}  // namespace snug
