// The texts of all recipe errors: each NAME.yml in tests/goldens/recipe_errors must fail with NAME.txt.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "base/error.h"
#include "recipe/foreign_names.h"
#include "recipe/keys.h"
#include "recipe/parse.h"
#include "test_paths.h"

namespace snug {
namespace {

namespace fs = std::filesystem;

const fs::path kGoldens = fs::path(SNUG_SOURCE_DIR) / "tests/goldens/recipe_errors";
constexpr std::string_view kSmallest = "model: {path: tiny}\ndata: {train_file: train.jsonl}\n";

std::string contents(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file.good()) << path;
  return {std::istreambuf_iterator<char>(file), {}};
}

// The message, or nothing if the recipe is accepted.
std::optional<std::string> message_of(std::string_view text, const std::string& path,
                                      const std::vector<std::string>& overrides = {}) {
  try {
    parse_recipes(text, path, overrides);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::bad_input);
    return error.what();
  }
  return std::nullopt;
}

std::string override_message(const std::string& override_text) {
  return message_of(kSmallest, "demo.yml", {override_text}).value_or("accepted");
}

TEST(RecipeErrors, GoldenTexts) {
  int count = 0;
  for (const fs::directory_entry& entry : fs::directory_iterator(kGoldens)) {
    const fs::path& recipe = entry.path();
    if (recipe.extension() != ".yml") {
      continue;
    }
    ++count;
    SCOPED_TRACE(recipe.filename().string());
    std::optional<std::string> message = message_of(contents(recipe), recipe.filename().string());
    ASSERT_TRUE(message.has_value());
    EXPECT_EQ(*message + "\n", contents(fs::path(recipe).replace_extension(".txt")));
  }
  EXPECT_GE(count, 50);
}

TEST(RecipeErrors, EveryGoldenTextHasItsRecipe) {
  for (const fs::directory_entry& entry : fs::directory_iterator(kGoldens)) {
    EXPECT_TRUE(fs::exists(fs::path(entry.path()).replace_extension(".yml"))) << entry.path();
  }
}

TEST(RecipeErrors, OverridesNameTheArgument) {
  EXPECT_EQ(
      override_message("training.learning_rate=fast"),
      "--set training.learning_rate=fast: training.learning_rate is \"fast\": expected a number greater "
      "than 0, e.g. 2e-4");
  EXPECT_EQ(override_message("training.learning_rat=1"),
            "--set training.learning_rat=1: unknown key \"learning_rat\" in training; did you mean "
            "\"learning_rate\"?");
  EXPECT_EQ(override_message("trainng.seed=1"),
            "--set trainng.seed=1: unknown key \"trainng.seed\" at the top level; did you mean "
            "\"training.seed\"?");
  EXPECT_EQ(override_message("learning_rate=1"),
            "--set learning_rate=1: unknown key \"learning_rate\" at the top level; learning_rate belongs in "
            "the section training");
  EXPECT_EQ(override_message("batch_size=1"),
            "--set batch_size=1: unknown key \"batch_size\" at the top level; write "
            "training.per_device_train_batch_size");
  EXPECT_EQ(override_message("lora.r"), "--set lora.r: expected key=value, e.g. training.learning_rate=1e-4");
  EXPECT_EQ(override_message("lora.r="),
            "--set lora.r=: lora.r is empty: expected a whole number from 1 to 65536");
  EXPECT_EQ(override_message("lora={r: 0}"),
            "--set lora={r: 0}: lora.r is 0: expected a whole number from 1 to 65536");
  EXPECT_EQ(override_message("lora.target_modules=[q_proj"),
            "--set lora.target_modules=[q_proj: not valid YAML: end of sequence flow not found");
}

TEST(RecipeErrors, TextWithoutAFileStillHasLines) {
  EXPECT_EQ(
      message_of("model: 1\ndata: {train_file: a.jsonl}\n", "", {"model.path=tiny"}),
      "recipe:1:8: model is 1: expected a section with keys: path, dtype, quantization, compute, dropout, "
      "from_scratch, "
      "max_positions");
}

TEST(RecipeErrors, HugeTextsAreRefused) {
  std::string spaces(1'000'001, ' ');
  EXPECT_EQ(message_of(spaces, "demo.yml"),
            "demo.yml:1:1: 1000001 bytes of text: a recipe has at most 1000000");
}

// A short text must not stand for a huge recipe, nor a long chain of aliases for deep recursion.
TEST(RecipeErrors, AliasesDoNotMultiply) {
  std::string many = "lora:\n  target_modules: [&a q_proj";
  for (int i = 0; i < 5000; ++i) {
    many += ", *a";
  }
  EXPECT_EQ(
      message_of(std::string(kSmallest) + many + "]\n", "demo.yml"),
      "demo.yml:4:19: lora.target_modules is a list: expected all-linear, a module's name, or a list of "
      "names");
  std::string chain = "a0: &a0 [x]\n";
  for (int i = 1; i < 30000; ++i) {
    chain += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [*a" + std::to_string(i - 1) + "]\n";
  }
  std::string message = message_of(chain, "demo.yml").value_or("accepted");
  EXPECT_NE(message.find("demo.yml:1:1: unknown key \"a0\" at the top level; known names: model, lora, data, "
                         "training, memory, logging, extends, stages, output_dir"),
            std::string::npos)
      << message;
}

TEST(RecipeErrors, AnUnreadableFileIsNamed) {
  try {
    read_recipe("no/such/recipe.yml");
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("no/such/recipe.yml"), std::string::npos) << error.what();
  }
}

// The advice about another tool's name says what to write, and then the key exists, or why there is nothing
// to write; and the name is not one of ours.
TEST(RecipeErrors, ForeignNamesLeadToKnownKeysOrSayWhyNot) {
  const std::vector<RecipeKey>& keys = recipe_keys();
  std::set<std::string> seen;
  for (const ForeignNames& foreign : foreign_names()) {
    SCOPED_TRACE(foreign.names);
    bool names_a_key = std::any_of(keys.begin(), keys.end(), [&](const RecipeKey& key) {
      return foreign.advice.find(key.name) != std::string_view::npos;
    });
    bool says_why = foreign.advice.starts_with("not needed: ") || foreign.advice.starts_with("not there") ||
                    foreign.advice.starts_with("write --device") || foreign.advice.starts_with("give --");
    EXPECT_TRUE(names_a_key || says_why);
    std::istringstream names{std::string(foreign.names)};
    for (std::string name; names >> name;) {
      EXPECT_TRUE(seen.insert(name).second) << name << " stands twice";
      EXPECT_TRUE(std::none_of(keys.begin(), keys.end(), [&](const RecipeKey& key) {
        return key.leaf() == name;
      })) << name;
    }
  }
}

// Every field of the peers' own configuration classes has an answer (tools/list_foreign_names.py lists them).
TEST(RecipeErrors, EveryFieldOfThePeersIsAnswered) {
  std::ifstream file(fs::path(SNUG_SOURCE_DIR) / "tests/goldens/foreign_names.txt");
  int count = 0;
  for (std::string line; std::getline(file, line); ++count) {
    std::string name = line.substr(line.find(' ') + 1);
    const std::vector<RecipeKey>& keys = recipe_keys();
    bool is_ours =
        std::any_of(keys.begin(), keys.end(), [&](const RecipeKey& key) { return key.leaf() == name; });
    EXPECT_TRUE(is_ours || !foreign_advice(name).empty()) << line;
  }
  EXPECT_GT(count, 150);
}

// A name that means something else is no misspelling of ours.
TEST(RecipeErrors, OtherSettingsAreNotTakenForMisspellings) {
  EXPECT_EQ(override_message("training.save_every=3").find("did you mean"), std::string::npos);
  EXPECT_EQ(override_message("lora.use_lokr=true").find("did you mean"), std::string::npos);
  EXPECT_EQ(override_message("data.min_length=3").find("did you mean"), std::string::npos);
  EXPECT_NE(override_message("training.save_only_model=true").find("checkpoint"), std::string::npos);
  EXPECT_NE(override_message("lora.use_dora=true").find("not there"), std::string::npos);
  EXPECT_NE(override_message("memory.max_memory={0: 14GB, cpu: 50GB}").find("write memory.limit"),
            std::string::npos);
}

TEST(RecipeErrors, AllProblemsAreReportedButNotWithoutEnd) {
  std::string many(kSmallest);
  for (int i = 0; i < 1000; ++i) {
    many += "unknown" + std::to_string(i) + ": 1\n";
  }
  std::string message = message_of(many, "demo.yml").value_or("accepted");
  EXPECT_EQ(message.find("demo.yml: 20 or more problems\n  demo.yml:3:1: unknown key"), 0U) << message;
  EXPECT_EQ(std::count(message.begin(), message.end(), '\n'), 20);
  // What was given, if badly, is not missing.
  EXPECT_EQ(message_of("model: {path: 3.5}\ndata: {train_file: train.jsonl, max_length: x}\n", "demo.yml")
                .value_or("accepted")
                .find("missing"),
            std::string::npos);
}

}  // namespace
}  // namespace snug
