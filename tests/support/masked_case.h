// What is not learned takes no part: the losses of two halves of a batch's targets add up to the loss of all,
// and so do their gradients, whichever rows the loss head has for each.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "data/batches/synthetic.h"
#include "data/batches/target_rows.h"
#include "support/train_fixture.h"

namespace snug {

inline constexpr int64_t kMaskedSequences = 3;
inline constexpr int64_t kMaskedLength = 60;

inline Recipe masked_recipe(const std::string& model) {
  Recipe recipe = reference_recipe(reference_folder(model));
  recipe.data.max_length = kMaskedLength;
  recipe.data.max_target_length = kMaskedLength;
  return recipe;
}

// Only positions of a sequence in [begin, end) are learned.
inline Batch learned_between(Batch batch, int64_t begin, int64_t end) {
  for (size_t t = 0; t < batch.targets.size(); ++t) {
    if (batch.positions[t] < begin || batch.positions[t] >= end) {
      batch.targets[t] = kNoTarget;
    }
  }
  batch.target_count = batch.tokens() - std::count(batch.targets.begin(), batch.targets.end(), kNoTarget);
  return batch;
}

// Not divided by the number of targets.
struct SummedStep {
  double loss = 0;
  std::vector<double> gradients;  // all, one buffer after the other
};

template <typename Fixture>
SummedStep summed_step(Fixture& fixture, const std::vector<Batch>& batches) {
  int64_t targets = 0;
  for (const Batch& batch : batches) {
    targets += batch.target_count;
  }
  SummedStep step;
  auto count = static_cast<double>(std::max<int64_t>(targets, 1));
  step.loss = count * fixture.runner.accumulate_gradients(batches, 0);
  for (const Buffer& buffer : fixture.plan.phase(kTrainPhase).program.buffers) {
    if (buffer.role == Role::gradients) {
      std::vector<float> values(static_cast<size_t>(buffer.max_elements()));
      fixture.executor.read(kTrainPhase, buffer.name, std::as_writable_bytes(std::span(values)));
      for (float value : values) {
        step.gradients.push_back(count * static_cast<double>(value));
      }
    }
  }
  return step;
}

// ||a - b|| / ||b||; not a number where one of them is none.
inline double distance(const std::vector<double>& a, const std::vector<double>& b) {
  double difference = 0;
  double norm = 0;
  for (size_t i = 0; i < b.size(); ++i) {
    difference += std::pow(a.at(i) - b[i], 2);
    norm += std::pow(b[i], 2);
  }
  return std::sqrt(difference / norm);
}

// fp32 gradients of a model that computes to `tolerance`.
template <typename Fixture>
void expect_halves_add_up(Fixture& fixture, double tolerance) {
  Batch all = random_batch({kMaskedSequences, kMaskedLength, fixture.spec.vocabulary,
                            fixture.spec.has_encoder() ? int64_t{9} : int64_t{0}},
                           1);
  constexpr int64_t kHalf = kMaskedLength / 3;
  Batch first = learned_between(all, 0, kHalf);
  Batch second = learned_between(all, kHalf, kMaskedLength);
  ASSERT_EQ(make_target_rows(all.targets).size(), all.tokens());
  ASSERT_LT(make_target_rows(first.targets).size(), make_target_rows(second.targets).size());
  ASSERT_LT(make_target_rows(second.targets).size(), all.tokens());
  SummedStep wanted = summed_step(fixture, {all});
  SummedStep a = summed_step(fixture, {first});
  SummedStep b = summed_step(fixture, {second});
  EXPECT_NEAR(a.loss + b.loss, wanted.loss, tolerance * wanted.loss);
  std::vector<double> sum = a.gradients;
  for (size_t i = 0; i < sum.size(); ++i) {
    sum[i] += b.gradients[i];
  }
  EXPECT_LE(distance(sum, wanted.gradients), tolerance);
}

// A micro-batch without any target adds nothing, whether it comes first or last. A product that adds to zeros
// may be made otherwise than one that writes, hence the tolerance.
template <typename Fixture>
void expect_nothing_of_no_targets(Fixture& fixture, double tolerance) {
  Batch all = random_batch({kMaskedSequences, kMaskedLength, fixture.spec.vocabulary,
                            fixture.spec.has_encoder() ? int64_t{9} : int64_t{0}},
                           2);
  Batch some = learned_between(all, 40, kMaskedLength);
  Batch none = learned_between(all, 0, 0);
  ASSERT_EQ(none.target_count, 0);
  SummedStep wanted = summed_step(fixture, {some});
  for (const std::vector<Batch>& batches : {std::vector{none, some}, std::vector{some, none}}) {
    SummedStep step = summed_step(fixture, batches);
    EXPECT_EQ(step.loss, wanted.loss);
    EXPECT_LE(distance(step.gradients, wanted.gradients), tolerance);
  }
}

}  // namespace snug
