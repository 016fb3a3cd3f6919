// Tokenized data: every example's ids and targets, laid end to end.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/example.h"
#include "data/row_encoder.h"
#include "recipe/recipe.h"
#include "text/tokenizer.h"

namespace snug {

class Dataset {
 public:
  // An example must carry at least one target.
  void add(const Example& example);

  int64_t size() const { return static_cast<int64_t>(offsets_.size()) - 1; }
  int64_t length_tokens(int64_t index) const;
  std::span<const int32_t> ids(int64_t index) const;
  std::span<const int32_t> targets(int64_t index) const;
  // What an encoder reads; all examples have it or none.
  bool has_sources() const { return !sources_.empty(); }
  std::span<const int32_t> source(int64_t index) const;

  int64_t total_tokens() const { return offsets_.back() + source_offsets_.back(); }
  int64_t total_targets() const { return total_targets_; }
  int64_t longest_tokens() const;
  // The sum of the `count` longest examples: what any choice of that many can need at most.
  int64_t longest_sum_tokens(int64_t count) const;

  std::string description;       // one line for people: file, format, counts
  int64_t cut_examples = 0;      // kept, but longer than max_length: one end is gone
  int64_t cut_tokens = 0;        // what they lost
  int64_t split_examples = 0;    // too long, and now several
  int64_t dropped_long = 0;      // too long, and left out as the recipe asks
  int64_t dropped_examples = 0;  // nothing to learn from: empty, or every target cut away
  int64_t bad_rows = 0;          // skipped as the recipe asks: broken, or not what the format needs
  std::string first_bad_row;     // where and why

 private:
  std::vector<int32_t> ids_;
  std::vector<int32_t> targets_;
  std::vector<int64_t> offsets_ = {0};  // example i is [offsets_[i], offsets_[i + 1])
  std::vector<int32_t> sources_;
  std::vector<int64_t> source_offsets_ = {0};
  int64_t total_targets_ = 0;
};

// Reads the files that the recipe's name or pattern stands for. Throws bad_input with file and line for rows
// that cannot be used, and if no example is left.
struct DatasetOptions {
  DataFormat format = DataFormat::automatic;
  EncodingOptions encoding = {};
  std::string chat_template = {};           // as in the recipe
  std::filesystem::path model_folder = {};  // which may bring a chat template
  OnBadRow on_bad_row = OnBadRow::stop;
  int64_t max_rows = 0;  // 0: all
};
Dataset load_dataset(const std::filesystem::path& pattern, const Tokenizer& tokenizer,
                     const DatasetOptions& options);

// What a recipe's data section says, for a model in that folder.
DatasetOptions dataset_options(const DataSection& data, const std::filesystem::path& model_folder);

}  // namespace snug
