// Byte-level BPE on a vocabulary that can be followed by hand; every expected id was worked out on paper.
#include <gtest/gtest.h>

#include <chrono>

#include "base/rng.h"
#include "base/utf8.h"
#include "text/tokenizer/bpe_merges.h"
#include "text/tokenizer/byte_alphabet.h"
#include "text/tokenizer/stream_decoder.h"
#include "text/tokenizer/tiny_tokenizer.h"
#include "text/unicode/forms.h"

namespace snug {
namespace {

using Ids = std::vector<int32_t>;

std::string load_error(const Json& json) {
  TinyTokenizer tiny(json);
  return error_text(ErrorKind::bad_input, [&] { tiny.load(); });
}

TEST(Tokenizer, MergesBestPairFirst) {
  auto tokenizer = TinyTokenizer().load();
  EXPECT_EQ(tokenizer->encode(""), Ids{});
  EXPECT_EQ(tokenizer->encode("abc"), (Ids{6}));
  EXPECT_EQ(tokenizer->encode("abc ab cab"), (Ids{6, 7, 3, 2, 5}));
  EXPECT_EQ(tokenizer->encode("aab\u00E9"), (Ids{0, 5, 11}));
  // White space before a word: all but the last space stand alone.
  EXPECT_EQ(tokenizer->encode("a   ab\n"), (Ids{0, 3, 3, 7, 4}));
  EXPECT_EQ(tokenizer->encode("ab's"), (Ids{5, 14}));
  EXPECT_EQ(tokenizer->encode("xabz"), (Ids{5}))
      << "without an unknown token, bytes without an id are left out";
}

TEST(Tokenizer, ReadsMergesInBothNotations) {
  Json json = tiny_tokenizer_json();
  json["model"]["merges"] = {"a b", "ab c", "Ġ ab", "Ã ©", "' s"};
  EXPECT_EQ(TinyTokenizer(json).load()->encode("abc ab cab"), (Ids{6, 7, 3, 2, 5}));
}

TEST(Tokenizer, FindsAddedTokensInTheText) {
  auto tokenizer = TinyTokenizer().load();
  EXPECT_EQ(tokenizer->encode("<s>abc</s>"), (Ids{20, 6, 21}));
  EXPECT_EQ(tokenizer->encode("ab<tool>ab"), (Ids{5, 22, 5}));
  EXPECT_EQ(tokenizer->decode(Ids{20, 6, 22, 7, 21}, false), "<s>abc<tool> ab</s>");
  EXPECT_EQ(tokenizer->decode(Ids{20, 6, 22, 7, 21}, true), "abc<tool> ab");
}

TEST(Tokenizer, PrefersTheLongestAddedToken) {
  Json json = tiny_tokenizer_json();
  json["added_tokens"].push_back({{"id", 23}, {"content", "<tool><tool>"}, {"special", false}});
  EXPECT_EQ(TinyTokenizer(json).load()->encode("<tool><tool><tool>a"), (Ids{23, 22, 0}));
}

TEST(Tokenizer, HonoursStripAndSingleWord) {
  Json json = tiny_tokenizer_json();
  json["added_tokens"][2]["lstrip"] = true;
  json["added_tokens"][2]["rstrip"] = true;
  EXPECT_EQ(TinyTokenizer(json).load()->encode("a  <tool> \nb"), (Ids{0, 22, 1}));
  json = tiny_tokenizer_json();
  json["added_tokens"][2]["content"] = "dd";
  json["added_tokens"][2]["single_word"] = true;
  EXPECT_EQ(TinyTokenizer(json).load()->encode("dd add dd"), (Ids{22, 3, 0, 8, 8, 3, 22}));
}

TEST(Tokenizer, AddsPrefixSpaceAtTheStartOnly) {
  Json json = tiny_tokenizer_json();
  json["pre_tokenizer"]["add_prefix_space"] = true;
  auto tokenizer = TinyTokenizer(json).load();
  EXPECT_EQ(tokenizer->encode("ab"), (Ids{7}));
  EXPECT_EQ(tokenizer->encode(" ab"), (Ids{7}));
  EXPECT_EQ(tokenizer->encode_continuation("ab"), (Ids{5}));
}

TEST(Tokenizer, SplitsByItsOwnPattern) {
  Json json = tiny_tokenizer_json();
  json["pre_tokenizer"] = Json::parse(R"({"type": "Sequence", "pretokenizers": [
      {"type": "Split", "pattern": {"Regex": "a|\\s+"}, "behavior": "Isolated", "invert": false},
      {"type": "ByteLevel", "add_prefix_space": false, "use_regex": false}]})");
  // "a" is cut off everywhere, so ab cannot form.
  EXPECT_EQ(TinyTokenizer(json).load()->encode("abc ab"), (Ids{0, 1, 2, 3, 0, 1}));
  json["pre_tokenizer"]["pretokenizers"][0]["behavior"] = "Removed";
  EXPECT_EQ(TinyTokenizer(json).load()->encode("abc ab"), (Ids{1, 2, 1}));
  json["pre_tokenizer"]["pretokenizers"][0]["invert"] = true;
  EXPECT_EQ(TinyTokenizer(json).load()->encode("abc ab"), (Ids{0, 3, 0}));
  json["pre_tokenizer"] = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}};
  EXPECT_EQ(TinyTokenizer(json).load()->encode("c ab"), (Ids{2, 7}));
}

TEST(Tokenizer, IgnoresMergesWhereToldTo) {
  Json json = tiny_tokenizer_json();
  json["model"]["vocab"]["bcd"] = 15;  // in the vocabulary, but no merge leads to it
  EXPECT_EQ(TinyTokenizer(json).load()->encode("bcd abcd"), (Ids{1, 2, 8, 3, 6, 8}));
  json["model"]["ignore_merges"] = true;
  EXPECT_EQ(TinyTokenizer(json).load()->encode("bcd abcd"), (Ids{15, 3, 6, 8}));
}

TEST(Tokenizer, NormalizesToNfc) {
  EXPECT_EQ(TinyTokenizer().load()->encode("ae\u0301"), (Ids{0})) << "e and the accent have no id";
  Json json = tiny_tokenizer_json();
  json["normalizer"] = {{"type", "NFC"}};
  EXPECT_EQ(TinyTokenizer(json).load()->encode("ae\u0301<tool>"), (Ids{0, 11, 22}));
}

TEST(Tokenizer, UsesTheUnknownToken) {
  Json json = tiny_tokenizer_json();
  json["model"]["unk_token"] = "d";
  EXPECT_EQ(TinyTokenizer(json).load()->encode("axya"), (Ids{0, 8, 8, 0}));
  json["model"]["fuse_unk"] = true;
  EXPECT_EQ(TinyTokenizer(json).load()->encode("axya"), (Ids{0, 8, 0}));
}

TEST(Tokenizer, KnowsItsSpecialTokens) {
  TinyTokenizer tiny;
  auto tokenizer = tiny.load();
  EXPECT_EQ(tokenizer->bos_id(), 20);
  EXPECT_EQ(tokenizer->eos_id(), 21);
  EXPECT_EQ(tokenizer->vocabulary_size(), 23);
  EXPECT_EQ(tokenizer->piece(7), "Ġab");
  EXPECT_EQ(tokenizer->piece(16), "");
  EXPECT_EQ(tokenizer->piece(-1), "");
  EXPECT_TRUE(tokenizer->is_special(20));
  EXPECT_FALSE(tokenizer->is_special(22));
  EXPECT_EQ(tokenizer->encode("a", true), (Ids{0})) << "nothing asks for bos";
  write_raw(tiny.folder() / "generation_config.json", R"({"eos_token_id": [21, 22]})");
  EXPECT_EQ(tiny.load()->stop_ids(), (Ids{21, 22}));
  write_raw(tiny.folder() / "generation_config.json", R"({"eos_token_id": 99})");
  EXPECT_SAYS(error_text(ErrorKind::bad_input, [&] { tiny.load(); }), "special token id 99");
}

TEST(Tokenizer, AddsBosByConfigOrTemplate) {
  Json config = {{"bos_token", "<s>"}, {"eos_token", "</s>"}, {"add_bos_token", true}};
  EXPECT_EQ(TinyTokenizer(tiny_tokenizer_json(), config).load()->encode("a", true), (Ids{20, 0}));
  Json json = tiny_tokenizer_json();
  json["post_processor"] = Json::parse(R"({"type": "Sequence", "processors": [{"type": "ByteLevel"},
      {"type": "TemplateProcessing",
       "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
                  {"SpecialToken": {"id": "</s>", "type_id": 0}}],
       "special_tokens": {"<s>": {"id": "<s>", "ids": [20], "tokens": ["<s>"]},
                          "</s>": {"id": "</s>", "ids": [21], "tokens": ["</s>"]}}}]})");
  auto tokenizer = TinyTokenizer(json).load();
  EXPECT_EQ(tokenizer->encode("a", true), (Ids{20, 0, 21}));
  EXPECT_EQ(tokenizer->encode("a"), (Ids{0}));
  config["add_bos_token"] = false;
  EXPECT_EQ(TinyTokenizer(json, config).load()->encode("a", true), (Ids{0, 21}));
}

TEST(Tokenizer, TakesIdsFromConfigWhenTheTokenizerIsSilent) {
  TinyTokenizer tiny(tiny_tokenizer_json(), Json::object());
  EXPECT_EQ(tiny.load()->eos_id(), std::nullopt);
  write_raw(tiny.folder() / "config.json", R"({"bos_token_id": 20, "eos_token_id": [22, 21]})");
  EXPECT_EQ(tiny.load()->bos_id(), 20);
  EXPECT_EQ(tiny.load()->eos_id(), 22);
}

TEST(Tokenizer, RefusesWhatItDoesNotKnowByNameAndPlace) {
  Json json = tiny_tokenizer_json();
  json["normalizer"] =
      Json::parse(R"({"type": "Sequence", "normalizers": [{"type": "NFC"}, {"type": "BertNormalizer"}]})");
  EXPECT_SAYS(load_error(json), "normalizer.normalizers[1]: the normalizer 'BertNormalizer'");
  json = tiny_tokenizer_json();
  json["pre_tokenizer"] = {{"type", "UnicodeScripts"}};
  EXPECT_SAYS(load_error(json), "pre_tokenizer: the pre_tokenizer 'UnicodeScripts'");
  json = tiny_tokenizer_json();
  json["pre_tokenizer"] = Json::parse(R"({"type": "Sequence", "pretokenizers": [{"type": "ByteLevel"},
      {"type": "Digits", "individual_digits": true}]})");
  EXPECT_SAYS(load_error(json), "pretokenizers[1]: nothing may follow ByteLevel");
  json = tiny_tokenizer_json();
  json["pre_tokenizer"] = {{"type", "Split"}, {"pattern", {{"String", "a"}}}, {"behavior", "Shuffled"}};
  EXPECT_SAYS(load_error(json), "behavior 'Shuffled'");
  json = tiny_tokenizer_json();
  json["model"]["type"] = "WordPiece";
  EXPECT_SAYS(load_error(json), "'WordPiece'");
  json = tiny_tokenizer_json();
  json["decoder"] = {{"type", "CTC"}};
  EXPECT_SAYS(load_error(json), "decoder: the decoder 'CTC'");
  json = tiny_tokenizer_json();
  json["post_processor"] = {{"type", "PairMaker"}};
  EXPECT_SAYS(load_error(json), "'PairMaker'");
  json = tiny_tokenizer_json();
  json["model"]["end_of_word_suffix"] = "</w>";
  EXPECT_SAYS(load_error(json), "model.end_of_word_suffix is '</w>'");
  json = tiny_tokenizer_json();
  json["normalizer"] = {{"type", "Precompiled"}, {"precompiled_charsmap", "AAA"}};
  EXPECT_SAYS(load_error(json), "precompiled_charsmap: the table says");
}

TEST(Tokenizer, TakesBertAndRobertaProcessing) {
  Json json = tiny_tokenizer_json();
  json["post_processor"] =
      Json::parse(R"({"type": "RobertaProcessing", "cls": ["<s>", 20], "sep": ["</s>", 21],
      "trim_offsets": true, "add_prefix_space": true})");
  EXPECT_EQ(TinyTokenizer(json).load()->encode("a", true), (Ids{20, 0, 21}));
}

TEST(Tokenizer, RefusesDamagedFiles) {
  Json json = tiny_tokenizer_json();
  json["model"]["merges"].push_back({"a", "zz"});
  EXPECT_SAYS(load_error(json), "merge 5 uses 'zz'");
  json = tiny_tokenizer_json();
  json["model"]["merges"][1] = "a b c";
  EXPECT_SAYS(load_error(json), "merge 1 is \"a b c\"");
  json = tiny_tokenizer_json();
  json["model"]["vocab"]["a"] = 2000000000;
  EXPECT_SAYS(load_error(json), "'a' the id 2000000000");
  json = tiny_tokenizer_json();
  json["pre_tokenizer"] = Json::parse(R"({"type": "Sequence", "pretokenizers": [
      {"type": "Split", "pattern": {"Regex": "(a"}, "behavior": "Isolated"}, {"type": "ByteLevel"}]})");
  EXPECT_SAYS(load_error(json), "cannot compile the regular expression '(a'");

  TinyTokenizer tiny;
  write_raw(tiny.folder() / "tokenizer.json", "{\n\"model\": {");
  EXPECT_SAYS(error_text(ErrorKind::bad_input, [&] { tiny.load(); }), "tokenizer.json:2:");
  std::filesystem::remove(tiny.folder() / "tokenizer.json");
  EXPECT_SAYS(error_text(ErrorKind::bad_input, [&] { tiny.load(); }), "tokenizer.json: no such file");
  write_raw(tiny.folder() / "tokenizer.model", std::string("\x0A\x7F", 2));
  EXPECT_SAYS(error_text(ErrorKind::bad_input, [&] { tiny.load(); }), "a field of 127 bytes, but 0 are left");
}

// All 256 bytes, no merges: id = byte.
Json byte_tokenizer_json(bool nfc) {
  Json json = tiny_tokenizer_json();
  json["added_tokens"] = Json::array();
  json["model"]["merges"] = Json::array();
  json["model"]["vocab"] = Json::object();
  for (size_t byte = 0; byte < 256; ++byte) {
    json["model"]["vocab"][byte_alphabet()[byte]] = byte;
  }
  if (nfc) {
    json["normalizer"] = {{"type", "NFC"}};
  }
  return json;
}

TEST(Tokenizer, ReadsBytesThatAreNotUtf8AsReplacementCharacters) {
  Rng rng(7);
  for (bool nfc : {false, true}) {
    auto tokenizer = TinyTokenizer(byte_tokenizer_json(nfc), Json::object()).load();
    for (int round = 0; round < 200; ++round) {
      std::string text(rng.below(40), '\0');
      for (char& c : text) {
        c = static_cast<char>(rng.below(256));
      }
      std::string repaired = replace_invalid_utf8(text);
      EXPECT_EQ(tokenizer->decode(tokenizer->encode(text), true), nfc ? normalize_nfc(text) : repaired);
    }
    EXPECT_EQ(tokenizer->encode("a\xFF b"), (Ids{'a', 0xEF, 0xBF, 0xBD, ' ', 'b'}));
    EXPECT_EQ(tokenizer->decode(Ids{'a', 0xFF, 0xC3, 'b'}, true), "a\uFFFD\uFFFDb");
  }
}

std::string push_all(StreamDecoder& decoder, const Ids& ids) {
  std::string text;
  for (int32_t id : ids) {
    text += decoder.push(id);
  }
  return text;
}

TEST(StreamDecoder, NeverPrintsHalfACharacter) {
  auto tokenizer = TinyTokenizer(byte_tokenizer_json(false), Json::object()).load();
  StreamDecoder decoder(*tokenizer);
  std::string text = "é€\U0001F999!";
  std::vector<std::string> printed;
  for (char c : text) {
    printed.push_back(decoder.push(static_cast<uint8_t>(c)));
  }
  EXPECT_EQ(printed, (std::vector<std::string>{"", "é", "", "", "€", "", "", "", "\U0001F999", "!"}));
  EXPECT_EQ(decoder.finish(), "");
  EXPECT_EQ(push_all(decoder, {0xF0, 0x9F}), "");
  EXPECT_EQ(decoder.finish(), "\uFFFD");
  EXPECT_EQ(push_all(decoder, {0xF0, 'a'}), "\uFFFDa");
  EXPECT_EQ(decoder.push(5000), "") << "models may emit ids beyond the tokenizer's";
}

TEST(StreamDecoder, LeavesSpecialTokensOut) {
  auto tokenizer = TinyTokenizer().load();
  StreamDecoder quiet(*tokenizer);
  EXPECT_EQ(push_all(quiet, {20, 6, 22, 21}), "abc<tool>");
  StreamDecoder loud(*tokenizer, false);
  EXPECT_EQ(push_all(loud, {20, 6}), "<s>abc");
}

// The definition, on strings: join the leftmost of the best pairs until none is left.
std::vector<std::string> merge_by_definition(std::vector<std::string> parts,
                                             const std::vector<std::pair<std::string, std::string>>& merges) {
  for (size_t rank = 0; rank < merges.size();) {
    bool joined = false;
    for (size_t i = 0; i + 1 < parts.size() && !joined; ++i) {
      if (parts[i] == merges[rank].first && parts[i + 1] == merges[rank].second) {
        parts[i] += parts[i + 1];
        parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(i) + 1);
        joined = true;
      }
    }
    rank = joined ? 0 : rank + 1;
  }
  return parts;
}

TEST(BpeMerges, FollowsTheDefinitionOnRandomWords) {
  Rng rng(11);
  for (int round = 0; round < 60; ++round) {
    std::unordered_map<std::string, int32_t> vocabulary = {{"a", 0}, {"b", 1}, {"c", 2}};
    std::vector<std::string> pieces = {"a", "b", "c"};
    std::vector<std::pair<std::string, std::string>> merges;
    for (int i = 0; i < 20; ++i) {
      std::string left = pieces[rng.below(pieces.size())];
      std::string right = pieces[rng.below(pieces.size())];
      if (vocabulary.emplace(left + right, static_cast<int32_t>(pieces.size())).second) {
        pieces.push_back(left + right);
        merges.emplace_back(left, right);
      }
    }
    BpeMerges bpe(merges, vocabulary, "test");
    for (size_t length : {1U, 2U, 7U, 24U, 48U, 49U, 90U}) {
      std::vector<std::string> parts;
      Ids symbols;
      for (size_t i = 0; i < length; ++i) {
        symbols.push_back(static_cast<int32_t>(rng.below(3)));
        parts.push_back(pieces[static_cast<size_t>(symbols.back())]);
      }
      Ids expected;
      for (const std::string& part : merge_by_definition(parts, merges)) {
        expected.push_back(vocabulary.at(part));
      }
      EncodeScratch scratch;
      scratch.symbols = symbols;
      bpe.apply(scratch);
      EXPECT_EQ(scratch.symbols, expected);
    }
  }
}

TEST(BpeMerges, TakesLongWordsInStride) {
  auto tokenizer = TinyTokenizer().load();
  std::string word;
  for (int i = 0; i < 100000; ++i) {
    word += "abcab";
  }
  auto start = std::chrono::steady_clock::now();
  Ids ids = tokenizer->encode(word);
  auto seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  ASSERT_EQ(ids.size(), 200000U);
  EXPECT_EQ(ids[0], 6);
  EXPECT_EQ(ids[1], 5);
  EXPECT_LT(seconds, 20) << "a quadratic merge of half a million bytes takes hours";
  EXPECT_EQ(tokenizer->encode(std::string(1000000, ' ')).size(), 1000000U);
}

}  // namespace
}  // namespace snug
