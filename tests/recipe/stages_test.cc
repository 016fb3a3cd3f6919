// Stages: each recipe is the one before it with changes; and what is refused, all at once.
#include <gtest/gtest.h>

#include "base/error.h"
#include "io/atomic_file.h"
#include "recipe/parse.h"
#include "recipe/write.h"
#include "support/temporary_folder.h"

namespace snug {
namespace {

constexpr const char* kThree = R"(
model: {path: tiny, dtype: bf16}
lora: {r: 32, lora_alpha: 64, lora_dropout: 0.05}
training: {learning_rate: 1e-4, num_train_epochs: 2}
stages:
  - name: it
    data: {train_file: it.jsonl, eval_file: it_test.jsonl, max_length: 2048}
  - name: security
    start: stack
    lora: {r: 16}
    data: {train_file: security.jsonl, eval_file: {web: web.jsonl, net: net.jsonl}, max_length: 1024}
    training: {learning_rate: 5e-5}
  - name: grc
    start: continue
    data: {train_file: grc.jsonl, eval_file: null, eval_split: 0.1}
output_dir: runs/three
)";

std::string message_of(const std::string& text, const std::vector<std::string>& overrides = {}) {
  try {
    parse_recipes(text, "demo.yml", overrides);
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

TEST(Stages, EachChangesTheOneBefore) {
  std::vector<Recipe> stages = parse_recipes(kThree, "recipes/demo.yml");
  ASSERT_EQ(stages.size(), 3U);
  EXPECT_EQ(stages[0].stage.name, "it");
  EXPECT_EQ(stages[0].lora->r, 32);
  EXPECT_EQ(stages[1].lora->r, 16);
  EXPECT_EQ(stages[1].lora->lora_alpha, 64);
  EXPECT_EQ(stages[2].lora->r, 16);
  EXPECT_EQ(stages[0].training.learning_rate, 1e-4);
  EXPECT_EQ(stages[2].training.learning_rate, 5e-5);
  EXPECT_EQ(stages[2].data.max_length, 1024);
  EXPECT_EQ(stages[1].data.train_file.front().path, "recipes/security.jsonl");
  EXPECT_EQ(stages[0].stage.start, StageStart::fresh);
  EXPECT_EQ(stages[1].stage.start, StageStart::stack);
  EXPECT_EQ(stages[2].stage.start, StageStart::go_on);
  for (const Recipe& stage : stages) {
    EXPECT_EQ(stage.output_dir, "runs/three");
  }
}

// What lies below the trained adapter, and whose sets are evaluated.
TEST(Stages, KnowTheirPlace) {
  std::vector<Recipe> stages = parse_recipes(kThree, "demo.yml");
  EXPECT_TRUE(stages[0].stage.stacked.empty());
  ASSERT_EQ(stages[1].stage.stacked.size(), 1U);
  EXPECT_EQ(stages[1].stage.stacked[0].r, 32);
  ASSERT_EQ(stages[2].stage.stacked.size(), 1U);  // it goes on with the one of rank 16
  EXPECT_EQ(stages[2].stage.stacked[0].r, 32);
  EXPECT_TRUE(stages[0].stage.earlier.empty());
  ASSERT_EQ(stages[2].stage.earlier.size(), 2U);
  EXPECT_EQ(stages[2].stage.earlier[0].name, "it");
  EXPECT_EQ(stages[2].stage.earlier[0].data.max_length, 2048);
  std::vector<Recipe> dropped = parse_recipes(kThree, "demo.yml", {"stages.grc.lora.lora_dropout=0.5"});
  EXPECT_EQ(dropped[2].lora->lora_dropout, 0.5);
  EXPECT_EQ(dropped[1].lora->lora_dropout, 0.05);
}

TEST(Stages, TheCommandLineChangesAllOrOne) {
  std::vector<Recipe> stages = parse_recipes(
      kThree, "demo.yml", {"training.max_steps=7", "stages.security.training.max_steps=9", "output_dir=x"});
  EXPECT_EQ(stages[0].training.max_steps, 7);
  EXPECT_EQ(stages[1].training.max_steps, 9);
  EXPECT_EQ(stages[2].training.max_steps, 7);
  EXPECT_EQ(stages[2].output_dir, "x");
  EXPECT_EQ(
      message_of(kThree, {"stages.secure.training.max_steps=9"}),
      "--set stages.secure.training.max_steps=9: no stage is called \"secure\": there are it, security, "
      "grc");
  EXPECT_EQ(message_of(kThree, {"training.max_step=9"}),
            "--set training.max_step=9: unknown key \"max_step\" in training; did you mean \"max_steps\"?");
  EXPECT_NE(message_of(kThree, {"stages.it.model.dtype=fp32"}).find("set it as --set model.dtype=fp32"),
            std::string::npos);
  Recipe one = parse_recipe(kThree, "demo.yml", {"stages=null", "data.train_file=a.jsonl"});
  EXPECT_EQ(one.lora->r, 32);
  EXPECT_NE(message_of("model: {path: a}\ndata: {train_file: b}\n", {"stages.a.lora.r=3"}).find("no stages"),
            std::string::npos);
}

TEST(Stages, WrittenAndReadAgainAreTheSame) {
  std::vector<Recipe> stages = parse_recipes(kThree, "demo.yml");
  std::string text = recipes_to_yaml(stages);
  EXPECT_NE(text.find("  - name: security\n    start: stack\n    lora:\n      r: 16\n"), std::string::npos)
      << text;
  std::vector<Recipe> again = parse_recipes(text, "elsewhere/recipe.yml");
  EXPECT_EQ(recipes_to_yaml(again), text);
  ASSERT_EQ(again.size(), stages.size());
  EXPECT_EQ(again[2].stage.stacked.size(), 1U);
  EXPECT_THROW(parse_recipe(text, "elsewhere/recipe.yml"), Error);
}

TEST(Stages, AreNoMoreThanARunCanHave) {
  std::string text = "model: {path: a}\ndata: {train_file: b}\nstages:\n";
  for (int i = 0; i < 101; ++i) {
    text += "  - {name: s" + std::to_string(i) + (i > 0 ? ", start: continue}\n" : "}\n");
  }
  EXPECT_EQ(message_of(text), "demo.yml:3:1: stages lists 101: expected at most 100");
}

// Stages of a recipe that is extended keep the paths of their own file.
TEST(Stages, CanBeExtended) {
  TemporaryFolder folder;
  std::filesystem::create_directories(folder / "base");
  write_file_atomically(folder / "base/stages.yml",
                        "stages:\n  - {name: a, data: {train_file: a.jsonl}}\n"
                        "  - {name: b, start: continue, data: {train_file: b.jsonl}}\n");
  write_file_atomically(folder / "mine.yml",
                        "extends: base/stages.yml\nmodel: {path: tiny}\ndata: {eval_file: e.jsonl}\n");
  std::vector<Recipe> stages = read_recipes(folder / "mine.yml");
  ASSERT_EQ(stages.size(), 2U);
  EXPECT_EQ(stages[1].data.train_file.front().path, (folder / "base/b.jsonl").string());
  EXPECT_EQ(stages[1].data.eval_file.front(), (folder / "e.jsonl").string());
  EXPECT_TRUE(stages[1].stage.earlier.empty());  // the same files: one set, evaluated once
}

}  // namespace
}  // namespace snug
