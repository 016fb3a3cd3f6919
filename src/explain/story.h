// What happened, told from the facts of a log: whose figures they are, where the bytes went, and what would
// have fitted.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "explain/log.h"
#include "explain/python_stack.h"
#include "recipe/recipe.h"

namespace snug {

struct LogFinding {
  int64_t line = 0;  // of the log
  std::string title = {};
  std::vector<std::string> sentences = {};
};

// A run of snug that fits where the log's did not.
struct FittingRun {
  std::string recipe;                 // YAML; "" where the person's own recipe does, with the settings
  std::vector<std::string> settings;  // "--set" arguments for the person's own recipe
  std::vector<std::string> changes;   // what is computed otherwise, in words
  int64_t peak_bytes = 0;
  int64_t limit_bytes = 0;
  // The same experiment under transformers, as the recipe that fits was before settings made it fit.
  std::vector<PythonStackUse> elsewhere;
};

struct Story {
  std::vector<LogFinding> findings;
  std::string model;  // that the log is taken to be about; "" if nothing tells
  std::optional<FittingRun> fitting;
};

// `recipe`: the person's own, if there is one; its model and settings are then those of the log.
Story tell_story(const LogFacts& facts, const Recipe* recipe);

}  // namespace snug
