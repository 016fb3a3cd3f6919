// Tables seen through a length limit.
#include "data/dataset.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/check.h"
#include "base/rng.h"
#include "io/fingerprint.h"

namespace snug {
namespace {

// Keeps the draws of splitting apart from those of other users of the same seed.
constexpr uint64_t kSplitStream = 0x73706c69;

// What is left of `length` tokens after a cut to `max_tokens`.
struct Stretch {
  int64_t begin = 0;
  int64_t count = 0;
};

Stretch cut(int64_t length, int64_t max_tokens, TruncationSide side) {
  int64_t count = std::min(length, max_tokens);
  return {side == TruncationSide::right ? 0 : length - count, count};
}

int64_t count_learned(std::span<const TokenWord> tokens) {
  return std::count_if(tokens.begin(), tokens.end(), [](TokenWord word) { return word.is_learned(); });
}

// Nothing stands before the first token, so it is not predicted.
int64_t count_predicted(std::span<const TokenWord> tokens) {
  return tokens.empty() ? 0 : count_learned(tokens.subspan(1));
}

}  // namespace

double TokenCounts::learned_share() const {
  return tokens > 0 ? static_cast<double>(learned) / static_cast<double>(tokens) : 1;
}

void TokenCounts::add(const TokenCounts& other) {
  tokens += other.tokens;
  source_tokens += other.source_tokens;
  learned += other.learned;
}

void CutCounts::add(int64_t lost_tokens) {
  examples += lost_tokens > 0 ? 1 : 0;
  tokens += lost_tokens;
}

void Dataset::add(std::shared_ptr<const TokenTable> table, const LengthLimits& limits, double weight) {
  SNUG_CHECK(limits.max_length_tokens >= 2, "one token to start from and one to predict");
  SNUG_CHECK(table->rows() <= std::numeric_limits<uint32_t>::max(), "rows are numbered in 32 bits");
  bool pairs = table->rows() > 0 && table->source_length(0) > 0;
  SNUG_CHECK(parts_.empty() || pairs == has_sources_, "all examples have a source or none");
  has_sources_ = pairs;
  Part part{.table = std::move(table), .limits = limits, .weight = weight, .first = size()};
  for (int64_t row = 0; row < part.table->rows(); ++row) {
    if (pairs) {
      add_pair(part, row);
    } else {
      add_row(part, row);
    }
  }
  part.end = size();
  parts_.push_back(std::move(part));
}

void Dataset::add_row(const Part& part, int64_t row) {
  const LengthLimits& limits = part.limits;
  int64_t length = part.table->length(row);
  int64_t excess = length - limits.max_length_tokens;
  if (excess <= 0) {
    examples_.push_back({.row = static_cast<uint32_t>(row)});
    return;
  }
  if (limits.truncation == Truncation::drop) {
    ++truncation_.dropped_long;
    return;
  }
  std::vector<TokenWord> words = part.table->tokens(row);
  std::span<const TokenWord> tokens = words;
  int64_t added = 0;
  auto add_piece = [&](int64_t begin) {
    int64_t count = std::min(limits.max_length_tokens, length - begin);
    if (count_predicted(tokens.subspan(static_cast<size_t>(begin), static_cast<size_t>(count))) > 0) {
      examples_.push_back({.row = static_cast<uint32_t>(row), .begin = static_cast<uint32_t>(begin)});
      ++added;
    }
  };
  if (limits.truncation == Truncation::split) {
    for (int64_t begin = 0; begin < length; begin += limits.max_length_tokens) {
      add_piece(begin);
    }
    truncation_.split_rows += added > 0 ? 1 : 0;
  } else {
    add_piece(limits.side == TruncationSide::left ? excess : 0);
    truncation_.cut_examples += added;
    truncation_.targets.add(added * excess);
  }
  truncation_.nothing_learned += added == 0 ? 1 : 0;
}

void Dataset::add_pair(const Part& part, int64_t row) {
  const LengthLimits& limits = part.limits;
  int64_t source_excess = std::max<int64_t>(part.table->source_length(row) - limits.max_length_tokens, 0);
  int64_t target_excess = std::max<int64_t>(part.table->length(row) - limits.target_tokens(), 0);
  bool is_long = source_excess + target_excess > 0;
  if (is_long && limits.truncation == Truncation::drop) {
    ++truncation_.dropped_long;
    return;
  }
  truncation_.cut_examples += is_long ? 1 : 0;
  truncation_.sources.add(source_excess);
  truncation_.targets.add(target_excess);
  examples_.push_back({.row = static_cast<uint32_t>(row)});
}

const Dataset::Part& Dataset::part_of(int64_t index) const {
  SNUG_CHECK(index >= 0 && index < size(), "no such example");
  auto found = std::upper_bound(parts_.begin(), parts_.end(), index,
                                [](int64_t wanted, const Part& part) { return wanted < part.end; });
  return *found;
}

ExampleView Dataset::example(int64_t index) const {
  const Part& part = part_of(index);
  const Where& where = examples_[static_cast<size_t>(index)];
  const TableFacts& facts = part.table->facts();
  const TokenTable& table = *part.table;
  if (!has_sources_) {
    return {
        .source = {}, .tokens = table.tokens(where.row, where.begin, length_tokens(index)), .facts = facts};
  }
  int64_t source_length = table.source_length(where.row);
  int64_t length = table.length(where.row);
  Stretch source = cut(source_length, part.limits.max_length_tokens, part.limits.side);
  Stretch tokens = cut(length, part.limits.target_tokens(), part.limits.side);
  ExampleView view{.source = table.source(where.row, source.begin, source.count),
                   .tokens = table.tokens(where.row, tokens.begin, tokens.count),
                   .facts = facts};
  bool on_the_right = part.limits.side == TruncationSide::right && facts.end_id >= 0;
  view.source_ends_early = on_the_right && source.count < source_length;
  view.tokens_end_early = on_the_right && tokens.count < length;
  return view;
}

int64_t Dataset::length_tokens(int64_t index) const {
  const Part& part = part_of(index);
  const Where& where = examples_[static_cast<size_t>(index)];
  int64_t limit = has_sources_ ? part.limits.target_tokens() : part.limits.max_length_tokens;
  return std::min(limit, part.table->length(where.row) - where.begin);
}

int64_t Dataset::source_length_tokens(int64_t index) const {
  const Part& part = part_of(index);
  return std::min(part.limits.max_length_tokens,
                  part.table->source_length(examples_[static_cast<size_t>(index)].row));
}

std::string Dataset::fingerprint() const {
  Fingerprint fingerprint;
  for (const Part& part : parts_) {
    fingerprint.add(part.end - part.first);
    fingerprint.add(fmt::format("{}", part.weight));
  }
  for (int64_t i = 0; i < size(); ++i) {
    fingerprint.add(static_cast<int64_t>(row_hash(i)));
    fingerprint.add(length_tokens(i));
  }
  return fingerprint.hex();
}

uint64_t Dataset::row_hash(int64_t index) const {
  return part_of(index).table->hash(examples_[static_cast<size_t>(index)].row);
}

int64_t Dataset::learned_tokens(int64_t index) const {
  const Part& part = part_of(index);
  uint32_t row = examples_[static_cast<size_t>(index)].row;
  if (length_tokens(index) == part.table->length(row)) {
    return part.table->learned(row);  // known without looking at the words
  }
  ExampleView view = example(index);
  return has_sources_ ? count_learned(view.tokens) : count_predicted(view.tokens);
}

TokenCounts Dataset::count_tokens() const {
  TokenCounts counts;
  for (int64_t i = 0; i < size(); ++i) {
    counts.tokens += length_tokens(i);
    counts.source_tokens += source_length_tokens(i);
    counts.learned += learned_tokens(i);
  }
  return counts;
}

Dataset Dataset::split_off(double rows, uint64_t seed) {
  // Rows, by the index of their first example.
  std::vector<int64_t> starts;
  for (const Part& part : parts_) {
    for (int64_t i = part.first; i < part.end; ++i) {
      if (i == part.first ||
          examples_[static_cast<size_t>(i)].row != examples_[static_cast<size_t>(i) - 1].row) {
        starts.push_back(i);
      }
    }
  }
  double wanted = rows < 1 ? std::round(rows * static_cast<double>(starts.size())) : rows;
  auto count = static_cast<size_t>(std::min(wanted, static_cast<double>(starts.size())));
  std::vector<bool> taken(examples_.size(), false);
  Rng rng(seed, kSplitStream);
  for (size_t i = 0; i < count; ++i) {  // the first `count` of a Fisher-Yates shuffle
    std::swap(starts[i], starts[i + static_cast<size_t>(rng.below(starts.size() - i))]);
    taken[static_cast<size_t>(starts[i])] = true;
  }
  Dataset other;
  other.has_sources_ = has_sources_;
  Dataset rest;
  rest.has_sources_ = has_sources_;
  rest.truncation_ = truncation_;
  for (const Part& part : parts_) {
    Part kept = part;
    Part moved = part;
    kept.first = rest.size();
    moved.first = other.size();
    moved.weight = 1;  // weights are for training; each of these is measured once
    bool take = false;
    for (int64_t i = part.first; i < part.end; ++i) {
      const Where& where = examples_[static_cast<size_t>(i)];
      bool starts_row = i == part.first || where.row != examples_[static_cast<size_t>(i) - 1].row;
      take = starts_row ? taken[static_cast<size_t>(i)] : take;
      (take ? other : rest).examples_.push_back(where);
    }
    kept.end = rest.size();
    moved.end = other.size();
    rest.parts_.push_back(std::move(kept));
    other.parts_.push_back(std::move(moved));
  }
  *this = std::move(rest);
  return other;
}

Dataset make_dataset(const std::vector<Example>& examples, int32_t decoder_start_id) {
  TokenTableBuilder builder;
  for (const Example& example : examples) {
    builder.add(example);
  }
  TableFacts facts;
  facts.vocabulary = std::numeric_limits<int32_t>::max();
  facts.decoder_start_id = decoder_start_id;
  facts.rows = std::ssize(examples);
  Dataset dataset;
  dataset.add(std::make_shared<TokenTable>(std::move(builder).finish(std::move(facts))),
              {.max_length_tokens = std::numeric_limits<int32_t>::max()});
  return dataset;
}

}  // namespace snug
