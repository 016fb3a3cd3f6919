// The cache file itself: what was written comes back, and a file that is damaged anywhere but in the tokens
// is not used.
#include "data/tokens/cache.h"

#include "data/batches/sequence.h"
#include "data/data_fixture.h"

namespace snug {
namespace {

// As the file's layout says: the header, then the words.
constexpr size_t kHeaderBytes = 48;
constexpr size_t kWordBytes = 4;

class TokenCacheTest : public testing::Test {
 protected:
  TokenCacheTest() {
    TokenCacheWriter writer(path_);
    for (const Example& example : examples_) {
      EXPECT_TRUE(writer.add(example));
    }
    EXPECT_FALSE(writer.add(make_example({1, 2}, 2))) << "nothing is learned in it";
    TableFacts facts;
    facts.files = "a.jsonl";
    facts.format = "text rows";
    facts.rows = 5;
    facts.vocabulary = 50;
    facts.bad_rows = 1;
    facts.bad = {"a.jsonl:2: not UTF-8: caf\xE9"};
    facts.without_end.add("a.jsonl:4");
    writer.finish(facts);
    bytes_ = read_raw(path_);
  }

  bool is_used(const std::string& bytes) const {
    write_raw(path_, bytes);
    return open_token_cache(path_).has_value();
  }

  TemporaryFolder folder_;
  std::filesystem::path path_ = folder_ / "x.tokens";
  std::vector<Example> examples_ = {make_example({7, 8, 9, 10, 11}, 3), make_example({12, 13}, 0),
                                    make_example({7, 8, 9, 10, 11}, 3)};
  size_t words_ = 12;
  std::string bytes_;
};

TEST_F(TokenCacheTest, WhatWasWrittenComesBack) {
  std::optional<TokenTable> table = open_token_cache(path_);
  ASSERT_TRUE(table.has_value());
  ASSERT_EQ(table->rows(), 3);
  EXPECT_EQ(table->words(), 12);
  std::vector<std::vector<TokenWord>> rows = words_of(*table);
  for (size_t i = 0; i < examples_.size(); ++i) {
    EXPECT_EQ(rows[i], examples_[i].tokens);
  }
  EXPECT_EQ(table->length(1), 2);
  EXPECT_EQ(table->learned(0), 2);
  EXPECT_EQ(table->learned(1), 1) << "nothing stands before the first";
  EXPECT_EQ(table->facts().files, "a.jsonl");
  EXPECT_EQ(table->facts().rows, 5);
  EXPECT_EQ(table->facts().vocabulary, 50);
  EXPECT_EQ(table->facts().bad_rows, 1);
  EXPECT_EQ(table->facts().bad.at(0), "a.jsonl:2: not UTF-8: caf\xEF\xBF\xBD");
  EXPECT_EQ(table->facts().without_end.first, "a.jsonl:4");
  EXPECT_EQ(table->facts().duplicates.count, 1);
  EXPECT_EQ(table->facts().duplicates.first, "row 3");
}

TEST_F(TokenCacheTest, PairsComeBack) {
  TokenCacheWriter writer(folder_ / "pairs.tokens");
  writer.add(make_pair_example({1, 2, 3}, {4}));
  writer.add(make_pair_example({5}, {6, 7}));
  writer.finish({});
  std::optional<TokenTable> table = open_token_cache(folder_ / "pairs.tokens");
  ASSERT_TRUE(table.has_value());
  EXPECT_EQ(table->source_length(0), 3);
  EXPECT_EQ(table->length(0), 1);
  EXPECT_EQ(table->learned(0), 1) << "behind an encoder even the first is predicted";
  EXPECT_EQ(table->source(1)[0].id(), 5);
  EXPECT_EQ(table->tokens(1)[1].id(), 7);
}

TEST_F(TokenCacheTest, ManyWordsGoThroughSeveralWrites) {
  Rng rng(1, 2);
  std::vector<Example> examples;
  TokenCacheWriter writer(folder_ / "large.tokens");
  for (int i = 0; i < 5000; ++i) {
    Ids ids;
    for (uint64_t count = 2 + rng.below(1000); count > 0; --count) {
      ids.push_back(static_cast<int32_t>(rng.below(1U << 20)));
    }
    writer.add(examples.emplace_back(make_example(ids, 1)));
  }
  writer.finish({});
  std::optional<TokenTable> table = open_token_cache(folder_ / "large.tokens");
  ASSERT_TRUE(table.has_value());
  ASSERT_GT(table->words(), 2 << 20);
  std::vector<std::vector<TokenWord>> rows = words_of(*table);
  ASSERT_EQ(rows.size(), examples.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    ASSERT_EQ(rows[i], examples[i].tokens) << i;
  }
}

TEST_F(TokenCacheTest, AFileThatIsNotWholeIsNotUsed) {
  for (size_t size = 0; size < bytes_.size(); ++size) {
    EXPECT_FALSE(is_used(bytes_.substr(0, size))) << size << " of " << bytes_.size() << " bytes";
  }
  EXPECT_FALSE(is_used(bytes_ + " "));
  EXPECT_FALSE(is_used(std::string(bytes_.size(), '\0')));
  EXPECT_FALSE(is_used("snugtok0" + bytes_.substr(8))) << "of another layout";
  EXPECT_TRUE(is_used(bytes_));
  std::filesystem::remove(path_);
  EXPECT_FALSE(open_token_cache(path_).has_value());
  std::filesystem::create_directory(path_);
  EXPECT_FALSE(open_token_cache(path_).has_value());
}

TEST_F(TokenCacheTest, EveryBitOutsideTheTokensIsGuarded) {
  size_t words_end = kHeaderBytes + words_ * kWordBytes;
  for (size_t i = 0; i < bytes_.size(); ++i) {
    bool is_word = i >= kHeaderBytes && i < words_end;
    for (unsigned bit = 0; bit < 8; ++bit) {
      std::string damaged = bytes_;
      damaged[i] = static_cast<char>(static_cast<unsigned char>(damaged[i]) ^ (1U << bit));
      EXPECT_EQ(is_used(damaged), is_word) << "bit " << bit << " of byte " << i;
    }
  }
}

TEST_F(TokenCacheTest, ADamagedTokenIsAnErrorWhenItIsRead) {
  std::string damaged = bytes_;
  damaged.replace(kHeaderBytes + 5 * kWordBytes, kWordBytes, "\xFF\xFF\xFF\x7F");  // the first of row 1
  write_raw(path_, damaged);
  Dataset dataset;
  dataset.add(std::make_shared<const TokenTable>(*open_token_cache(path_)), {.max_length_tokens = 100});
  EXPECT_EQ(ids_of(dataset, 0), (Ids{7, 8, 9, 10, 11}));
  std::string message = error_text(ErrorKind::environment, [&] { ids_of(dataset, 1); });
  EXPECT_SAYS(message, "the tokens of a.jsonl are damaged: token 2147483647 in a vocabulary of 50");
  EXPECT_SAYS(message, "Remove the token cache");
  // Also where steps are made ahead, by another thread.
  BatchSequence sequence(dataset, {.shuffle = false});
  EXPECT_EQ(sequence.next_step().size(), 1U);
  EXPECT_EQ(error_text(ErrorKind::environment, [&] { sequence.next_step(); }), message);
}

// A process that reads a mapped page of a file that was cut short is killed by the system, without a word.
TEST_F(TokenCacheTest, AFileThatIsCutShortWhileItIsInUseIsAnError) {
  Dataset dataset;
  dataset.add(std::make_shared<const TokenTable>(*open_token_cache(path_)), {.max_length_tokens = 100});
  BatchSequence sequence(dataset, {.shuffle = false});
  EXPECT_EQ(sequence.next_step().size(), 1U);
  std::filesystem::resize_file(path_, 0);
  EXPECT_EQ(dataset.length_tokens(2), 5) << "what is known of the rows stays known";
  std::string message = error_text(ErrorKind::environment, [&] { ids_of(dataset, 2); });
  EXPECT_SAYS(message, path_.string() + ": ends at byte");
  EXPECT_SAYS(message, "cut it short while it was in use");
  std::string ahead = error_text(ErrorKind::environment, [&] {
    while (!sequence.next_step().empty()) {  // one of them may have been made before
    }
  });
  EXPECT_SAYS(ahead, "cut it short while it was in use");
}

TEST_F(TokenCacheTest, TheFirstIdBeyondTheVocabularyIsDamage) {
  std::string damaged = bytes_;
  damaged[kHeaderBytes] = 49;
  write_raw(path_, damaged);
  Dataset good;
  good.add(std::make_shared<const TokenTable>(*open_token_cache(path_)), {.max_length_tokens = 100});
  EXPECT_EQ(ids_of(good, 0).front(), 49);
  damaged[kHeaderBytes] = 50;
  std::filesystem::remove(path_);  // the other is still open
  write_raw(path_, damaged);
  Dataset bad;
  bad.add(std::make_shared<const TokenTable>(*open_token_cache(path_)), {.max_length_tokens = 100});
  error_text(ErrorKind::environment, [&] { ids_of(bad, 0); });
}

TEST_F(TokenCacheTest, AWriterThatDoesNotFinishLeavesNothing) {
  {
    TokenCacheWriter writer(folder_ / "half.tokens");
    writer.add(examples_[0]);
  }
  EXPECT_EQ(folder_.entry_count(), 1U);
}

}  // namespace
}  // namespace snug
