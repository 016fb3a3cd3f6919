// Lengths and warnings.
#include "data/data_statistics.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <unordered_set>

namespace snug {
namespace {

constexpr int64_t kMostBins = 12;

// 1, 2 or 5 times a power of ten: the smallest that needs no more than kMostBins bins for that range.
int64_t bin_width(int64_t range) {
  for (int64_t power = 1;; power *= 10) {
    for (int64_t factor : {1, 2, 5}) {
      if (range / (factor * power) < kMostBins) {
        return factor * power;
      }
    }
  }
}

// `lengths` in order. A few very long rows would squeeze all others into one bin, so they share the last.
std::vector<LengthBin> make_bins(const std::vector<int64_t>& lengths, int64_t usual) {
  int64_t width = bin_width(usual - lengths.front());
  std::vector<LengthBin> bins;
  auto begin = lengths.begin();
  for (int64_t first = lengths.front() / width * width; begin != lengths.end(); first += width) {
    bool is_tail = first > usual;
    int64_t last = is_tail ? lengths.back() : first + width - 1;
    auto end = std::upper_bound(begin, lengths.end(), last);
    bins.push_back({first, last, end - begin});
    begin = end;
  }
  return bins;
}

LengthStatistics statistics_of(std::vector<int64_t> lengths, int64_t limit) {
  LengthStatistics result;
  result.limit = limit;
  result.rows = std::ssize(lengths);
  if (lengths.empty()) {
    return result;
  }
  std::sort(lengths.begin(), lengths.end());
  auto total = std::accumulate(lengths.begin(), lengths.end(), int64_t{0});
  result.mean = static_cast<double>(total) / static_cast<double>(lengths.size());
  result.shortest = lengths.front();
  result.median = lengths[lengths.size() / 2];
  result.fits_99_percent = lengths[(lengths.size() * 99 + 99) / 100 - 1];
  result.longest = lengths.back();
  result.rows_too_long = lengths.end() - std::upper_bound(lengths.begin(), lengths.end(), limit);
  result.bins = make_bins(lengths, result.fits_99_percent);
  return result;
}

template <typename LengthOf>
std::vector<int64_t> all_lengths(const Dataset& dataset, LengthOf length_of) {
  std::vector<int64_t> lengths;
  for (const Dataset::Part& part : dataset.parts()) {
    for (int64_t row = 0; row < part.table->rows(); ++row) {
      lengths.push_back(length_of(*part.table, row));
    }
  }
  return lengths;
}

int64_t count_rows_in_both(const Dataset& train, const Dataset& eval) {
  std::unordered_set<uint64_t> trained;
  for (int64_t i = 0; i < train.size(); ++i) {
    trained.insert(train.row_hash(i));
  }
  std::unordered_set<uint64_t> seen;
  int64_t count = 0;
  for (int64_t i = 0; i < eval.size(); ++i) {
    bool is_new = seen.insert(eval.row_hash(i)).second;
    count += is_new && trained.contains(eval.row_hash(i)) ? 1 : 0;
  }
  return count;
}

}  // namespace

LengthStatistics length_statistics(const Dataset& dataset) {
  const LengthLimits& limits = dataset.parts().front().limits;
  return statistics_of(
      all_lengths(dataset, [](const TokenTable& table, int64_t row) { return table.length(row); }),
      dataset.has_sources() ? limits.target_tokens() : limits.max_length_tokens);
}

LengthStatistics source_length_statistics(const Dataset& dataset) {
  return statistics_of(
      all_lengths(dataset, [](const TokenTable& table, int64_t row) { return table.source_length(row); }),
      dataset.parts().front().limits.max_length_tokens);
}

PackStatistics pack_statistics(const Dataset& dataset, const BatchOptions& options) {
  EpochPieces packs = make_epoch(dataset, options, 0);
  int64_t tokens = 0;
  int64_t source_tokens = 0;
  for (int64_t example : packs.examples) {
    tokens += dataset.length_tokens(example);
    source_tokens += dataset.source_length_tokens(example);
  }
  auto share = [&](int64_t used, int64_t of_a_pack) {
    return static_cast<double>(used) / (static_cast<double>(packs.size()) * static_cast<double>(of_a_pack));
  };
  return {.packs = packs.size(),
          .filled = share(tokens, options.packed_tokens),
          .filled_source = dataset.has_sources() ? share(source_tokens, options.packed_source_tokens) : 0};
}

std::vector<DataWarning> data_warnings(const Dataset& dataset, OnBadRow on_bad_row) {
  std::vector<DataWarning> warnings;
  auto add = [&](const char* kind, const Finding& finding, std::string_view text) {
    if (finding.count > 0) {
      warnings.push_back({kind, std::string(text), finding.count, finding.first});
    }
  };
  for (const Dataset::Part& part : dataset.parts()) {
    const TableFacts& facts = part.table->facts();
    Finding bad{facts.bad_rows, facts.bad.empty() ? "" : facts.bad.front()};
    add("bad_rows", bad,
        on_bad_row == OnBadRow::skip
            ? "cannot be used and are skipped"
            : "cannot be used: training stops at them, unless data.on_bad_row is skip");
    add("nothing_learned", facts.nothing_learned, "have nothing to learn and are left out");
    add("empty_answers", facts.empty_answers, "have an empty answer: the model learns to say nothing");
    add("wrong_role_order", facts.wrong_role_order,
        "have roles out of order: user and assistant take turns, the assistant last");
    add("without_end", facts.without_end,
        facts.chat_template.empty()
            ? "do not end with an end token: the model does not learn to stop"
            : fmt::format(
                  "do not end with an end token, for the chat template {} writes none behind an answer: the "
                  "model does not learn to stop",
                  facts.chat_template));
    add("template_unused", {facts.template_unused ? facts.rows : 0, ""},
        "are plain pairs, laid end to end without the chat template that the model brings: set "
        "data.chat_template to model to use it, or to none if this is meant");
    add("unknown_roles", facts.unknown_roles,
        "have a role that chat templates do not know: write system, user, assistant or tool");
    add("unfound_answers", facts.unfound_answers,
        fmt::format(
            "have answers that are not learned, for the chat template {} leaves them out or changes them "
            "beyond recognition; the others are learned. A copy of it with {{% generation %}} and "
            "{{% endgeneration %}} around the answers says where they are",
            facts.chat_template));
    add("unknown_text", facts.unknown_text,
        "are to a tenth or more text that this model's vocabulary cannot write (<unk>): is it the right "
        "model for "
        "this language?");
    add("duplicates", facts.duplicates, "say the same as a row before them");
  }
  const TruncationCounts& counts = dataset.truncation();
  if (dataset.has_sources()) {
    add("cut_sources", {counts.sources.examples, ""},
        "have a source that is cut: the encoder does not read what is cut off; see data.max_length");
    add("cut_targets", {counts.targets.examples, ""},
        "have a target that is cut: what is cut off is not learned; see data.max_target_length");
  } else {
    add("cut", {counts.targets.examples, ""}, "are cut: what is cut off is not learned; see data.max_length");
  }
  add("dropped_long", {counts.dropped_long, ""},
      dataset.has_sources() ? "are too long and dropped; see data.max_length and data.max_target_length"
                            : "are too long and dropped; see data.max_length");
  add("all_cut_away", {counts.nothing_learned, ""},
      "are dropped, for all that would be learned is cut away; see data.max_length");
  return warnings;
}

std::vector<DataWarning> data_warnings(const RunData& data, const DataSection& section) {
  std::vector<DataWarning> warnings = data_warnings(data.train, section.on_bad_row);
  if (!data.eval) {
    return warnings;
  }
  if (section.eval_split == 0) {  // else they are rows of the same files
    std::vector<DataWarning> others = data_warnings(*data.eval, section.on_bad_row);
    warnings.insert(warnings.end(), others.begin(), others.end());
  }
  if (int64_t both = count_rows_in_both(data.train, *data.eval); both > 0) {
    warnings.push_back({"in_train_and_eval",
                        "to evaluate with are also trained on: the evaluation's loss says less than it seems",
                        both, ""});
  }
  return warnings;
}

}  // namespace snug
