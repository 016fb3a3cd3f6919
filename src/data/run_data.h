// All data of a run, as its recipe says: what it trains on, and what it evaluates with.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "data/samples.h"
#include "data/tokens/tokenize_files.h"
#include "recipe/recipe.h"

namespace snug {

// What the data must know of the model.
struct DataModel {
  std::filesystem::path folder;             // with its tokenizer, and perhaps a chat template
  std::optional<int32_t> decoder_start_id;  // of a model with an encoder
  int64_t vocabulary = 0;
};

// A named set to evaluate with.
struct EvalSet {
  std::string name;
  Dataset data;
};

struct RunData {
  Dataset train;
  std::optional<Dataset> eval;          // all of it
  std::vector<EvalSet> eval_sets = {};  // the same by name, where there are names
  std::vector<EvalSet> earlier = {};    // those of stages before, to see what is forgotten

  std::vector<SamplePrompt> samples = {};      // to be answered where it is evaluated
  std::optional<Dataset> sample_prompts = {};  // what is read of these

  // All that is evaluated with.
  std::vector<const Dataset*> evaluated() const;
  // And all that is read then: what an evaluation is planned for.
  std::vector<const Dataset*> read_in_evaluations() const;
};

bool has_bad_rows(const RunData& data);

// Tokenizes what is not in the cache. Throws bad_input for anything that would fail later.
RunData load_run_data(const Recipe& recipe, const DataModel& model, const DataObserver& observer);

TokenizeOptions tokenize_options(const DataSection& data, const DataModel& model);
LengthLimits length_limits(const DataSection& data);

// A line for each part: files, what a row holds and why snug thinks so, counts, what was cut or left out.
std::string describe(const Dataset& dataset);

}  // namespace snug
