// What a run with stages learned and what it forgot: the loss of every evaluation set, before its stage and
// after each one from there on.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "io/json.h"
#include "recipe/recipe.h"

namespace snug {

struct SetHistory {
  std::string set;
  size_t stage = 0;                          // whose set it is
  std::optional<double> before;              // that stage
  std::vector<std::optional<double>> after;  // each stage; nothing for those before it, and where it was not
                                             // evaluated

  // How much lower the loss is behind its own stage, and how much higher it became from there to the last
  // one.
  std::optional<double> learned() const;
  std::optional<double> forgotten() const;
};

struct Forgetting {
  std::vector<std::string> stages;
  std::vector<SetHistory> sets;
};

// `summaries` are the stages' summary.json, of as many as are done.
Forgetting make_forgetting(const std::vector<Recipe>& stages, const std::vector<Json>& summaries);
Json forgetting_to_json(const Forgetting& forgetting);

}  // namespace snug
