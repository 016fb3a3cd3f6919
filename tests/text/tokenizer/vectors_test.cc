// Real tokenizers against ids that other implementations gave.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <sstream>

#include "base/rng.h"
#include "io/file_fixtures.h"
#include "io/json.h"
#include "test_paths.h"
#include "text/tokenizer/stream_decoder.h"
#include "text/tokenizer/tokenizer.h"
#include "text/unicode/forms.h"

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
  Json cases = Json::parse(read_raw(kSource / "tests/goldens/references/tiny_story_tokens.json"));
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

std::unique_ptr<Tokenizer> shared_tokenizer(const std::string& name) {
  std::filesystem::path folder = kShared / "tokenizers" / name;
  return std::filesystem::exists(folder) ? load_tokenizer(folder) : nullptr;
}

struct Vector {
  std::string text;
  Ids ids;
};

std::vector<Vector> read_vectors(const std::string& name) {
  std::vector<std::string> texts =
      split_by(read_raw(kShared / "vectors" / (name + ".inp")), "\n__ggml_vocab_test__\n");
  std::vector<std::string> lines = split_by(read_raw(kShared / "vectors" / (name + ".out")), "\n");
  EXPECT_EQ(texts.size(), lines.size());
  EXPECT_GT(texts.size(), 40U);
  std::vector<Vector> vectors;
  for (size_t i = 0; i < std::min(texts.size(), lines.size()); ++i) {
    vectors.push_back({texts[i], parse_ids(lines[i])});
  }
  return vectors;
}

TEST(TokenizerVectors, Qwen) {
  auto tokenizer = shared_tokenizer("qwen2.5");
  if (!tokenizer) {
    GTEST_SKIP() << "no ../shared/data/tokenizers/qwen2.5";
  }
  for (const Vector& vector : read_vectors("qwen2")) {
    EXPECT_EQ(tokenizer->encode(vector.text), vector.ids) << vector.text;
    EXPECT_EQ(tokenizer->decode(vector.ids, true), normalize_nfc(vector.text));
    EXPECT_EQ(stream_text(*tokenizer, vector.ids), normalize_nfc(vector.text));
  }
  EXPECT_EQ(tokenizer->encode("<|im_start|>user\n"), (Ids{151644, 872, 198}));
  EXPECT_EQ(tokenizer->encode("a", true).size(), 1U) << "Qwen adds no bos";
  EXPECT_EQ(tokenizer->bos_id(), std::nullopt);
  EXPECT_EQ(tokenizer->piece(*tokenizer->eos_id()), "<|im_end|>");
  EXPECT_EQ(tokenizer->vocabulary_size(), 151665);
}

// tokenizer.json and the SentencePiece model that it was made from give the same ids.
TEST(TokenizerVectors, Llama2InBothForms) {
  auto tokenizer = shared_tokenizer("llama-2");
  if (!tokenizer) {
    GTEST_SKIP() << "no ../shared/data/tokenizers/llama-2";
  }
  auto bare = load_tokenizer(kShared / "tokenizers" / "llama-2" / "tokenizer.model");
  for (const Vector& vector : read_vectors("llama-2")) {
    for (const Tokenizer* one : {tokenizer.get(), bare.get()}) {
      EXPECT_EQ(one->encode(vector.text), vector.ids) << vector.text;
      EXPECT_EQ(one->decode(vector.ids, true), vector.text);
      EXPECT_EQ(stream_text(*one, vector.ids), vector.text);
    }
  }
  EXPECT_EQ(tokenizer->encode("Hello", true), (Ids{1, 15043}));
  EXPECT_EQ(bare->encode("Hello", true), (Ids{1, 15043})) << "tokenizer_config.json says add_bos_token";
  EXPECT_EQ(bare->eos_id(), 2);
}

// The texts of the vectors, and the ids that Hugging Face's tokenizers 0.23 gave.
TEST(TokenizerVectors, MistralAndT5) {
  auto mistral = shared_tokenizer("mistral-v0.3");
  auto t5 = shared_tokenizer("t5");
  if (!mistral || !t5) {
    GTEST_SKIP() << "no ../shared/data/tokenizers/mistral-v0.3 and t5";
  }
  Json cases = Json::parse(read_raw(kSource / "tests/goldens/references/shared_tokenizers.json"));
  ASSERT_GT(cases.size(), 10U);
  auto bare = load_tokenizer(kShared / "tokenizers" / "t5" / "spiece.model");
  for (const Json& c : cases) {
    std::string text = c["text"].get<std::string>();
    EXPECT_EQ(mistral->encode(text), c["mistral-v0.3"].get<Ids>()) << text;
    EXPECT_EQ(mistral->decode(c["mistral-v0.3"].get<Ids>(), true), c["mistral_text"].get<std::string>());
    EXPECT_EQ(t5->encode(text), c["t5"].get<Ids>()) << text;
    EXPECT_EQ(bare->encode(text), c["t5"].get<Ids>()) << text;
    EXPECT_EQ(t5->decode(c["t5"].get<Ids>(), true), c["t5_text"].get<std::string>());
    EXPECT_EQ(stream_text(*t5, c["t5"].get<Ids>()), c["t5_text"].get<std::string>());
  }
}

TEST(TokenizerVectors, ASmallLlama) {
  std::filesystem::path folder = kShared / "models" / "tinystories-656k";
  if (!std::filesystem::exists(folder)) {
    GTEST_SKIP() << "no ../shared/data/models/tinystories-656k";
  }
  auto tokenizer = load_tokenizer(folder);
  std::string text = "Once upon a time, there was a fox.";
  EXPECT_EQ(tokenizer->decode(tokenizer->encode(text), true), text);
}

// The best pair first on a million letters: hours if it were quadratic.
TEST(TokenizerVectors, AMillionBytesWithoutASpaceTakeLinearTime) {
  for (const char* name : {"qwen2.5", "llama-2", "t5"}) {
    auto tokenizer = shared_tokenizer(name);
    if (!tokenizer) {
      GTEST_SKIP() << "no ../shared/data/tokenizers/" << name;
    }
    Rng rng(5);
    std::string word(1000000, 'a');
    for (char& c : word) {
      c = static_cast<char>('a' + rng.below(26));
    }
    auto start = std::chrono::steady_clock::now();
    EXPECT_EQ(tokenizer->decode(tokenizer->encode(word), true), word);
    double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    EXPECT_LT(seconds, 30) << name;
  }
}

}  // namespace
}  // namespace snug
