// snug tokenize as users call it.
#include <gtest/gtest.h>

#include <cstdlib>

#include "support/run_snug.h"

namespace snug {
namespace {

const std::string kModel = source_path("models/tiny-story");
const std::string kGoldens = source_path("tests/goldens/tokenizers");

TEST(Tokenize, JsonHasIdsAndPieces) {
  Json json = json_output(run_snug({"tokenize", kModel, "Once upon a time", "--json"}));
  ASSERT_EQ(json["ids"].size(), json["pieces"].size());
  std::string joined;
  for (const Json& piece : json["pieces"]) {
    joined += piece.get<std::string>();
  }
  EXPECT_EQ(joined, "OnceĠuponĠaĠtime");
}

TEST(Tokenize, GivesTheReferenceIdsFromAFile) {
  Json cases = read_json(kGoldens + "/llama2/cases.json");
  TemporaryFolder folder;
  for (size_t i : {3U, 6U, 12U, 16U}) {
    std::string text = cases[i]["text"].get<std::string>();
    std::string file = (folder.path() / "text").string();
    write_file_atomically(file, text);
    EXPECT_EQ(json_output(run_snug({"tokenize", kGoldens + "/llama2", "--file", file, "--json"}))["ids"],
              cases[i]["ids"]);
    EXPECT_EQ(json_output(run_snug(
                  {"tokenize", kGoldens + "/llama2/tokenizer.json", text, "--special", "--json"}))["ids"],
              cases[i].value("with_special", Json(nullptr)))
        << text;
  }
}

TEST(Tokenize, DecodesIds) {
  Json json = json_output(run_snug({"tokenize", kModel, "Pip lived by the river.", "--json"}));
  std::string ids;
  for (const Json& id : json["ids"]) {
    ids += (ids.empty() ? "" : ",") + id.dump();
  }
  EXPECT_EQ(run_snug({"tokenize", kModel, "--decode", ids}).output, "Pip lived by the river.\n");
}

TEST(Tokenize, TakesASentencePieceModel) {
  std::string model = kGoldens + "/sentencepiece_bpe/tokenizer.model";
  Json json = json_output(run_snug({"tokenize", model, "Hello world", "--json"}));
  EXPECT_GT(json["ids"].size(), 1U);
}

TEST(Tokenize, ShowsPiecesWithoutColourInAPipe) {
  CommandResult result = run_snug({"tokenize", kModel, "a\tb"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.output.find('\x1b'), std::string::npos);
  EXPECT_NE(result.output.find("3 tokens, 3 bytes"), std::string::npos) << result.output;
  EXPECT_NE(run_snug({"tokenize", "--help"}).output.find("Examples"), std::string::npos);
}

TEST(Tokenize, SaysWhatIsWrong) {
  EXPECT_EQ(run_snug({"tokenize", kModel}).exit_code, 2);
  EXPECT_EQ(run_snug({"tokenize", kModel, "a", "--decode", "1"}).exit_code, 2);
  for (const char* id : {"1024", "-1"}) {
    CommandResult decoded = run_snug({"tokenize", kModel, "--decode", std::string("318,") + id});
    EXPECT_EQ(decoded.exit_code, 2);
    EXPECT_EQ(decoded.output, "");
    EXPECT_NE(decoded.errors.find(std::string("--decode ") + id + ": no such token"), std::string::npos)
        << decoded.errors;
    EXPECT_NE(decoded.errors.find("has the ids 0 to 1023"), std::string::npos) << decoded.errors;
  }
  TemporaryFolder folder;
  CommandResult result = run_snug({"tokenize", folder.path().string(), "a"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_NE(result.errors.find("tokenizer.json: no such file"), std::string::npos) << result.errors;
  EXPECT_EQ(run_snug({"tokenize", kModel, "--file", "/nonexistent/text"}).exit_code == 0, false);
}

}  // namespace
}  // namespace snug
