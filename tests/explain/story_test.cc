// The stories of people who ran out of memory, with the exact figures of their models.
#include "explain/story.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/bytes.h"
#include "explain/allocation.h"
#include "explain/counts.h"
#include "model/catalogue.h"

namespace snug {
namespace {

bool says(const Story& story, std::string_view part) {
  return std::any_of(story.findings.begin(), story.findings.end(), [&](const LogFinding& finding) {
    return finding.title.find(part) != std::string::npos ||
           std::any_of(finding.sentences.begin(), finding.sentences.end(),
                       [&](const std::string& sentence) { return sentence.find(part) != std::string::npos; });
  });
}

// Published counts of PEFT's own documentation and of model cards.
TEST(Counts, FindTheModelTheLayersAndTheRank) {
  auto runs = runs_with_counts({.trainable = 4'194'304, .all = 6'742'609'920});
  ASSERT_FALSE(runs.empty());                    // r=4 on q, k, v and o has the same count
  EXPECT_EQ(runs[0].parameters, 6'738'415'616);  // Llama-2-7B
  EXPECT_EQ(runs[0].r, 8);
  EXPECT_EQ(runs[0].layers(), "q_proj and v_proj");

  // r=16 on all linear layers of Mistral-7B-v0.3, as people who did that wrote down.
  runs = runs_with_counts({.trainable = 41'943'040, .all = 7'248'023'552 + 41'943'040});
  ASSERT_FALSE(runs.empty());
  EXPECT_EQ(runs[0].model, "mistralai/Mistral-7B-v0.3");
  EXPECT_EQ(runs[0].r, 16);

  EXPECT_TRUE(runs_with_counts({.trainable = 1'234'567}).empty());
}

TEST(Counts, TheShareDecides) {
  auto runs = runs_with_counts({.trainable = 239'468'544, .percent = 7.20, .percent_error = 0.005});
  ASSERT_FALSE(runs.empty());
  EXPECT_EQ(runs[0].model, "Qwen/Qwen2.5-3B");
  EXPECT_EQ(runs[0].r, 128);
  EXPECT_EQ(runs[0].parameters, 3'085'938'688);
  EXPECT_TRUE(runs_with_counts({.trainable = 239'468'544, .percent = 3.05, .percent_error = 0.005}).empty());
}

TEST(Counts, SiblingsDifferInSize) {
  EXPECT_EQ(sibling_of_size("Qwen/Qwen2.5-3B", "7B"), "Qwen/Qwen2.5-7B");
  EXPECT_EQ(sibling_of_size("Qwen/Qwen2.5-3B", "3B"), "");
  EXPECT_EQ(sibling_of_size("google/flan-t5-xl", "7B"), "");
}

// The run that worked was another model. Nobody had counted.
TEST(Story, TheRiddleOfThe7BThatTrained) {
  Story story =
      tell_story(read_log("MTUP 7B: adding LoRA\ntrainable params: 239,468,544, trainable 7.20%"), nullptr);
  EXPECT_EQ(story.model, "Qwen/Qwen2.5-3B");
  EXPECT_TRUE(says(story, "239,468,544 trainable parameters are Qwen/Qwen2.5-3B at r=128"));
  EXPECT_TRUE(says(story, "It was not Qwen/Qwen2.5-7B"));
  EXPECT_TRUE(says(story, "322,961,408 of 7,938,577,920 parameters, 4.07%"));
}

TEST(Story, WhyEvenTheSmallestBatchFailed) {
  Story story = tell_story(
      read_log("Qwen/Qwen2.5-7B-Instruct\ntrainable params: 322,961,408 || all params: 7,938,577,920"),
      nullptr);
  EXPECT_TRUE(
      says(story, "5.17 GB, beside 15.23 GB of weights in 16 bits; 20.40 GB before the first activation"));
}

constexpr std::string_view kDeepSeek =
    "deepseek-llm-7b-base\nCUDA out of memory. Tried to allocate 172.00 MiB. GPU 0 has a total capacty of "
    "22.30 GiB of "
    "which 122.12 MiB is free. Including non-PyTorch memory, this process has 22.18 GiB memory in use.";

TEST(Story, WeightsThatWereLoadedInFp32) {
  Story story = tell_story(read_log(kDeepSeek), nullptr);
  EXPECT_TRUE(says(story, "11008 x 4096 matrix in fp32 (gate_proj, up_proj"));
  EXPECT_TRUE(says(story, "of 30: this happened while weights were loaded"));
  EXPECT_TRUE(says(story, "25.74 GiB (27,641,462,784 bytes)"));
  EXPECT_TRUE(says(story, "No rank, alpha, batch size or allocator flag changes that"));
  ASSERT_TRUE(story.fitting.has_value());
  EXPECT_LE(story.fitting->peak_bytes, story.fitting->limit_bytes);
  EXPECT_NE(story.fitting->recipe.find("deepseek-ai/deepseek-llm-7b-base"), std::string::npos);
}

// About layer 27, as the bytes before it say: embeddings, then 772 MiB a layer.
TEST(Story, HowFarLoadingWas) {
  LogFacts facts = read_log(kDeepSeek);
  ModelSpec spec =
      parse_model_config(catalogue_config("deepseek-ai/deepseek-llm-7b-base").value().dump(), "config.json");
  auto loading = find_loading(facts.failures.at(0), spec);
  ASSERT_TRUE(loading.has_value());
  EXPECT_NEAR(static_cast<double>(loading->layer), 27, 1);
  EXPECT_EQ(loading->layers, 30);
}

// The same size in the middle of training was no weight.
TEST(Story, WhatHappenedLaterWasNotLoading) {
  Story story = tell_story(
      read_log("trainable params: 18,739,200\n trainer.train()\n" + std::string(kDeepSeek)), nullptr);
  EXPECT_FALSE(says(story, "while weights were loaded"));
}

TEST(Story, Logits) {
  ModelSpec spec = parse_model_config(catalogue_config("Qwen/Qwen2.5-7B").value().dump(), "config.json");
  FailedAllocation failure;
  failure.wanted_bytes = parse_bytes("4.64GiB");  // 8192 x 152064 x 4 = 4.6406 GiB
  auto logits = find_logits(failure, spec);
  ASSERT_TRUE(logits.has_value());
  EXPECT_EQ(logits->tokens, 8192);
  EXPECT_EQ(logits->dtype, DType::f32);
}

TEST(Story, WhoIsOnTheCard) {
  Story story = tell_story(
      read_log(
          "| 33%   41C    P2   57W /  260W |   21634MiB /  24576MiB |      0%      Default |\n"
          "|    0   N/A  N/A           18231      C   python                                14212MiB |\n"),
      nullptr);
  EXPECT_TRUE(says(story, "13.88 GiB by process 18231 (python)"));
  EXPECT_TRUE(says(story, "7.25 GiB by processes that the table does not show"));
}

TEST(Story, KnownSentences) {
  Story story = tell_story(
      read_log("UserWarning: None of the inputs have requires_grad=True. Gradients will be None"), nullptr);
  EXPECT_TRUE(says(story, "before the adapters existed"));
}

}  // namespace
}  // namespace snug
