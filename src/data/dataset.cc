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

// Cuts the right end off; returns how much.
int64_t cut(std::vector<int32_t>& ids, int64_t max_tokens) {
  int64_t excess = std::max<int64_t>(static_cast<int64_t>(ids.size()) - max_tokens, 0);
  ids.resize(ids.size() - static_cast<size_t>(excess));
  return excess;
}

// One row as an example, and how many tokens were cut off it.
struct TokenizedRow {
  Example example;
  int64_t cut_tokens = 0;
};

class RowTokenizer {
 public:
  RowTokenizer(const Tokenizer& tokenizer, const DatasetOptions& options)
      : tokenizer_(tokenizer), options_(options) {}

  TokenizedRow tokenize(const Row& row, DataFormat format) const {
    return options_.decoder_start_id ? tokenize_pair(row) : tokenize_sequence(row, format);
  }

 private:
  TokenizedRow tokenize_sequence(const Row& row, DataFormat format) const {
    std::vector<int32_t> ids = tokenizer_.opening_ids();
    int64_t learned_begin = 0;
    if (format == DataFormat::text) {
      append(ids, tokenizer_.encode(row.text));
    } else {
      // Apart, so that the prompt has the same ids as when it is given alone to generate from.
      append(ids, tokenizer_.encode(row.prompt));
      learned_begin = static_cast<int64_t>(ids.size());
      append(ids,
             row.prompt.empty() ? tokenizer_.encode(row.text) : tokenizer_.encode_continuation(row.text));
    }
    append_end(ids);
    int64_t excess = cut(ids, options_.max_length_tokens);
    return {make_example(std::move(ids), learned_begin), excess};
  }

  TokenizedRow tokenize_pair(const Row& row) const {
    std::vector<int32_t> source = tokenizer_.encode(row.prompt);
    append_end(source);
    std::vector<int32_t> answer = tokenizer_.encode(row.text);
    append_end(answer);
    int64_t target_tokens =
        options_.max_target_tokens > 0 ? options_.max_target_tokens : options_.max_length_tokens;
    int64_t excess = cut(source, options_.max_length_tokens) + cut(answer, target_tokens);
    return {make_pair_example(std::move(source), std::move(answer), *options_.decoder_start_id), excess};
  }

  void append_end(std::vector<int32_t>& ids) const {
    if (tokenizer_.eos_id()) {
      ids.push_back(*tokenizer_.eos_id());
    }
  }

  static void append(std::vector<int32_t>& ids, const std::vector<int32_t>& more) {
    ids.insert(ids.end(), more.begin(), more.end());
  }

  const Tokenizer& tokenizer_;
  const DatasetOptions& options_;
};

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
  SNUG_CHECK(size() == 1 || has_sources() != example.source.empty(), "all examples have a source or none");
  sources_.insert(sources_.end(), example.source.begin(), example.source.end());
  source_offsets_.push_back(static_cast<int64_t>(sources_.size()));
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

std::span<const int32_t> Dataset::source(int64_t index) const {
  SNUG_CHECK(index >= 0 && index < size(), "no such example");
  auto begin = static_cast<size_t>(source_offsets_[static_cast<size_t>(index)]);
  auto end = static_cast<size_t>(source_offsets_[static_cast<size_t>(index) + 1]);
  return std::span(sources_).subspan(begin, end - begin);
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

Dataset load_dataset(const std::filesystem::path& path, const Tokenizer& tokenizer,
                     const DatasetOptions& options) {
  if (options.max_length_tokens < 2) {
    throw bad_input(fmt::format(
        "data.max_length is {}; it must be at least 2: one token to start from and one to predict.",
        options.max_length_tokens));
  }
  Dataset dataset;
  RowTokenizer row_tokenizer(tokenizer, options);
  auto add_row = [&](const Row& row, DataFormat format) {
    if (options.decoder_start_id && format == DataFormat::text) {
      throw bad_input(
          fmt::format("{}: its rows are plain text, but a model with an encoder learns from pairs: give each "
                      "row a \"prompt\" (what the encoder reads) and a \"completion\"",
                      path.string()));
    }
    TokenizedRow tokenized = row_tokenizer.tokenize(row, format);
    bool nothing_to_read = options.decoder_start_id && tokenized.example.source.empty();
    if (row.text.empty() || nothing_to_read || !tokenized.example.has_target()) {
      ++dataset.dropped_examples;
      return;
    }
    dataset.cut_examples += tokenized.cut_tokens > 0 ? 1 : 0;
    dataset.cut_tokens += tokenized.cut_tokens;
    dataset.add(tokenized.example);
  };
  RowLayout layout = read_rows(path, options.format, add_row);
  if (dataset.size() == 0) {
    throw bad_input(
        fmt::format("{}: none of its {} examples has anything to learn: they are empty, or data.max_length "
                    "({}) cuts away all "
                    "that would be learned. Raise data.max_length or check the columns.",
                    path.string(), dataset.dropped_examples, options.max_length_tokens));
  }
  dataset.description = describe(dataset, path, layout, options.max_length_tokens);
  return dataset;
}

}  // namespace snug
