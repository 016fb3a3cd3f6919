// Everything that makes a run smaller, in one list: what `snug plan` advises, what `snug fit` does and what
// `snug plan --what-if` compares all come from here.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "model/model_spec.h"
#include "recipe/recipe.h"

namespace snug {

// What becomes of the result.
enum class Sameness { bits, rounding, numerics, experiment };
// "the same bits", "the same to rounding", "other numerics", "another experiment".
std::string_view name_of(Sameness sameness);

// A key that fits a run into memory, and may be left to the program: the same experiment.
struct Knob {
  std::string_view key;
  Sameness sameness;
  bool (*is_written)(const Recipe& recipe);
  void (*open)(Recipe& recipe);
  std::string_view reason;
};
// In the order in which they are opened: what changes no bit first.
std::span<const Knob> knobs();
void open_all(Recipe& recipe);

// What takes less memory by computing otherwise. Of several for one key, the last takes least.
struct OptIn {
  std::string_view key;
  bool (*applies)(const Recipe& recipe, const ModelSpec& spec);
  void (*apply)(Recipe& recipe);
  std::string_view changes;
};
std::span<const OptIn> opt_ins();

// What takes less memory by being another experiment.
struct Reduction {
  std::string_view key;
  // Those that may take the place of the recipe's own value, the nearest first; none where it does not apply.
  std::vector<int64_t> (*values)(const Recipe& recipe, const ModelSpec& spec);
  void (*set)(Recipe& recipe, int64_t value);
  std::string_view changes;
};
std::span<const Reduction> reductions();

// The keys of opt-ins and reductions: what may be allowed.
std::vector<std::string_view> keys_to_allow();
// Of any key of these lists; numerics come from the opt-ins, and so on.
Sameness sameness_of(std::string_view key);

}  // namespace snug
