// A tokenized data file: every example's ids and targets, laid end to end.
#include "data/dataset.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "base/bytes.h"
#include "base/check.h"
#include "base/error.h"
#include "data/rows.h"

namespace snug {

namespace {

struct TokenizedRow {
  std::vector<int32_t> ids;
  int64_t learned_begin = 0;
};

TokenizedRow tokenize(const Row& row, DataFormat format, const Tokenizer& tokenizer) {
  TokenizedRow result;
  result.ids = tokenizer.opening_ids();
  auto append = [&](const std::vector<int32_t>& more) {
    result.ids.insert(result.ids.end(), more.begin(), more.end());
  };
  if (format == DataFormat::text) {
    append(tokenizer.encode(row.text));
  } else {
    // Apart, so that the prompt has the same ids as when it is given alone to generate from.
    append(tokenizer.encode(row.prompt));
    result.learned_begin = static_cast<int64_t>(result.ids.size());
    append(row.prompt.empty() ? tokenizer.encode(row.text) : tokenizer.encode_continuation(row.text));
  }
  if (tokenizer.eos_id()) {
    result.ids.push_back(*tokenizer.eos_id());
  }
  return result;
}

std::string describe(const Dataset& dataset, const std::filesystem::path& path, const RowLayout& layout,
                     int64_t max_length_tokens) {
  std::string text = fmt::format("{}: {}; {} examples, {} tokens, {} of them learned",
                                 path.filename().string(), layout.description, format_count(dataset.size()),
                                 format_count(dataset.total_tokens()), format_count(dataset.total_targets()));
  if (dataset.cut_examples > 0) {
    text += fmt::format("; {} cut to {} tokens ({} tokens lost)", format_count(dataset.cut_examples),
                        format_count(max_length_tokens), format_count(dataset.cut_tokens));
  }
  if (dataset.dropped_examples > 0) {
    text += fmt::format("; {} dropped, nothing to learn in them", format_count(dataset.dropped_examples));
  }
  return text;
}

}  // namespace

void Dataset::add(const Example& example) {
  SNUG_CHECK(example.ids.size() == example.targets.size(), "each position has a target or kNoTarget");
  SNUG_CHECK(example.has_target(), "an example without a target teaches nothing");
  ids_.insert(ids_.end(), example.ids.begin(), example.ids.end());
  targets_.insert(targets_.end(), example.targets.begin(), example.targets.end());
  offsets_.push_back(static_cast<int64_t>(ids_.size()));
  total_targets_ += static_cast<int64_t>(example.targets.size()) -
                    std::count(example.targets.begin(), example.targets.end(), kNoTarget);
}

int64_t Dataset::length_tokens(int64_t index) const {
  SNUG_CHECK(index >= 0 && index < size(), "no such example");
  return offsets_[static_cast<size_t>(index) + 1] - offsets_[static_cast<size_t>(index)];
}

std::span<const int32_t> Dataset::ids(int64_t index) const {
  return std::span(ids_).subspan(static_cast<size_t>(offsets_[static_cast<size_t>(index)]),
                                 static_cast<size_t>(length_tokens(index)));
}

std::span<const int32_t> Dataset::targets(int64_t index) const {
  return std::span(targets_).subspan(static_cast<size_t>(offsets_[static_cast<size_t>(index)]),
                                     static_cast<size_t>(length_tokens(index)));
}

int64_t Dataset::longest_tokens() const {
  return longest_sum_tokens(1);
}

int64_t Dataset::longest_sum_tokens(int64_t count) const {
  std::vector<int64_t> lengths;
  for (int64_t i = 0; i < size(); ++i) {
    lengths.push_back(length_tokens(i));
  }
  std::sort(lengths.begin(), lengths.end(), std::greater<>());
  int64_t sum = 0;
  for (int64_t i = 0; i < std::min(count, size()); ++i) {
    sum += lengths[static_cast<size_t>(i)];
  }
  return sum;
}

Dataset load_dataset(const std::filesystem::path& path, DataFormat format, const Tokenizer& tokenizer,
                     int64_t max_length_tokens) {
  if (max_length_tokens < 2) {
    throw bad_input(fmt::format(
        "data.max_length is {}; it must be at least 2: one token to start from and one to predict.",
        max_length_tokens));
  }
  Dataset dataset;
  auto add_row = [&](const Row& row, DataFormat row_format) {
    TokenizedRow tokenized = tokenize(row, row_format, tokenizer);
    int64_t excess = static_cast<int64_t>(tokenized.ids.size()) - max_length_tokens;
    if (excess > 0) {
      tokenized.ids.resize(static_cast<size_t>(max_length_tokens));
    }
    Example example = make_example(std::move(tokenized.ids), tokenized.learned_begin);
    if (row.text.empty() || !example.has_target()) {
      ++dataset.dropped_examples;
      return;
    }
    if (excess > 0) {
      ++dataset.cut_examples;
      dataset.cut_tokens += excess;
    }
    dataset.add(example);
  };
  RowLayout layout = read_rows(path, format, add_row);
  if (dataset.size() == 0) {
    throw bad_input(
        fmt::format("{}: none of its {} examples has anything to learn: they are empty, or data.max_length "
                    "({}) cuts away all "
                    "that would be learned. Raise data.max_length or check the columns.",
                    path.string(), dataset.dropped_examples, max_length_tokens));
  }
  dataset.description = describe(dataset, path, layout, max_length_tokens);
  return dataset;
}

}  // namespace snug
