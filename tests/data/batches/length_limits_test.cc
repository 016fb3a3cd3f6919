// What a length limit does to pairs and to long rows, worked out by hand.
#include <map>

#include "data/data_fixture.h"
#include "data/data_statistics.h"

namespace snug {
namespace {

constexpr int32_t kNo = -100;
constexpr int32_t kEnd = 21;
constexpr int32_t kStart = 20;

// "abcddcab" is 6 8 8 2 5, and the end behind it.
class PairLimits : public DataTest {
 protected:
  PairLimits() { decoder_start_id_ = kStart; }
  Dataset load_pair() {
    return load("d.jsonl", "{\"prompt\": \"abcddcab\", \"completion\": \"abcddcab\"}\n");
  }
};

TEST_F(PairLimits, WithoutACut) {
  Dataset dataset = load_pair();
  EXPECT_EQ(source_ids_of(dataset, 0), (Ids{6, 8, 8, 2, 5, kEnd}));
  EXPECT_EQ(targets_of(dataset, 0), (Ids{6, 8, 8, 2, 5, kEnd}));
  EXPECT_EQ(ids_of(dataset, 0), (Ids{kStart, 6, 8, 8, 2, 5}));
  EXPECT_EQ(dataset.count_tokens().with_sources(), 12);
  EXPECT_EQ(dataset.count_tokens().learned, 6);
}

// Hugging Face's T5 tokenizer cuts the text to one token less than max_length, and puts the end behind it.
TEST_F(PairLimits, ACutOnTheRightKeepsTheEnd) {
  recipe_.data.max_length = 4;
  recipe_.data.max_target_length = 3;
  Dataset dataset = load_pair();
  EXPECT_EQ(source_ids_of(dataset, 0), (Ids{6, 8, 8, kEnd}));
  EXPECT_EQ(targets_of(dataset, 0), (Ids{6, 8, kEnd}));
  EXPECT_EQ(ids_of(dataset, 0), (Ids{kStart, 6, 8}));
  EXPECT_EQ(dataset.length_tokens(0), 3);
  EXPECT_EQ(dataset.source_length_tokens(0), 4);
  EXPECT_EQ(dataset.truncation().cut_examples, 1);
  EXPECT_EQ(dataset.truncation().sources.tokens, 2);
  EXPECT_EQ(dataset.truncation().targets.tokens, 3);
  EXPECT_EQ(dataset.count_tokens().learned, 3);
}

TEST_F(PairLimits, ACutOnTheLeftKeepsTheLastTokens) {
  recipe_.data.max_length = 4;
  recipe_.data.truncation_side = TruncationSide::left;
  Dataset dataset = load_pair();
  EXPECT_EQ(source_ids_of(dataset, 0), (Ids{8, 2, 5, kEnd}));
  EXPECT_EQ(targets_of(dataset, 0), (Ids{8, 2, 5, kEnd})) << "max_length holds for both";
  EXPECT_EQ(ids_of(dataset, 0), (Ids{kStart, 8, 2, 5}));
}

TEST_F(PairLimits, OneSideAloneMayBeCut) {
  recipe_.data.max_length = 6;
  recipe_.data.max_target_length = 5;
  Dataset dataset = load_pair();
  EXPECT_EQ(source_ids_of(dataset, 0), (Ids{6, 8, 8, 2, 5, kEnd}));
  EXPECT_EQ(targets_of(dataset, 0), (Ids{6, 8, 8, 2, kEnd}));
  EXPECT_EQ(dataset.truncation().cut_examples, 1);
  EXPECT_EQ(dataset.truncation().sources.examples, 0);
  EXPECT_EQ(dataset.truncation().targets.examples, 1);
  EXPECT_EQ(dataset.truncation().targets.tokens, 1);
}

TEST_F(PairLimits, CutsOfSourcesAndTargetsAreToldApart) {
  recipe_.data.max_length = 5;
  recipe_.data.max_target_length = 4;
  // Tokens with the end: 6 to 2, 2 to 6, 6 to 6, 2 to 2.
  Dataset dataset = load("d.jsonl",
                         "{\"prompt\": \"abcddcab\", \"completion\": \"a\"}\n"
                         "{\"prompt\": \"a\", \"completion\": \"abcddcab\"}\n"
                         "{\"prompt\": \"abcddcab\", \"completion\": \"abcddcab\"}\n"
                         "{\"prompt\": \"a\", \"completion\": \"a\"}\n");
  EXPECT_EQ(dataset.truncation().cut_examples, 3);
  EXPECT_EQ(dataset.truncation().sources.examples, 2);
  EXPECT_EQ(dataset.truncation().sources.tokens, 2);
  EXPECT_EQ(dataset.truncation().targets.examples, 2);
  EXPECT_EQ(dataset.truncation().targets.tokens, 4);
  std::string said = describe(dataset);
  EXPECT_NE(said.find("; 2 sources cut to 5 tokens (2 tokens lost)"), std::string::npos) << said;
  EXPECT_NE(said.find("; 2 targets cut to 4 tokens (4 tokens lost)"), std::string::npos) << said;
  std::map<std::string, int64_t> warnings;
  for (const DataWarning& warning : data_warnings(dataset, OnBadRow::stop)) {
    warnings[warning.kind] = warning.rows;
  }
  EXPECT_EQ(warnings["cut_sources"], 2);
  EXPECT_EQ(warnings["cut_targets"], 2);
  EXPECT_FALSE(warnings.contains("cut"));
}

TEST_F(PairLimits, LongPairsAreDroppedIfTheRecipeSaysSo) {
  recipe_.data.truncation = Truncation::drop;
  std::string rows =
      "{\"prompt\": \"abcddcab\", \"completion\": \"a\"}\n"
      "{\"prompt\": \"a\", \"completion\": \"abcddcab\"}\n"
      "{\"prompt\": \"a\", \"completion\": \"abcd\"}\n";
  recipe_.data.max_length = 5;
  Dataset dataset = load("d.jsonl", rows);
  EXPECT_EQ(dataset.size(), 1);
  EXPECT_EQ(dataset.truncation().dropped_long, 2);
  recipe_.data.max_length = 6;
  recipe_.data.max_target_length = 2;
  dataset = load("d.jsonl", rows);
  EXPECT_EQ(dataset.size(), 1);
  EXPECT_EQ(targets_of(dataset, 0), (Ids{0, kEnd}));
}

class RowLimits : public DataTest {
 protected:
  // 6 8 8 2 5 and the end.
  Dataset load_with(Truncation truncation, TruncationSide side, int64_t max_length) {
    recipe_.data.truncation = truncation;
    recipe_.data.truncation_side = side;
    recipe_.data.max_length = max_length;
    return load("d.jsonl", "{\"text\": \"abcddcab\"}\n{\"text\": \"dd\"}\n");
  }
};

TEST_F(RowLimits, ALengthThatJustFitsIsNotCut) {
  for (Truncation truncation : {Truncation::cut, Truncation::drop, Truncation::split}) {
    Dataset dataset = load_with(truncation, TruncationSide::right, 6);
    ASSERT_EQ(dataset.size(), 2);
    EXPECT_EQ(ids_of(dataset, 0), (Ids{6, 8, 8, 2, 5, kEnd}));
    EXPECT_EQ(dataset.truncation().cut_examples, 0);
    EXPECT_EQ(dataset.truncation().dropped_long, 0);
    EXPECT_EQ(dataset.truncation().split_rows, 0);
  }
}

TEST_F(RowLimits, PiecesFollowEachOther) {
  Dataset dataset = load_with(Truncation::split, TruncationSide::right, 3);
  ASSERT_EQ(dataset.size(), 3);
  EXPECT_EQ(ids_of(dataset, 0), (Ids{6, 8, 8}));
  EXPECT_EQ(targets_of(dataset, 0), (Ids{8, 8, kNo}));
  EXPECT_EQ(ids_of(dataset, 1), (Ids{2, 5, kEnd}));
  EXPECT_EQ(targets_of(dataset, 1), (Ids{5, kEnd, kNo}));
  EXPECT_EQ(dataset.count_tokens().learned, 2 + 2 + 2);
  dataset = load_with(Truncation::split, TruncationSide::right, 5);
  ASSERT_EQ(dataset.size(), 2) << "one token alone teaches nothing";
  EXPECT_EQ(ids_of(dataset, 1), (Ids{8, 8, kEnd}));
  EXPECT_EQ(dataset.truncation().split_rows, 1);
}

TEST_F(RowLimits, PromptsLoseTheirStartOnTheLeft) {
  recipe_.data.truncation_side = TruncationSide::left;
  recipe_.data.max_length = 4;
  Dataset dataset = load("d.jsonl", "{\"prompt\": \"abcddc\", \"completion\": \"ab\"}\n");
  EXPECT_EQ(ids_of(dataset, 0), (Ids{8, 2, 5, kEnd}));
  EXPECT_EQ(targets_of(dataset, 0), (Ids{kNo, 5, kEnd, kNo}));
  recipe_.data.truncation_side = TruncationSide::right;
  EXPECT_SAYS(error_text(ErrorKind::bad_input, [&] { load(); }), "cuts away all that would be learned");
  recipe_.data.truncation = Truncation::drop;
  EXPECT_SAYS(error_text(ErrorKind::bad_input, [&] { load(); }), "is shorter than every row");
  recipe_.data.truncation = Truncation::split;  // 6 8 8 2, 5 21
  EXPECT_EQ(load().train.size(), 1) << "the piece without an answer is left out";
}

}  // namespace
}  // namespace snug
