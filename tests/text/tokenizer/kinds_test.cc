// A small tokenizer of each kind against the ids that Hugging Face's tokenizers and SentencePiece gave with
// it (tools/make_tokenizer_references.py).
#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

#include "io/file_fixtures.h"
#include "io/json.h"
#include "test_paths.h"
#include "text/tokenizer/stream_decoder.h"
#include "text/tokenizer/tokenizer.h"

namespace snug {
namespace {

using Ids = std::vector<int32_t>;
const std::filesystem::path kGoldens = std::filesystem::path(SNUG_SOURCE_DIR) / "tests/goldens/tokenizers";

std::string stream_text(const Tokenizer& tokenizer, const Ids& ids) {
  StreamDecoder decoder(tokenizer, false);
  std::string text;
  for (int32_t id : ids) {
    text += decoder.push(id);
  }
  return text + decoder.finish();
}

class TokenizerKinds : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    tokenizer_ = load_tokenizer(kGoldens / GetParam());
    cases_ = Json::parse(read_raw(kGoldens / GetParam() / "cases.json"));
    ASSERT_GT(cases_.size(), 40U);
  }

  std::unique_ptr<Tokenizer> tokenizer_;
  Json cases_;
};

TEST_P(TokenizerKinds, GiveTheReferenceIdsAndText) {
  for (const Json& c : cases_) {
    std::string text = c["text"].get<std::string>();
    Ids ids = c["ids"].get<Ids>();
    EXPECT_EQ(tokenizer_->encode(text), ids) << c["text"];
    if (c.contains("with_special")) {
      EXPECT_EQ(tokenizer_->encode(text, true), c["with_special"].get<Ids>()) << c["text"];
    }
    if (c.contains("decoded")) {
      std::string decoded = c["decoded"].get<std::string>();
      EXPECT_EQ(tokenizer_->decode(ids, false), decoded) << c["text"];
      EXPECT_EQ(stream_text(*tokenizer_, ids), decoded) << c["text"];
    }
    if (c.contains("decoded_without_special")) {
      EXPECT_EQ(tokenizer_->decode(ids, true), c["decoded_without_special"].get<std::string>()) << c["text"];
    }
  }
}

TEST_P(TokenizerKinds, ServeManyThreadsAtOnce) {
  std::vector<std::thread> threads;
  std::vector<size_t> wrong(4, 0);
  for (size_t thread = 0; thread < wrong.size(); ++thread) {
    threads.emplace_back([&, thread] {
      for (int round = 0; round < 5; ++round) {
        for (const Json& c : cases_) {
          wrong[thread] += tokenizer_->encode(c["text"].get<std::string>()) == c["ids"].get<Ids>() ? 0 : 1;
        }
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(wrong, std::vector<size_t>(4, 0));
}

INSTANTIATE_TEST_SUITE_P(All, TokenizerKinds,
                         testing::Values("gpt2", "qwen2", "llama3", "deepseek", "digits", "llama2", "mistral",
                                         "metaspace_always", "metaspace_never", "behaviors", "whitespace",
                                         "unigram", "unigram_bytes", "sentencepiece_bpe",
                                         "sentencepiece_unigram"),
                         [](const auto& kind) { return std::string(kind.param); });

TEST(TokenizerContinuation, PutsNothingBeforeTheText) {
  for (const char* kind : {"gpt2", "llama2", "mistral", "metaspace_always"}) {
    auto tokenizer = load_tokenizer(kGoldens / kind);
    Ids whole = tokenizer->encode("the the");
    Ids parts = tokenizer->encode("the");
    Ids more = tokenizer->encode_continuation(" the");
    parts.insert(parts.end(), more.begin(), more.end());
    EXPECT_EQ(parts, whole) << kind;
    EXPECT_NE(tokenizer->encode_continuation("the"), tokenizer->encode("the")) << kind;
  }
}

// Caches of tokens are named after these files: one that is read and not listed would leave them stale.
TEST(TextFileNames, HoldEveryNameThatATokenizerIsLoadedBy) {
  std::vector<std::string> names = text_file_names();
  for (const char* name :
       {"tokenizer.model", "spiece.model", "sentencepiece.bpe.model", "tokenizer.model.v3"}) {
    TemporaryFolder folder;
    std::filesystem::copy_file(kGoldens / "sentencepiece_bpe/tokenizer.model", folder.path() / name);
    EXPECT_GT(load_tokenizer(folder.path())->vocabulary_size(), 0);
    EXPECT_NE(std::find(names.begin(), names.end(), name), names.end()) << name;
  }
}

}  // namespace
}  // namespace snug
