// Real tokenizers against ids that other implementations gave.
#include <gtest/gtest.h>

#include <cstdlib>
#include <sstream>

#include "io/file_fixtures.h"
#include "io/json.h"
#include "text/normalizer.h"
#include "text/stream_decoder.h"
#include "text/tokenizer.h"

namespace snug {
namespace {

using Ids = std::vector<int32_t>;
const std::filesystem::path kSource = SNUG_SOURCE_DIR;
const std::filesystem::path kShared = kSource / ".." / "shared" / "data";

std::string stream_text(const Tokenizer& tokenizer, const Ids& ids) {
  StreamDecoder decoder(tokenizer);
  std::string text;
  for (int32_t id : ids) {
    text += decoder.push(id);
  }
  return text + decoder.finish();
}

// Made by Hugging Face's tokenizers library.
TEST(TokenizerVectors, EmbeddedModel) {
  auto tokenizer = load_tokenizer(kSource / "models" / "tiny-story");
  Json cases = Json::parse(testing::read_raw(kSource / "tests/goldens/references/tiny_story_tokens.json"));
  ASSERT_GT(cases.size(), 20U);
  for (const Json& c : cases) {
    std::string text = c["text"].get<std::string>();
    Ids ids = c["ids"].get<Ids>();
    EXPECT_EQ(tokenizer->encode(text), ids) << text;
    EXPECT_EQ(tokenizer->decode(ids, false), c["decoded"].get<std::string>());
    EXPECT_EQ(tokenizer->decode(ids, true), c["decoded_without_special"].get<std::string>());
    EXPECT_EQ(stream_text(*tokenizer, ids), c["decoded_without_special"].get<std::string>());
  }
  EXPECT_EQ(tokenizer->piece(*tokenizer->eos_id()), "</s>");
}

std::vector<std::string> split_by(const std::string& text, const std::string& separator) {
  std::vector<std::string> parts;
  size_t begin = 0;
  for (size_t end = text.find(separator); end != std::string::npos; end = text.find(separator, begin)) {
    parts.push_back(text.substr(begin, end - begin));
    begin = end + separator.size();
  }
  return parts;
}

Ids parse_ids(const std::string& line) {
  std::istringstream stream(line);
  return {std::istream_iterator<int32_t>(stream), {}};
}

class QwenVectors : public ::testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::path packed = kShared / "tokenizers" / "qwen2.5";
    if (!std::filesystem::exists(packed / "tokenizer.json.gz")) {
      GTEST_SKIP() << "no ../shared/data/tokenizers/qwen2.5";
    }
    std::string command = "gunzip -c '" + (packed / "tokenizer.json.gz").string() + "' > '" +
                          (folder_ / "tokenizer.json").string() + "'";
    if (std::system(command.c_str()) != 0) {
      GTEST_SKIP() << "gunzip does not run here";
    }
    std::filesystem::copy(packed / "tokenizer_config.json", folder_ / "tokenizer_config.json");
    tokenizer_ = load_tokenizer(folder_.path());
  }

  TemporaryFolder folder_;
  std::unique_ptr<Tokenizer> tokenizer_;
};

TEST_F(QwenVectors, GivesTheSameIdsAsOthers) {
  std::vector<std::string> texts =
      split_by(testing::read_raw(kShared / "vectors" / "qwen2.inp"), "\n__ggml_vocab_test__\n");
  std::vector<std::string> lines = split_by(testing::read_raw(kShared / "vectors" / "qwen2.out"), "\n");
  ASSERT_EQ(texts.size(), lines.size());
  ASSERT_GT(texts.size(), 40U);
  for (size_t i = 0; i < texts.size(); ++i) {
    Ids expected = parse_ids(lines[i]);
    EXPECT_EQ(tokenizer_->encode(texts[i]), expected) << texts[i];
    EXPECT_EQ(tokenizer_->decode(expected, true), normalize_nfc(texts[i]));
    EXPECT_EQ(stream_text(*tokenizer_, expected), normalize_nfc(texts[i]));
  }
  EXPECT_EQ(tokenizer_->encode("<|im_start|>user\n"), (Ids{151644, 872, 198}));
  EXPECT_EQ(tokenizer_->encode("a", true).size(), 1U) << "Qwen adds no bos";
  EXPECT_EQ(tokenizer_->bos_id(), std::nullopt);
  EXPECT_EQ(tokenizer_->piece(*tokenizer_->eos_id()), "<|im_end|>");
  EXPECT_EQ(tokenizer_->vocabulary_size(), 151665);
}

TEST(TokenizerVectors, OtherKindsAreRefusedByName) {
  std::filesystem::path folder = kShared / "models" / "tinystories-656k";
  if (!std::filesystem::exists(folder)) {
    GTEST_SKIP() << "no ../shared/data/models/tinystories-656k";
  }
  EXPECT_SAYS(testing::error_text(ErrorKind::bad_input, [&] { load_tokenizer(folder); }),
              "BPE with byte fallback");
}

}  // namespace
}  // namespace snug
