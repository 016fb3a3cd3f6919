// An epoch's examples: weights, and groups of about the same length.
#include "data/batches/epoch.h"

#include <cmath>
#include <map>
#include <set>

#include "data/data_fixture.h"

namespace snug {
namespace {

void add_part(Dataset& dataset, int64_t count, double weight) {
  dataset.add(table_of_lengths(std::vector<int64_t>(static_cast<size_t>(count), 3)), {.max_length_tokens = 8},
              weight);
}

std::map<int64_t, int> counts_of(const EpochPieces& epoch) {
  std::map<int64_t, int> counts;
  for (int64_t example : epoch.examples) {
    ++counts[example];
  }
  return counts;
}

TEST(Weights, OneIsTheOrderWithoutWeights) {
  Dataset dataset;
  add_part(dataset, 30, 1);
  add_part(dataset, 12, 1);
  for (int64_t epoch : {0, 1, 7}) {
    EXPECT_EQ(make_epoch(dataset, {.seed = 42}, epoch).examples, epoch_order(42, 42, epoch));
  }
}

TEST(Weights, SayHowOftenAnExampleComes) {
  Dataset dataset;
  add_part(dataset, 10, 2);    // 0 to 9
  add_part(dataset, 20, 0.5);  // 10 to 29
  add_part(dataset, 5, 1);     // 30 to 34
  add_part(dataset, 4, 2.5);   // 35 to 38
  EXPECT_EQ(examples_per_epoch(dataset), 20 + 10 + 5 + 10);
  std::set<std::set<int64_t>> halves;
  for (int64_t epoch = 0; epoch < 8; ++epoch) {
    EpochPieces pieces = make_epoch(dataset, {.effective_batch = 4, .seed = 3}, epoch);
    EXPECT_EQ(std::ssize(pieces.examples), 45);
    EXPECT_EQ(pieces.size(), 45);
    std::map<int64_t, int> counts = counts_of(pieces);
    std::set<int64_t> half;
    int extra = 0;
    for (auto [example, count] : counts) {
      if (example < 10) {
        EXPECT_EQ(count, 2);
      } else if (example < 30) {
        EXPECT_EQ(count, 1);
        half.insert(example);
      } else if (example < 35) {
        EXPECT_EQ(count, 1);
      } else {
        EXPECT_TRUE(count == 2 || count == 3) << count;
        extra += count - 2;
      }
    }
    EXPECT_EQ(counts.size(), 10U + 10U + 5U + 4U);
    EXPECT_EQ(extra, 2);
    halves.insert(half);
  }
  EXPECT_GE(halves.size(), 7U) << "another half in another epoch";
}

TEST(Weights, EveryExampleOfAHalfIsAsLikely) {
  Dataset dataset;
  add_part(dataset, 8, 0.5);
  std::map<int64_t, int> counts;
  for (int64_t epoch = 0; epoch < 2000; ++epoch) {
    for (int64_t example : make_epoch(dataset, {.seed = 1}, epoch).examples) {
      ++counts[example];
    }
  }
  for (int64_t i = 0; i < 8; ++i) {
    EXPECT_NEAR(counts[i], 1000, 112);  // five standard deviations
  }
}

TEST(Weights, AFileWithExamplesAlwaysGivesOne) {
  Dataset dataset;
  add_part(dataset, 10, 0.001);
  EXPECT_EQ(examples_per_epoch(dataset), 1);
  EXPECT_EQ(make_epoch(dataset, {}, 0).size(), 1);
}

class Groups : public testing::Test {
 protected:
  Groups() { dataset_.add(table_of_lengths(lengths_), {.max_length_tokens = 4096}); }

  // How far apart the lengths in a step are, on average.
  double spread(const EpochPieces& epoch) const {
    int64_t step = options_.effective_batch;
    double total = 0;
    int64_t steps = 0;
    for (int64_t first = 0; first < std::ssize(epoch.examples); first += step, ++steps) {
      int64_t shortest = 1 << 20;
      int64_t longest = 0;
      for (int64_t i = first; i < std::min(first + step, std::ssize(epoch.examples)); ++i) {
        int64_t length = lengths_[static_cast<size_t>(epoch.examples[static_cast<size_t>(i)])];
        shortest = std::min(shortest, length);
        longest = std::max(longest, length);
      }
      total += static_cast<double>(longest - shortest);
    }
    return total / static_cast<double>(steps);
  }

  std::vector<int64_t> lengths_ = realistic_lengths(3005, 200, 2048, 4);
  Dataset dataset_;
  BatchOptions options_ = {.effective_batch = 8, .seed = 5};
};

TEST_F(Groups, AreOfAboutTheSameLength) {
  EpochPieces random = make_epoch(dataset_, options_, 0);
  options_.batching = Batching::grouped;
  EpochPieces grouped = make_epoch(dataset_, options_, 0);
  EXPECT_EQ(random.begins, grouped.begins) << "the same sizes";
  EXPECT_EQ(counts_of(grouped).size(), 3005U);
  EXPECT_EQ(grouped.examples.size(), 3005U);
  EXPECT_LT(spread(grouped), spread(random) / 8);
}

TEST_F(Groups, ChangeWithEpochAndSeedAndStandInNoOrder) {
  options_.batching = Batching::grouped;
  EpochPieces first = make_epoch(dataset_, options_, 0);
  EXPECT_EQ(first.examples, make_epoch(dataset_, options_, 0).examples);
  EXPECT_NE(first.examples, make_epoch(dataset_, options_, 1).examples);
  // Steps that are longer than the one before: all or none of them if steps were sorted.
  int64_t longer = 0;
  int64_t steps = 3005 / 8;
  for (int64_t i = 1; i < steps; ++i) {
    auto length = [&](int64_t step) {
      return lengths_[static_cast<size_t>(first.examples[static_cast<size_t>(step * 8)])];
    };
    longer += length(i) > length(i - 1) ? 1 : 0;
  }
  EXPECT_GT(longer, steps / 3);
  EXPECT_LT(longer, 2 * steps / 3);
}

}  // namespace
}  // namespace snug
