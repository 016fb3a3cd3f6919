// Rows kept for evaluation: so many, chosen by the seed, each on one side only.
#include <map>
#include <set>

#include "data/batches/epoch.h"
#include "data/data_fixture.h"

namespace snug {
namespace {

// Rows of 2 to 13 tokens, seen through a limit of 4: up to 4 examples a row.
Dataset split_rows(int64_t rows, int32_t parts = 1) {
  std::vector<int64_t> lengths;
  for (int64_t i = 0; i < rows; ++i) {
    lengths.push_back(2 + i % 12);
  }
  Dataset dataset;
  for (int32_t part = 0; part < parts; ++part) {
    dataset.add(table_of_lengths(lengths), {.truncation = Truncation::split, .max_length_tokens = 4});
  }
  return dataset;
}

// (part, row, length) of each example, by the token that tells the row.
std::multiset<std::tuple<size_t, int32_t, int64_t>> contents(const Dataset& dataset) {
  std::multiset<std::tuple<size_t, int32_t, int64_t>> all;
  for (size_t part = 0; part < dataset.parts().size(); ++part) {
    for (int64_t i = dataset.parts()[part].first; i < dataset.parts()[part].end; ++i) {
      all.insert({part, ids_of(dataset, i).front(), dataset.length_tokens(i)});
    }
  }
  return all;
}

std::set<std::pair<size_t, int32_t>> rows_of(const Dataset& dataset) {
  std::set<std::pair<size_t, int32_t>> rows;
  for (auto [part, row, length] : contents(dataset)) {
    rows.insert({part, row});
  }
  return rows;
}

TEST(SplitOff, TakesAShareOrANumberOfRows) {
  struct Case {
    double wanted;
    size_t rows;
  };
  for (const Case& c :
       {Case{0.25, 50}, Case{0.02, 4}, Case{0.5, 100}, Case{1, 1}, Case{7, 7}, Case{199, 199}}) {
    Dataset train = split_rows(100, 2);
    auto before = contents(train);
    Dataset eval = train.split_off(c.wanted, 42);
    EXPECT_EQ(rows_of(eval).size(), c.rows) << c.wanted;
    EXPECT_EQ(rows_of(train).size(), 200 - c.rows) << "no row is on both sides";
    auto after = contents(train);
    after.merge(contents(eval));
    EXPECT_EQ(after, before) << "every piece of every row is still there";
  }
}

TEST(SplitOff, FollowsTheSeed) {
  auto taken = [](uint64_t seed) {
    Dataset train = split_rows(100);
    return rows_of(train.split_off(10, seed));
  };
  EXPECT_EQ(taken(42), taken(42));
  EXPECT_NE(taken(42), taken(43));
  std::map<int32_t, int> counts;
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    Dataset train = split_rows(8);
    for (auto [part, row] : rows_of(train.split_off(2, seed))) {
      ++counts[row];
    }
  }
  for (int32_t row = 0; row < 8; ++row) {
    EXPECT_NEAR(counts[row], 500, 97);  // five standard deviations
  }
}

TEST(SplitOff, KeepsTheOrderAndTheLimits) {
  Dataset train = split_rows(50, 3);
  Dataset eval = train.split_off(0.3, 1);
  for (const Dataset* dataset : {&train, &eval}) {
    ASSERT_EQ(dataset->parts().size(), 3U);
    EXPECT_EQ(dataset->parts().back().end, dataset->size());
    for (const Dataset::Part& part : dataset->parts()) {
      EXPECT_EQ(part.limits.max_length_tokens, 4);
      for (int64_t i = part.first + 1; i < part.end; ++i) {
        EXPECT_LE(ids_of(*dataset, i - 1).front(), ids_of(*dataset, i).front());
      }
    }
  }
}

TEST(SplitOff, PairsStayPairs) {
  Dataset train;
  train.add(table_of_lengths({2, 3, 4}, {5, 6, 7}), {.max_length_tokens = 10});
  Dataset eval = train.split_off(1, 1);
  EXPECT_TRUE(eval.has_sources());
  EXPECT_TRUE(train.has_sources());
  EXPECT_EQ(eval.source_length_tokens(0), eval.length_tokens(0) + 3);
}

// Weights say how often rows are trained on; what is measured is each row once.
TEST(SplitOff, EvaluatesEachRowOnce) {
  Dataset train;
  train.add(table_of_lengths(std::vector<int64_t>(40, 3)), {.max_length_tokens = 8}, 3);
  train.add(table_of_lengths(std::vector<int64_t>(40, 3)), {.max_length_tokens = 8}, 0.25);
  Dataset eval = train.split_off(0.5, 1);
  EpochPieces pieces = make_epoch(eval, {.shuffle = false}, 0);
  std::vector<int64_t> expected(40);
  for (size_t i = 0; i < expected.size(); ++i) {
    expected[i] = static_cast<int64_t>(i);
  }
  EXPECT_EQ(pieces.examples, expected);
  EXPECT_EQ(examples_per_epoch(train),
            3 * (train.parts()[0].end - train.parts()[0].first) +
                std::llround(0.25 * static_cast<double>(train.parts()[1].end - train.parts()[1].first)));
}

}  // namespace
}  // namespace snug
