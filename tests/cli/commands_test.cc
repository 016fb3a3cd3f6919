// The commands as users call them: what they print, their exit codes, and the keys that machines rely on.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "support/run_snug.h"
#include "test_paths.h"

namespace snug {
namespace {

const std::string kRecipe = source_path("recipes/ship_log.yml");
const std::string kModel = source_path("models/tiny-story");

TEST(Cli, HelpHasExamplesForEveryCommand) {
  CommandResult all = run_snug({"--help"});
  EXPECT_EQ(all.exit_code, 0);
  for (const char* command : {"inspect", "plan", "train", "generate"}) {
    EXPECT_NE(all.output.find(command), std::string::npos);
    CommandResult help = run_snug({command, "--help"});
    EXPECT_EQ(help.exit_code, 0);
    EXPECT_NE(help.output.find("Example"), std::string::npos) << command;
  }
}

TEST(Cli, UnknownCommandsAndOptionsAreBadInput) {
  EXPECT_EQ(run_snug({}).exit_code, 2);
  EXPECT_EQ(run_snug({"trian", kRecipe}).exit_code, 2);
  EXPECT_EQ(run_snug({"plan", kRecipe, "--no-such-option"}).exit_code, 2);
}

TEST(Cli, ThreadsThatNoMachineHasAreBadInput) {
  for (const char* threads : {"1024", "513", "-1", "2147483648", "two"}) {
    CommandResult result = run_snug({"plan", kRecipe, "--threads", threads});
    EXPECT_EQ(result.exit_code, 2) << threads;
    EXPECT_NE(result.errors.find("--threads"), std::string::npos) << result.errors;
  }
  EXPECT_NE(run_snug({"plan", kRecipe, "--threads", "1024"}).errors.find("512"), std::string::npos);
}

// Far more threads than cores are slow, but right.
TEST(Cli, ManyThreadsGenerateTheSame) {
  auto generate = [](const std::string& threads) {
    return run_snug({"generate", kModel, "--prompt", "Once upon a time there was a", "--max-new-tokens", "4",
                     "--threads", threads});
  };
  CommandResult two = generate("2");
  EXPECT_EQ(two.exit_code, 0);
  EXPECT_EQ(generate("512").output, two.output);
}

TEST(Cli, WhatOnlyAConversationHasNeedsOne) {
  for (const char* option : {"--system", "--chat-template"}) {
    CommandResult result = run_snug({"generate", kModel, "--prompt", "Once", option, "chatml"});
    EXPECT_EQ(result.exit_code, 2) << option;
    EXPECT_NE(result.errors.find(std::string(option) + " is \"chatml\""), std::string::npos) << result.errors;
    EXPECT_NE(result.errors.find("add --chat"), std::string::npos) << result.errors;
  }
}

TEST(Cli, InspectJsonHasItsKeys) {
  Json json = json_output(run_snug({"inspect", kModel, "--rank", "16", "--json"}));
  EXPECT_EQ(json["parameters"], 1796160);
  // r x (inputs + outputs) over the seven linear layers of five blocks.
  int64_t q = 16 * (192 + 192);
  int64_t kv = 16 * (192 + 64);
  int64_t mlp = 16 * (192 + 384);
  EXPECT_EQ(json["lora_parameters"], 5 * (2 * q + 2 * kv + 3 * mlp));
  EXPECT_EQ(json["bytes"]["bf16"], 2 * 1796160);
  int64_t linear = 5 * (2 * 192 * 192 + 2 * 192 * 64 + 3 * 192 * 384);
  int64_t rest = 2 * (1796160 - linear);
  int64_t maps = 5 * 7 * 16 * 4;
  EXPECT_EQ(json["bytes"]["nf4"], linear / 2 + linear / 64 * 4 + maps + rest);
  EXPECT_EQ(json["bytes"]["fp4"], json["bytes"]["nf4"]);
  EXPECT_EQ(json["bytes"]["int8"], linear + 4 * 5 * (2 * 192 + 2 * 64 + 2 * 384 + 192) + rest);
  EXPECT_LT(json["bytes"]["nf4_double"], json["bytes"]["nf4"]);
}

TEST(Cli, PlanJsonHasItsKeys) {
  Json json = json_output(run_snug({"plan", kRecipe, "--memory", "2GB", "--json"}));
  EXPECT_EQ(json["fits"], true);
  EXPECT_EQ(json["limit_bytes"], 2000000000);
  EXPECT_GT(json["peak_bytes"].get<int64_t>(), 3592320);
  EXPECT_EQ(json["trainable_parameters"], 240640);
  EXPECT_TRUE(json["phases"].is_array());
  EXPECT_TRUE(json["roles"].contains("base weights"));
}

// Packs are never small, so before the data is read they need what is chosen for them, too.
TEST(Cli, PacksThatFitByRecomputationAreTrained) {
  std::vector<std::string> packed = {kRecipe};
  for (const char* setting :
       {"data.packing=true", "training.max_steps=1", "training.per_device_train_batch_size=1",
        "training.per_device_eval_batch_size=1"}) {
    packed.insert(packed.end(), {"--set", setting});
  }
  auto with = [&](const std::string& command, const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {command};
    arguments.insert(arguments.end(), packed.begin(), packed.end());
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_snug(arguments);
  };
  Json full = json_output(with("plan", {"--set", "memory.recompute=full", "--json"}));
  std::string limit = std::to_string(full["peak_bytes"].get<int64_t>());
  EXPECT_EQ(with("plan", {"--set", "memory.recompute=none", "--memory", limit}).exit_code, 3);
  TemporaryFolder folder;
  CommandResult result =
      with("train", {"--memory", limit, "--set", "output_dir=" + (folder.path() / "run").string()});
  EXPECT_EQ(result.exit_code, 0) << result.errors;
}

TEST(Cli, PlanThatDoesNotFitExitsWithThreeAndSaysByHowMuch) {
  CommandResult result = run_snug({"plan", kRecipe, "--memory", "12MB"});
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_NE(result.output.find("does not fit"), std::string::npos);
  EXPECT_NE(result.output.find("bytes too much"), std::string::npos);
  CommandResult train =
      run_snug({"train", kRecipe, "--memory", "8MB", "--set", "output_dir=/nonexistent/never"});
  EXPECT_EQ(train.exit_code, 3);
}

TEST(Cli, PlanNeedsNoWeights) {
  TemporaryFolder folder;
  std::filesystem::copy(kModel + "/config.json", folder.path() / "config.json");
  CommandResult result =
      run_snug({"plan", kRecipe, "--set", "model.path=" + folder.path().string(), "--json"});
  EXPECT_EQ(result.exit_code, 0) << result.errors;
}

TEST(Cli, ColourOnlyOnATerminal) {
  EXPECT_EQ(run_snug({"plan", kRecipe}).output.find('\x1b'), std::string::npos);
}

TEST(Cli, TrainWritesWhatPeftReadsAndASummary) {
  TemporaryFolder folder;
  std::string output = (folder.path() / "run").string();
  CommandResult result = run_snug({"train", kRecipe, "--json", "--set", "output_dir=" + output, "--set",
                                   "training.max_steps=6", "--set", "logging.logging_steps=2"});
  ASSERT_EQ(result.exit_code, 0) << result.errors;
  Json summary = json_output(result);
  EXPECT_EQ(summary, read_json(output + "/summary.json"));
  EXPECT_EQ(summary["steps"], 6);
  EXPECT_EQ(summary["planned_bytes"], summary["allocated_bytes"]);
  EXPECT_LE(summary["peak_used_bytes"].get<int64_t>(), summary["planned_bytes"].get<int64_t>());
  EXPECT_GT(summary["first_loss"].get<double>(), summary["last_loss"].get<double>());

  Json config = read_json(output + "/adapter_config.json");
  EXPECT_EQ(config["peft_type"], "LORA");
  EXPECT_EQ(config["target_modules"].size(), 7U);
  std::string metrics = read_text_file(output + "/metrics.jsonl");
  EXPECT_NE(metrics.find("\"loss\":"), std::string::npos);
  EXPECT_NE(metrics.find("\"eval_loss\":"), std::string::npos);

  CommandResult text = run_snug({"generate", kModel, "--adapter", output, "--prompt",
                                 "Log: fox, river, rope\n", "--max-new-tokens", "8", "--json"});
  ASSERT_EQ(text.exit_code, 0) << text.errors;
  EXPECT_EQ(json_output(text)["planned_bytes"], json_output(text)["allocated_bytes"]);
}

// Threads are an input of the plan, and however many there are, their scratch memory stays within bounds.
TEST(Cli, PlansForAnyNumberOfThreads) {
  auto plan_for = [](const char* threads) {
    return json_output(run_snug({"--threads", threads, "plan", source_path("recipes/ship_log.yml"),
                                 "--device", "cpu", "--memory", "2GB", "--json"}));
  };
  Json few = plan_for("2");
  EXPECT_EQ(few["threads"], 2);
  for (const char* threads : {"64", "256", "512"}) {
    Json many = plan_for(threads);
    EXPECT_EQ(many["threads"], std::stoi(threads));
    EXPECT_LE(many["peak_bytes"].get<int64_t>(), few["peak_bytes"].get<int64_t>() + (64 << 20)) << threads;
  }
}

// What a device makes of a program can be looked at: homes, and the scratch memory of its kernels.
TEST(Cli, PlanPrintsThePrograms) {
  auto programs_on = [](const char* device) {
    return run_snug({"--threads", "2", "plan", source_path("recipes/ship_log.yml"), "--device", device,
                     "--memory", "2GB", "--programs"})
        .output;
  };
  std::string cpu = programs_on("cpu");
  for (const char* line :
       {"program load\n", "program train\n", "program update\n", "program save\n",
        "  buffer ids int32 [<=1536] batch, input, device\n",
        "  buffer staging uint8 [786432] staging, phase, device\n", "-> layers.0.qkv +=, scratch "}) {
    EXPECT_NE(cpu.find(line), std::string::npos) << line;
  }
  // The update reads the gradients, and moves everything else on.
  EXPECT_NE(cpu.find(".grad, scalars, metrics.gradient_norm -> "), std::string::npos);
  std::string card = programs_on("cuda");
  EXPECT_NE(card.find("  buffer staging uint8 [786432] staging, phase, pinned\n"), std::string::npos);
}

// The plan of the demo as people see it. After a change that is meant to alter it:
//   build/release/snug --threads 2 plan recipes/ship_log.yml --memory 2GB > tests/goldens/plans/ship_log.txt
TEST(Cli, PlanTextIsTheGoldenOne) {
  CommandResult result = run_snug({"--threads", "2", "plan", "recipes/ship_log.yml", "--memory", "2GB"},
                                  "cd " + shell_quoted(SNUG_SOURCE_DIR) + " && ");
  EXPECT_EQ(result.output, read_text_file(source_path("tests/goldens/plans/ship_log.txt")));
}

// The same in less memory (20MB), and in too little (12MB).
TEST(Cli, PlansInLittleMemoryAreTheGoldenOnes) {
  for (auto [memory, exit_code] : {std::pair{"20MB", 0}, {"12MB", 3}}) {
    CommandResult result = run_snug({"--threads", "2", "plan", "recipes/ship_log.yml", "--memory", memory},
                                    "cd " + shell_quoted(SNUG_SOURCE_DIR) + " && ");
    EXPECT_EQ(result.exit_code, exit_code);
    std::string golden = fmt::format("tests/goldens/plans/ship_log_{}.txt", memory);
    EXPECT_EQ(result.output, read_text_file(source_path(golden)));
  }
}

TEST(Cli, ASyntheticModelOfAPublishedShapeTrains) {
  TemporaryFolder folder;
  std::string shape = (folder.path() / "shape").string();
  std::string model = (folder.path() / "model").string();
  std::filesystem::create_directory(shape);
  Json config = read_json(kModel + "/config.json");
  config["vocab_size"] = 300;
  write_file_atomically(shape + "/config.json", config.dump());
  ASSERT_EQ(run_snug({"synth", shape, model, "--seed", "3"}).exit_code, 0);
  EXPECT_EQ(run_snug({"synth", shape, model}).exit_code, 2) << "an existing model must not be overwritten";
  // Hugging Face's tokenizers take no ByteLevel without these three.
  Json tokenizer = read_json(model + "/tokenizer.json");
  for (const char* part : {"pre_tokenizer", "decoder"}) {
    for (const char* field : {"add_prefix_space", "trim_offsets", "use_regex"}) {
      EXPECT_TRUE(tokenizer[part].contains(field)) << part << " has no " << field;
    }
  }
  CommandResult result =
      run_snug({"train", kRecipe, "--json", "--set", "model.path=" + model, "--set", "training.max_steps=2",
                "--set", "output_dir=" + (folder.path() / "run").string()});
  EXPECT_EQ(result.exit_code, 0) << result.errors;
}

TEST(Cli, PlanAnswersForAHubIdWithNothingDownloaded) {
  Json json = json_output(run_snug({"plan", kRecipe, "--json", "--memory", "100GB", "--set",
                                    "model.path=Qwen/Qwen2.5-7B-Instruct", "--set", "lora.r=128"}));
  EXPECT_EQ(json["parameters"], 7615616512);
  EXPECT_EQ(json["trainable_parameters"], 322961408);
  CommandResult train = run_snug({"train", kRecipe, "--set", "model.path=Qwen/Qwen2.5-7B-Instruct"});
  EXPECT_EQ(train.exit_code, 2);
  EXPECT_NE(train.errors.find("snug synth"), std::string::npos) << train.errors;
}

TEST(Cli, ReportsSayWhatAModelDrops) {
  const std::string dropped = "0.1 (embedding, attention, mlp, residual, output)";
  std::vector<std::string> plan = {"plan",  kRecipe, "--memory",
                                   "100GB", "--set", "model.path=google/flan-t5-small"};
  EXPECT_NE(run_snug(plan).output.find("drops   " + dropped), std::string::npos);
  plan.insert(plan.end(), {"--set", "model.dropout=0"});
  EXPECT_EQ(run_snug(plan).output.find("drops"), std::string::npos);
  EXPECT_NE(run_snug({"inspect", "google/flan-t5-small"}).output.find("drops " + dropped), std::string::npos);
  Json json = json_output(run_snug({"inspect", "microsoft/phi-4", "--json"}));
  EXPECT_EQ(json["dropout"], (Json{{"attention", 0.0}, {"residual", 0.0}}));
}

TEST(Cli, SamplingFollowsItsSeed) {
  auto sampled = [](const std::string& seed) {
    return run_snug({"generate", kModel, "--prompt", "Once upon a time", "--temperature", "1.5", "--seed",
                     seed, "--max-new-tokens", "20"})
        .output;
  };
  EXPECT_EQ(sampled("1"), sampled("1"));
  EXPECT_NE(sampled("1"), sampled("2"));
}

TEST(Cli, TheRecipeThatARunLeavesBehindRunsAgain) {
  TemporaryFolder folder;
  std::string output = (folder.path() / "run").string();
  std::vector<std::string> settings = {"--json", "--set", "training.max_steps=2", "--set",
                                       "output_dir=" + output};
  std::vector<std::string> first = {"train", kRecipe};
  first.insert(first.end(), settings.begin(), settings.end());
  Json summary = json_output(run_snug(first));
  Json again = json_output(run_snug({"train", output + "/recipe.yml", "--json", "--overwrite"}, "cd / && "));
  EXPECT_EQ(summary["last_loss"], again["last_loss"]);
}

}  // namespace
}  // namespace snug
