// What people want to know about data before they train on it: how long its rows are, and what looks wrong.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/batches/epoch.h"
#include "data/dataset.h"
#include "data/run_data.h"
#include "recipe/recipe.h"

namespace snug {

struct LengthBin {
  int64_t first = 0;
  int64_t last = 0;  // included
  int64_t rows = 0;
};

// Of whole rows, before anything is cut.
struct LengthStatistics {
  int64_t rows = 0;
  double mean = 0;
  int64_t shortest = 0;
  int64_t median = 0;
  int64_t fits_99_percent = 0;  // 99 % of the rows are no longer
  int64_t longest = 0;
  int64_t limit = 0;          // what the recipe allows
  int64_t rows_too_long = 0;  // longer than that
  std::vector<LengthBin> bins;
};

// Of what the decoder gets, and of what an encoder reads.
LengthStatistics length_statistics(const Dataset& dataset);
LengthStatistics source_length_statistics(const Dataset& dataset);

// How full the packs of the first epoch are.
struct PackStatistics {
  int64_t packs = 0;
  double filled = 0;         // share of their tokens that is used
  double filled_source = 0;  // with an encoder: of what it reads
};

PackStatistics pack_statistics(const Dataset& dataset, const BatchOptions& options);

struct DataWarning {
  std::string kind;  // for programs
  std::string text;  // for people, with the remedy
  int64_t rows = 0;
  std::string first;  // where
};

// Of one dataset, and of a run: those of what it trains on, of what it evaluates with, and of both together.
std::vector<DataWarning> data_warnings(const Dataset& dataset, OnBadRow on_bad_row);
std::vector<DataWarning> data_warnings(const RunData& data, const DataSection& section);

}  // namespace snug
