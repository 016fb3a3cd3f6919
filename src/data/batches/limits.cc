// Limits from lengths.
#include "data/batches/limits.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include "data/batches/cut.h"
#include "recipe/effective_batch.h"

namespace snug {
namespace {

struct RepeatedLength {
  int64_t tokens = 0;
  int64_t times = 0;

  bool operator>(const RepeatedLength& other) const { return tokens > other.tokens; }
};

// [n] is the sum of the n largest, up to `count` of them.
std::vector<int64_t> sums_of_largest(std::vector<RepeatedLength> lengths, int64_t count) {
  auto kept = std::min(lengths.size(), static_cast<size_t>(count));
  std::partial_sort(lengths.begin(), lengths.begin() + static_cast<std::ptrdiff_t>(kept), lengths.end(),
                    std::greater<>());
  std::vector<int64_t> sums = {0};
  for (size_t i = 0; i < kept; ++i) {
    for (int64_t time = 0; time < lengths[i].times && std::ssize(sums) <= count; ++time) {
      sums.push_back(sums.back() + lengths[i].tokens);
    }
  }
  return sums;
}

// The sequences of the steps that a run begins with: enough to know how its steps are cut.
constexpr int64_t kKnownSequences = 1 << 16;

std::vector<std::vector<BatchLimits>> sizes_of_first_steps(const Dataset& dataset,
                                                           const BatchOptions& options) {
  std::vector<std::vector<BatchLimits>> steps;
  if (options.batching == Batching::packed) {  // all packs are about as long
    return steps;
  }
  EpochPieces epoch = make_epoch(dataset, options, 0);
  int64_t known = std::min(epoch.size(), kKnownSequences);
  for (int64_t piece = 0; piece < known; ++piece) {
    if (piece % options.effective_batch == 0) {
      steps.emplace_back();
    }
    steps.back().push_back(piece_size(dataset, epoch, piece));
  }
  if (steps.size() > 1 && steps.back().size() < steps.front().size()) {  // known in part, or the epoch's last
    steps.pop_back();
  }
  return steps;
}

// What these steps say of those that follow.
void expect(const std::vector<std::vector<BatchLimits>>& steps, const BatchLimits& most, StepCut& cut) {
  if (steps.empty()) {
    return;
  }
  double begun = 0;
  cut.tokens = 0;
  cut.source_tokens = 0;
  auto count = static_cast<double>(steps.size());
  for (const std::vector<BatchLimits>& step : steps) {
    MicroBatchFilling filling(most);
    for (const BatchLimits& piece : step) {
      begun += filling.begins_with(piece) ? 1 : 0;
      cut.tokens += static_cast<double>(piece.tokens) / count;
      cut.source_tokens += static_cast<double>(piece.source_tokens) / count;
    }
  }
  cut.expected = begun / count;
}

BatchLimits smaller(const BatchLimits& a, const BatchLimits& b) {
  return {.sequences = std::min(a.sequences, b.sequences),
          .tokens = std::min(a.tokens, b.tokens),
          .source_tokens = std::min(a.source_tokens, b.source_tokens)};
}

}  // namespace

BatchOptions training_batches(const Recipe& recipe, const Dataset& dataset, const BatchLimits& micro_batch) {
  const TrainingSection& training = recipe.training;
  BatchOptions options{.effective_batch = effective_batch(training),
                       .micro_batch = micro_batch,
                       .epochs = training.num_train_epochs,
                       .max_steps = training.max_steps,
                       .seed = static_cast<uint64_t>(training.seed)};
  if (recipe.data.packing) {
    options.batching = Batching::packed;
    BatchLimits pack = pack_limits(recipe, dataset.has_sources());
    options.packed_tokens = pack.tokens;
    options.packed_source_tokens = pack.source_tokens;
    options.packed_sequences = pack.sequences;
  } else if (training.group_by_length) {
    options.batching = Batching::grouped;
  }
  return options;
}

DataLimits::DataLimits(const Recipe& recipe, const Dataset& train_data,
                       const std::vector<const Dataset*>& eval_data)
    : train_(longest_sums(train_data, effective_batch(recipe.training))),
      has_sources_(train_data.has_sources()),
      learned_(train_data.count_tokens().learned_share()),
      first_steps_(sizes_of_first_steps(train_data, training_batches(recipe, train_data))) {
  for (const Dataset* dataset : eval_data) {
    LongestSums sums =
        longest_sums(*dataset, recipe.training.per_device_eval_batch_size.value_or(kMostEvaluationSequences));
    if (!evaluate_) {
      evaluate_ = std::move(sums);
    } else {
      raise_to(*evaluate_, sums);
    }
  }
}

// Sums grow with the number of examples, so that the last one stands for all numbers behind it.
void DataLimits::raise_to(LongestSums& sums, const LongestSums& other) {
  auto raise = [](std::vector<int64_t>& values, const std::vector<int64_t>& others) {
    values.resize(std::max(values.size(), others.size()), values.back());
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = std::max(values[i], others[std::min(i, others.size() - 1)]);
    }
  };
  raise(sums.tokens, other.tokens);
  raise(sums.source_tokens, other.source_tokens);
}

DataLimits::LongestSums DataLimits::longest_sums(const Dataset& dataset, int64_t max_sequences) {
  std::vector<RepeatedLength> lengths;
  std::vector<RepeatedLength> source_lengths;
  for (const Dataset::Part& part : dataset.parts()) {
    // With a weight above 1 an example comes more than once an epoch, perhaps into one batch.
    auto times = static_cast<int64_t>(std::ceil(part.weight));
    for (int64_t i = part.first; i < part.end; ++i) {
      lengths.push_back({dataset.length_tokens(i), times});
      if (dataset.has_sources()) {
        source_lengths.push_back({dataset.source_length_tokens(i), times});
      }
    }
  }
  return {sums_of_largest(std::move(lengths), max_sequences),
          sums_of_largest(std::move(source_lengths), max_sequences)};
}

BatchLimits DataLimits::limits_of(const LongestSums& sums, int64_t sequences) {
  auto at = [&](const std::vector<int64_t>& values) {
    return values.empty()
               ? 1
               : std::max<int64_t>(values[std::min(values.size() - 1, static_cast<size_t>(sequences))], 1);
  };
  return {.sequences = std::min(sequences, std::max<int64_t>(std::ssize(sums.tokens) - 1, 1)),
          .tokens = at(sums.tokens),
          .source_tokens = sums.source_tokens.size() > 1 ? at(sums.source_tokens) : 0};
}

RunLimits DataLimits::operator()(const Recipe& recipe) const {
  BatchLimits longest = recipe.data.packing ? pack_limits(recipe, has_sources_) : limits_of(train_, 1);
  RunLimits limits{.train = micro_batch_limits(recipe, longest), .step = {}};
  BatchLimits longest_together = limits_of(train_, effective_batch(recipe.training));
  if (!recipe.data.packing) {  // packs are planned whole
    limits.train = smaller(limits.train, longest_together);
  }
  limits.step = longest_step(recipe, longest, limits.train);
  if (limits.train == longest_together) {  // no step is ever cut
    limits.step.most = 1;
  }
  expect(first_steps_, limits.train, limits.step);
  limits.step.learned = learned_;
  if (evaluate_) {
    int64_t sequences = recipe.training.per_device_eval_batch_size.value_or(1);
    limits.evaluate = evaluation_limits(limits_of(*evaluate_, sequences), sequences);
  }
  return limits;
}

}  // namespace snug
