// The largest batch that data can make: never exceeded by any batch of any epoch, and no larger than the
// worst that can happen.
#include "data/batches/limits.h"

#include "data/batches/batch.h"
#include "data/batches/cut.h"

#include "data/data_fixture.h"

namespace snug {
namespace {

BatchLimits largest_of(const Dataset& dataset, const BatchOptions& options, int64_t epochs) {
  BatchLimits most;
  for (int64_t epoch = 0; epoch < epochs; ++epoch) {
    EpochPieces pieces = make_epoch(dataset, options, epoch);
    for (int64_t first = 0; first < pieces.size(); first += options.effective_batch) {
      int64_t last = std::min(first + options.effective_batch, pieces.size());
      int64_t begin = first;
      for (int64_t end : cut_pieces(dataset, pieces, first, last, options.micro_batch)) {
        Batch batch = make_batch(dataset, pieces.pieces(begin, end));
        begin = end;
        most.sequences = std::max(most.sequences, batch.sequences());
        most.tokens = std::max(most.tokens, batch.tokens());
        most.source_tokens = std::max(most.source_tokens, batch.source_tokens());
      }
    }
  }
  return most;
}

Recipe recipe_of(int64_t batch, int64_t max_length) {
  Recipe recipe;
  recipe.training.per_device_train_batch_size = batch;
  recipe.training.per_device_eval_batch_size = batch;
  recipe.data.max_length = max_length;
  return recipe;
}

struct LimitsCase {
  std::vector<std::pair<std::vector<int64_t>, double>> parts;  // lengths and weight
  int64_t batch;
  int64_t tokens;  // the worst that can happen
  int64_t sequences;
};

TEST(DataLimits, EqualTheWorstThatHappens) {
  for (const LimitsCase& c : std::vector<LimitsCase>{
           {{{{2, 9, 4, 7}, 1}}, 2, 16, 2},
           {{{{2, 9, 4, 7}, 1}}, 3, 20, 3},
           {{{{2, 9, 4}, 1}}, 8, 15, 3},                   // fewer examples than a batch holds
           {{{{2, 9, 4}, 2}}, 2, 18, 2},                   // the longest twice
           {{{{2, 9, 4}, 1.5}}, 2, 18, 2},                 // sometimes
           {{{{2, 9, 4}, 2}}, 8, 30, 6},                   // all of them twice
           {{{{8, 3}, 3}, {{9, 2}, 1}}, 3, 9 + 8 + 8, 3},  // two parts
           {{{{8, 3}, 1}, {{9, 2, 2, 2}, 0.5}}, 2, 17, 2},
       }) {
    Dataset dataset;
    for (const auto& [lengths, weight] : c.parts) {
      dataset.add(table_of_lengths(lengths), {.max_length_tokens = 50}, weight);
    }
    Recipe recipe = recipe_of(c.batch, 50);
    BatchLimits limits = DataLimits(recipe, dataset, {})(recipe).train;
    BatchLimits most = largest_of(dataset, training_batches(recipe, dataset), 400);
    EXPECT_EQ(limits.tokens, c.tokens);
    EXPECT_EQ(most.tokens, c.tokens) << "it happens";
    EXPECT_EQ(limits.sequences, c.sequences);
    EXPECT_EQ(most.sequences, c.sequences);
  }
}

TEST(DataLimits, HoldForEveryWayOfMakingBatches) {
  std::vector<int64_t> lengths = realistic_lengths(300, 30, 100, 1);
  std::vector<int64_t> others = realistic_lengths(80, 60, 100, 2);
  for (double weight : {1.0, 0.3, 2.7}) {
    Dataset dataset;
    dataset.add(table_of_lengths(lengths), {.max_length_tokens = 100});
    dataset.add(table_of_lengths(others), {.max_length_tokens = 100}, weight);
    for (int64_t batch : {1, 3, 8}) {
      for (int way = 0; way < 3; ++way) {
        Recipe recipe = recipe_of(batch, 100);
        recipe.training.group_by_length = way == 1;
        recipe.data.packing = way == 2;
        BatchLimits limits = DataLimits(recipe, dataset, {})(recipe).train;
        BatchLimits most = largest_of(dataset, training_batches(recipe, dataset, limits), 20);
        EXPECT_LE(most.tokens, limits.tokens);
        EXPECT_LE(most.sequences, limits.sequences);
        EXPECT_LE(limits.tokens, batch * 100) << "never more than the recipe alone says";
      }
    }
  }
}

TEST(DataLimits, PairsHaveTwo) {
  // The longest sources do not belong to the longest answers.
  Dataset dataset;
  dataset.add(table_of_lengths({9, 2, 3, 4}, {5, 30, 20, 6}), {.max_length_tokens = 40});
  Recipe recipe = recipe_of(2, 40);
  BatchLimits limits = DataLimits(recipe, dataset, {})(recipe).train;
  BatchLimits most = largest_of(dataset, training_batches(recipe, dataset), 400);
  EXPECT_EQ(limits.tokens, 13);
  EXPECT_EQ(limits.source_tokens, 50);
  EXPECT_EQ(most.tokens, 13);
  EXPECT_EQ(most.source_tokens, 50);

  recipe.data.packing = true;
  recipe.data.max_target_length = 10;
  limits = DataLimits(recipe, dataset, {})(recipe).train;
  most = largest_of(dataset, training_batches(recipe, dataset, limits), 50);
  EXPECT_LE(most.tokens, limits.tokens);
  EXPECT_LE(most.source_tokens, limits.source_tokens);
  EXPECT_LE(limits.tokens, 20);
  EXPECT_LE(limits.source_tokens, 80);
}

TEST(DataLimits, AnswerForSmallerMicroBatchesToo) {
  std::vector<int64_t> lengths = realistic_lengths(50, 30, 100, 3);
  Dataset dataset;
  dataset.add(table_of_lengths(lengths), {.max_length_tokens = 100}, 2);
  DataLimits made_for_all(recipe_of(8, 100), dataset, {});
  for (int64_t tokens : {1, 99, 100, 250, 1000}) {
    Recipe recipe = recipe_of(8, 100);
    recipe.memory.micro_batch_tokens = tokens;
    EXPECT_EQ(made_for_all(recipe).train, DataLimits(recipe, dataset, {})(recipe).train);
  }
}

TEST(DataLimits, EvaluationHasItsOwn) {
  Dataset train;
  train.add(table_of_lengths({5, 6, 7}), {.max_length_tokens = 50});
  Dataset eval;
  eval.add(table_of_lengths({30, 2, 11}), {.max_length_tokens = 50});
  Recipe recipe = recipe_of(2, 50);
  RunLimits limits = DataLimits(recipe, train, {&eval})(recipe);
  EXPECT_EQ(limits.train.tokens, 13);
  EXPECT_EQ(limits.evaluate->tokens, 41);
  recipe.data.packing = true;
  EXPECT_EQ(DataLimits(recipe, train, {&eval})(recipe).evaluate->tokens, 41) << "evaluation does not pack";
}

// Sets are evaluated one at a time: the longest batch is that of one of them.
TEST(DataLimits, SeveralSetsHaveTheLargestOfEach) {
  Dataset train;
  train.add(table_of_lengths({5}), {.max_length_tokens = 50});
  Dataset many;
  many.add(table_of_lengths({9, 8, 7, 6}), {.max_length_tokens = 50});
  Dataset one;
  one.add(table_of_lengths({20}), {.max_length_tokens = 50});
  const std::vector<int64_t> expected = {20, 20, 24, 30};  // of 1, 2, 3 and 4 sequences
  for (const std::vector<const Dataset*>& sets :
       {std::vector<const Dataset*>{&many, &one}, std::vector<const Dataset*>{&one, &many}}) {
    for (int64_t sequences = 1; sequences <= 4; ++sequences) {
      Recipe recipe = recipe_of(2, 50);
      recipe.training.per_device_eval_batch_size = sequences;
      EXPECT_EQ(DataLimits(recipe, train, sets)(recipe).evaluate->tokens,
                expected[static_cast<size_t>(sequences - 1)])
          << sequences;
    }
  }
}

// A lower bound above what the data needs would refuse runs that fit.
TEST(SmallestLimits, AreNeverAboveThoseOfTheData) {
  ModelSpec spec;
  spec.encoder.resize(1);
  Recipe recipe;
  recipe.data.max_length = 512;
  recipe.data.max_target_length = 64;
  recipe.training.per_device_train_batch_size = 1;
  Dataset dataset = make_dataset({make_pair_example({1, 2, 3}, {4, 5})});
  for (bool packing : {false, true}) {
    recipe.data.packing = packing;
    BatchLimits least = smallest_limits(recipe, spec).train;
    BatchLimits needed = DataLimits(recipe, dataset, {})(recipe).train;
    EXPECT_LE(least.tokens, needed.tokens);
    EXPECT_LE(least.source_tokens, needed.source_tokens);
    EXPECT_LE(least.sequences, needed.sequences);
  }
}

}  // namespace
}  // namespace snug
