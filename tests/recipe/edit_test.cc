// Keys that are changed in a recipe's text: what a person would have written by hand.
#include "recipe/edit.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "recipe/parse.h"
#include "recipe/write.h"

namespace snug {
namespace {

std::string edited(std::string_view text, const std::vector<std::string>& settings) {
  return edit_recipe(text, "recipe.yml", settings);
}

TEST(EditRecipe, AValueIsReplacedWhereItStands) {
  EXPECT_EQ(edited("# mine\nmemory:   # of the card\n  recompute:   none  # as before\n  limit: \"24GB\"\n",
                   {"memory.recompute=full"}),
            "# mine\nmemory:   # of the card\n  recompute:   full  # as before\n  limit: \"24GB\"\n");
  EXPECT_EQ(edited("memory: {recompute: 'none', limit: 24GB}  # both\n", {"memory.recompute=[full, none]"}),
            "memory: {recompute: [full, none], limit: 24GB}  # both\n");
  EXPECT_EQ(edited("memory: {recompute: [full, \"none]\"], limit: 24GB}\n", {"memory.recompute=none"}),
            "memory: {recompute: none, limit: 24GB}\n");
  EXPECT_EQ(
      edited("memory:\n  recompute:\n    - full\n    - none\n  limit: 1GB\n", {"memory.recompute=full"}),
      "memory:\n  recompute:\n    full\n  limit: 1GB\n");
  EXPECT_EQ(edited("memory:\n  recompute:\n  - full\n  - none\n  limit: 1GB\n", {"memory.recompute=full"}),
            "memory:\n  recompute:\n    full\n  limit: 1GB\n");
  EXPECT_EQ(edited("output_dir: runs/a\n", {"output_dir=runs/b"}), "output_dir: runs/b\n");
}

TEST(EditRecipe, NullsHaveTextOrNone) {
  EXPECT_EQ(edited("memory:\n  limit:   # none\n", {"memory.limit=24GB"}),
            "memory:\n  limit: 24GB   # none\n");
  EXPECT_EQ(edited("memory:\n  limit: ~ # none\n", {"memory.limit=24GB"}), "memory:\n  limit: 24GB # none\n");
  EXPECT_EQ(edited("memory:\n  # nothing yet\ndata:\n  packing: true\n", {"memory.limit=24GB"}),
            "memory:\n  limit: 24GB\n  # nothing yet\ndata:\n  packing: true\n");
  EXPECT_EQ(edited("memory: null\n", {"memory.limit=24GB"}), "memory: {limit: 24GB}\n");
}

TEST(EditRecipe, ANewKeyGoesBehindTheOthers) {
  EXPECT_EQ(
      edited("memory:\n    limit: 24GB   # all\n\n# the run\noutput_dir: a\n", {"memory.recompute=full"}),
      "memory:\n    limit: 24GB   # all\n    recompute: full\n\n# the run\noutput_dir: a\n");
  EXPECT_EQ(edited("memory: {limit: 24GB}\n", {"memory.recompute=full"}),
            "memory: {limit: 24GB, recompute: full}\n");
  EXPECT_EQ(edited("memory: { limit: 24GB, }\n", {"memory.recompute=full"}),
            "memory: { limit: 24GB, recompute: full }\n");
  EXPECT_EQ(edited("memory: {}\n", {"memory.recompute=full"}), "memory: {recompute: full}\n");
  EXPECT_EQ(edited("data:\n  train_file:\n  - a.jsonl\n  - b.jsonl\nlora:\n  r: 8\n", {"data.max_length=64"}),
            "data:\n  train_file:\n  - a.jsonl\n  - b.jsonl\n  max_length: 64\nlora:\n  r: 8\n");
  EXPECT_EQ(
      edited("data:\n  prompt_template: |\n    a: {a}\n\n    b\nlora:\n  r: 8\n", {"data.max_length=64"}),
      "data:\n  prompt_template: |\n    a: {a}\n\n    b\n  max_length: 64\nlora:\n  r: 8\n");
  EXPECT_EQ(edited("lora: {r: 8}", {"memory.limit=1GB", "memory.recompute=full"}),
            "lora: {r: 8}\nmemory:\n  limit: 1GB\n  recompute: full")
      << "no line end";
  EXPECT_EQ(edited("lora: {r: 8}\n\ndata: {packing: true}  # packs\n# the end\n", {"memory.limit=1GB"}),
            "lora: {r: 8}\n\ndata: {packing: true}  # packs\n\nmemory:\n  limit: 1GB\n# the end\n")
      << "sections stand apart";
  EXPECT_EQ(edited("{lora: {r: 8}}\n", {"memory.limit=1GB"}), "{lora: {r: 8}, memory: {limit: 1GB}}\n");
}

TEST(EditRecipe, LineEndsAndOtherWritingStay) {
  EXPECT_EQ(edited("# Rezept\r\nmemory:\r\n  limit: 24GB\r\nlora:\r\n  r: 8\r\n",
                   {"memory.recompute=full", "lora.r=4", "data.max_length=64"}),
            "# Rezept\r\nmemory:\r\n  limit: 24GB\r\n  recompute: full\r\nlora:\r\n  r: 4\r\ndata:\r\n"
            "  max_length: 64\r\n");
  EXPECT_EQ(edited("\xef\xbb\xbfmemory: {recompute: none}\n", {"memory.recompute=full"}),
            "\xef\xbb\xbfmemory: {recompute: full}\n");
  EXPECT_EQ(
      edited("data: {train_file: \"gedächtnis/đồ thị.jsonl\", max_length: 128}\n", {"data.max_length=64"}),
      "data: {train_file: \"gedächtnis/đồ thị.jsonl\", max_length: 64}\n");
  EXPECT_EQ(edited("data: {train_file: it's.jsonl, max_length: 128} # it's {\n", {"data.max_length=64"}),
            "data: {train_file: it's.jsonl, max_length: 64} # it's {\n");
}

constexpr std::string_view kStages =
    "model: {path: m}\n"
    "stages:\n"
    "  - name: it   # first\n"
    "    data: {train_file: a.jsonl}\n"
    "  # behind it\n"
    "  - name: grc\n"
    "    start: stack\n"
    "    memory:\n"
    "      limit: 1GB\n"
    "output_dir: runs/a\n";

TEST(EditRecipe, AStageHasItsOwnBlock) {
  EXPECT_EQ(edited(kStages, {"stages.it.memory.recompute=full", "stages.grc.memory.recompute=none",
                             "model.quantization=int8"}),
            "model: {path: m, quantization: int8}\n"
            "stages:\n"
            "  - name: it   # first\n"
            "    data: {train_file: a.jsonl}\n"
            "    memory:\n"
            "      recompute: full\n"
            "  # behind it\n"
            "  - name: grc\n"
            "    start: stack\n"
            "    memory:\n"
            "      limit: 1GB\n"
            "      recompute: none\n"
            "output_dir: runs/a\n");
  EXPECT_EQ(edited("stages: [{name: it}, {name: grc, start: stack}]\n", {"stages.it.lora.r=4"}),
            "stages: [{name: it, lora: {r: 4}}, {name: grc, start: stack}]\n");
}

TEST(EditRecipe, SaysWhatATextCannotHold) {
  try {
    edited("x: &m {limit: 1GB}\nmemory: *m\n", {"memory.recompute=full"});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()),
              "recipe.yml:2:9: memory is an alias, which others share: write its keys out");
  }
  try {
    edited("extends: base.yml\n", {"stages.it.memory.recompute=full"});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()),
              "recipe.yml: its stages stand in the recipe that it extends: change that one");
  }
}

// The edited text means what the same settings mean on the command line.
TEST(EditRecipe, MeansWhatTheCommandLineMeans) {
  constexpr std::string_view kRecipe =
      "model: {path: m}\ndata:\n  train_file: [a.jsonl, b.jsonl] # two\nlora:\n";
  for (std::string_view end : {"", "\n"}) {
    std::string text(kRecipe.substr(0, kRecipe.size() - 1));
    text += end;
    for (const char* setting :
         {"memory.recompute=[full, none, selective]", "lora.r=4", "data.max_length=64", "model.dtype=bf16",
          "training.optimizer_states=8bit", "output_dir=\"a: b # c\"", "data.prompt_template=null"}) {
      EXPECT_EQ(recipe_to_yaml(parse_recipe(edited(text, {setting}), "recipe.yml")),
                recipe_to_yaml(parse_recipe(text, "recipe.yml", {setting})))
          << setting;
    }
  }
}

}  // namespace
}  // namespace snug
