// Examples to train on or to evaluate with: tables of tokens, seen through a length limit. An example is
// eight bytes that say where it lies; its tokens are read when they are asked for.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "data/tokens/example.h"
#include "data/tokens/table.h"
#include "recipe/recipe.h"

namespace snug {

struct LengthLimits {
  Truncation truncation = Truncation::cut;
  TruncationSide side = TruncationSide::right;
  int64_t max_length_tokens = 0;
  int64_t max_target_tokens = 0;  // with an encoder; 0: as max_length_tokens

  int64_t target_tokens() const { return max_target_tokens > 0 ? max_target_tokens : max_length_tokens; }
};

// Texts of which one end is gone, and what they lost.
struct CutCounts {
  int64_t examples = 0;
  int64_t tokens = 0;

  void add(int64_t lost_tokens);
};

// Of examples together.
struct TokenCounts {
  int64_t tokens = 0;         // behind an encoder, of the answers
  int64_t source_tokens = 0;  // that an encoder reads
  int64_t learned = 0;        // of `tokens`: each is a target

  int64_t with_sources() const { return tokens + source_tokens; }
  double learned_share() const;  // 1 where there is nothing
  void add(const TokenCounts& other);
};

// What the limit did; never silent.
struct TruncationCounts {
  int64_t cut_examples = 0;     // kept, but cut; of a pair: one of its texts or both
  CutCounts sources;            // what an encoder reads
  CutCounts targets;            // what the decoder gets
  int64_t split_rows = 0;       // too long, and now several examples
  int64_t dropped_long = 0;     // too long, and left out as the recipe asks
  int64_t nothing_learned = 0;  // left out: all that would be learned was cut away
};

// The tokens of one example. Where a pair was cut on the right, its end token takes the place of the last.
struct ExampleView {
  std::vector<TokenWord> source;
  std::vector<TokenWord> tokens;
  bool source_ends_early = false;
  bool tokens_end_early = false;
  const TableFacts& facts;
};

class Dataset {
 public:
  // A table, whose rows count `weight` times an epoch.
  struct Part {
    std::shared_ptr<const TokenTable> table;
    LengthLimits limits;
    double weight = 1;
    int64_t first = 0;  // its examples
    int64_t end = 0;
  };

  void add(std::shared_ptr<const TokenTable> table, const LengthLimits& limits, double weight = 1);
  // Takes examples out, chosen by the seed, into a dataset of their own: that share of the rows if it is
  // below 1, else that many. All examples of a row stay together.
  Dataset split_off(double rows, uint64_t seed);

  int64_t size() const { return static_cast<int64_t>(examples_.size()); }
  bool has_sources() const { return has_sources_; }
  const std::vector<Part>& parts() const { return parts_; }
  ExampleView example(int64_t index) const;
  int64_t length_tokens(int64_t index) const;
  int64_t source_length_tokens(int64_t index) const;  // 0 without an encoder

  TokenCounts count_tokens() const;
  // The same for all examples of the same row, and of rows with the same tokens.
  uint64_t row_hash(int64_t index) const;
  // Of all examples in their order, and of how often they come: equal for equal data, whatever its files are
  // called.
  std::string fingerprint() const;
  const TruncationCounts& truncation() const { return truncation_; }

 private:
  struct Where {
    uint32_t row = 0;    // in its part's table
    uint32_t begin = 0;  // among the row's tokens
  };

  const Part& part_of(int64_t index) const;
  void add_row(const Part& part, int64_t row);
  void add_pair(const Part& part, int64_t row);
  int64_t learned_tokens(int64_t index) const;

  std::vector<Part> parts_;
  std::vector<Where> examples_;
  TruncationCounts truncation_;
  bool has_sources_ = false;
};

// Examples made in memory become a dataset without limits.
Dataset make_dataset(const std::vector<Example>& examples, int32_t decoder_start_id = 0);

}  // namespace snug
