// README.md of a result: what it is, how it was made and how to load it, as Hugging Face's pages show it.
#pragma once

#include <filesystem>
#include <string>

#include "model/model_spec.h"
#include "plan/plan.h"
#include "recipe/recipe.h"
#include "train/run_progress.h"
#include "train/run_record.h"

namespace snug {

// Of an adapter that was trained on a quantised base: where PEFT, too, says how the base was loaded. "" where
// the base is not quantised: adapter_config.json says all there is then.
std::string base_card(const Recipe& recipe, const ModelSpec& spec);

// Of a finished run.
struct CardFacts {
  const Recipe& recipe;
  const ModelSpec& spec;
  const TrainSummary& summary;
  const Plan& plan;
  RunOrigin origin;
  std::string name;        // of its folder
  bool has_curve = false;  // in a file beside it (curve_svg.h)
};
std::string model_card(const CardFacts& facts);

inline constexpr const char* kModelCardFile = "README.md";

}  // namespace snug
