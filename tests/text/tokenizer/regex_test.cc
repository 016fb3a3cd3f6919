// Regular expressions of tokenizer files against what Hugging Face's tokenizers make of them
// (tools/make_regex_references.py), and the limits that keep a hostile one from taking all time and memory.
#include "text/tokenizer/regex.h"

#include <gtest/gtest.h>

#include <thread>

#include "io/file_fixtures.h"
#include "io/json.h"
#include "test_paths.h"
#include "text/tokenizer/decoder.h"
#include "text/tokenizer/normalizer.h"
#include "text/tokenizer/pre_tokenizer.h"

namespace snug {
namespace {

using Pieces = std::vector<std::string>;
const std::filesystem::path kGoldens = std::filesystem::path(SNUG_SOURCE_DIR) / "tests/goldens";

Pieces split(const Json& pattern, const Json& reference, const std::string& text) {
  Pieces pieces;
  PreTokenizer::from_json({{"type", "Split"},
                           {"pattern", pattern},
                           {"behavior", reference["behavior"]},
                           {"invert", reference.contains("invert")}},
                          "file")
      .split(text, {}, [&](std::string_view piece) { pieces.emplace_back(piece); });
  return pieces;
}

void expect_case(const Json& pattern, const Json& reference, const std::string& text) {
  std::string what = pattern.dump() + " on " + Json(text).dump();
  Json replace = {{"type", "Replace"}, {"pattern", pattern}, {"content", "·"}};
  if (reference.contains("fails")) {
    EXPECT_SAYS(error_text(ErrorKind::bad_input, [&] { Normalizer::from_json(replace, "file").apply(text); }),
                "the regular expression");
    return;
  }
  EXPECT_EQ(Normalizer::from_json(replace, "file").apply(text), reference["replaced"].get<std::string>())
      << what;
  EXPECT_EQ(Decoder::from_json(replace, "file").decode({text}), reference["replaced"].get<std::string>())
      << what;
  EXPECT_EQ(split(pattern, reference, text), reference["pieces"].get<Pieces>()) << what << reference;
}

TEST(Regex, DoesWhatTheReferenceImplementationDoes) {
  Json references = Json::parse(read_raw(kGoldens / "regex.json"));
  const Json& texts = references["texts"];
  size_t refused = 0;
  for (const Json& expression : references["expressions"]) {
    const Json& cases = expression["cases"];
    Json pattern = expression;
    pattern.erase("cases");
    if (cases.empty()) {
      ++refused;
      EXPECT_SAYS(
          error_text(ErrorKind::bad_input, [&] { Regex(pattern["Regex"].get<std::string>(), "file: key"); }),
          "file: key: cannot compile the regular expression '");
    }
    for (size_t i = 0; i < cases.size(); ++i) {
      expect_case(pattern, cases[i], texts[i].get<std::string>());
    }
  }
  EXPECT_GT(references["expressions"].size() - refused, 100U);
}

// The library of a distribution may be older than these.
TEST(Regex, KnowsTheCharactersOfUnicode16) {
  auto matches = [](const char* pattern, std::string_view text) {
    size_t bytes = 0;
    Regex(pattern, "file").split(text, [&](std::string_view piece, bool is_match) {
      bytes += is_match ? piece.size() : 0;
    });
    return bytes == text.size();
  };
  EXPECT_TRUE(matches("\\p{L}", "\u1C89"));  // a capital letter of Unicode 16
  EXPECT_TRUE(matches("\\p{Lu}", "\u1C89"));
  EXPECT_TRUE(matches("[^\\p{Ll}]", "\u1C89"));
  EXPECT_FALSE(matches("\\p{Cn}", "\u1C89"));
  EXPECT_TRUE(matches("\\p{Lo}", "\U00031350"));
  EXPECT_TRUE(matches("\\p{N}\\p{Nd}", "\U00010D40\U0001E5F1"));
  EXPECT_TRUE(matches("[[:punct:]]", "\U0001FAE9"));
  EXPECT_TRUE(matches("\\p{Mc}", "\U0001171E"));  // not so in Unicode 14
  EXPECT_FALSE(matches("\\p{Mn}", "\U0001171E"));
}

std::string problem(const std::string& pattern, const std::string& text) {
  Regex regex(pattern, "file");
  return error_text(ErrorKind::bad_input, [&] { regex.split(text, [](std::string_view, bool) {}); });
}

TEST(Regex, GivesUpOnExpressionsThatTakeTooLong) {
  EXPECT_EQ(problem("(a+)+b", std::string(40, 'a')),
            "file: the regular expression cannot be matched against a text of 40 bytes: retry-limit-in-match "
            "over.");
  // Each match alone is within the limit; all of them would take long.
  std::string text;
  for (int i = 0; i < 100; ++i) {
    text += std::string(20, 'a') + "c";
  }
  EXPECT_SAYS(problem("(a+)+b|c", text), "over");
}

TEST(Regex, CutsLongNumbers) {
  // From each digit on it looks to the end, and goes back through all that it has seen.
  Regex regex("(?=(\\d{3})+(?!\\d))", "file");
  size_t pieces = 0;
  regex.split(std::string(5000, '7'),
              [&](std::string_view piece, bool /*is_match*/) { pieces += piece.empty() ? 0 : 1; });
  EXPECT_EQ(pieces, 1667U);
}

TEST(Regex, TakesLongWordsThatItGoesBackThrough) {
  // Capitals are taken twice: first in vain, because a small letter has to follow.
  Regex regex("[A-Z]*[a-z]+|[A-Z]+| ", "file");
  std::string text;
  for (int i = 0; i < 100; ++i) {
    text += std::string(3000, 'A') + " ";
  }
  size_t pieces = 0;
  regex.split(text, [&](std::string_view /*piece*/, bool /*is_match*/) { ++pieces; });
  EXPECT_EQ(pieces, 200U);
}

TEST(Regex, NeverCutsACharacter) {
  EXPECT_SAYS(problem("(?<=\\Ka)b|a", "ab"), "not whole characters behind the match before");
}

TEST(Regex, ServesManyThreadsAtOnce) {
  Regex regex("[^\\W\\d]+|(\\d)(?=(\\d{3})*$)", "file");
  std::vector<size_t> pieces(4, 0);
  std::vector<std::thread> threads;
  for (size_t& count : pieces) {
    threads.emplace_back([&regex, &count] {
      for (int round = 0; round < 500; ++round) {
        Regex own("a|b", "file");
        regex.split("ab 1234567 é", [&](std::string_view, bool) { ++count; });
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(pieces, std::vector<size_t>(4, 500 * pieces[0] / 500));
  EXPECT_GT(pieces[0], 0U);
}

}  // namespace
}  // namespace snug
