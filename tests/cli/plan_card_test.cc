// Plans for a card, made by whatever build this is, on a machine that need not have one.
#include <gtest/gtest.h>

#include <vector>

#include "support/run_snug.h"

namespace snug {
namespace {

const std::string kCase1 = source_path("recipes/cases/parsing.yml");

std::string first_line(const std::string& text) {
  return text.substr(0, text.find('\n'));
}

// After a change that is meant to alter it (from a build without CUDA):
//   cd recipes && snug plan cases/parsing.yml --device cuda > ../tests/goldens/plans/case1_cuda.txt
TEST(PlanForACard, IsTheGoldenOne) {
  CommandResult result = run_snug({"plan", "cases/parsing.yml", "--device", "cuda"},
                                  "cd " + shell_quoted(source_path("recipes")) + " && ");
  EXPECT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_EQ(result.output, read_text_file(source_path("tests/goldens/plans/case1_cuda.txt")));
}

// Selective: planned and run on an H200 at these settings (32.15 GiB with the context; the driver
// counted 32.11), and 7 MiB more since, as the loss head gathers rows. Full: as it is planned.
TEST(PlanForACard, HasTheBytesThatACardWasSeenToGive) {
  auto planned_bytes = [](const std::string& recompute) {
    Json json =
        json_output(run_snug({"plan", kCase1, "--device", "cuda", "--memory", "100GB", "--json", "--set",
                              "memory.loss_chunk_tokens=1024", "--set", "memory.recompute=" + recompute}));
    return json["device_bytes"].get<int64_t>();
  };
  EXPECT_EQ(planned_bytes("full"), 22'588'520'448);
  EXPECT_EQ(planned_bytes("selective"), 33'917'204'736);
}

TEST(PlanForACard, NeedsNoLimit) {
  CommandResult result = run_snug({"plan", kCase1, "--device", "cuda", "--set", "memory.limit=null"});
  EXPECT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_NE(result.output.find("limit not known: --memory"), std::string::npos) << result.output;
  Json json =
      json_output(run_snug({"plan", kCase1, "--device", "cuda", "--json", "--set", "memory.limit=null"}));
  EXPECT_TRUE(json["fits"].is_null());
  EXPECT_TRUE(json["limit_bytes"].is_null());
  EXPECT_GT(json["peak_bytes"].get<int64_t>(), 20'000'000'000);
}

TEST(PlanForACard, TheFirstLineNamesTheDevice) {
  std::string recipe = source_path("recipes/ship_log.yml");
  CommandResult cpu = run_snug({"--threads", "2", "plan", recipe, "--device", "cpu"});
  EXPECT_EQ(first_line(cpu.output), "  device  cpu: 2 threads");
  CommandResult card = run_snug({"plan", recipe, "--device", "cuda"});
  EXPECT_EQ(first_line(card.output).rfind("  device  cuda", 0), 0U) << card.output;
  CommandResult unknown = run_snug({"plan", recipe, "--device", "tpu"});
  EXPECT_EQ(unknown.exit_code, 2);
  EXPECT_NE(unknown.errors.find("expected cpu, cuda, cuda:N"), std::string::npos) << unknown.errors;
}

TEST(PlanForACard, OfTheCatalogueHasItsMemoryAndASpeed) {
  const std::vector<std::string> plan = {"plan", kCase1, "--json"};
  auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), plan.begin(), plan.end());
    return run_snug(more);
  };
  Json turing = json_output(with({"--gpu", "quadro rtx 6000"}));
  EXPECT_EQ(turing["gpu"], "Quadro RTX 6000");
  EXPECT_EQ(turing["limit_bytes"], 25'382'879'232) << "23.64 GiB, in MiB";
  EXPECT_EQ(turing["fits"], true);
  EXPECT_LE(turing["peak_bytes"].get<int64_t>(), 25'382'879'232);
  EXPECT_GT(turing["expected_tokens_per_second"].get<double>(), 100);
  EXPECT_EQ(json_output(with({"--gpu", "h200"}))["fits"], true);
  // The plan's text says which card, and how fast.
  std::string text = run_snug({"plan", kCase1, "--gpu", "H200"}).output;
  EXPECT_EQ(first_line(text).rfind("  device  cuda: H200, ", 0), 0U) << text;
  EXPECT_NE(text.find("tok/s expected"), std::string::npos) << text;
  EXPECT_NE(text.find("rates assumed from the card's shape"), std::string::npos) << text;
  EXPECT_EQ(turing["rates"], "assumed") << "nobody has measured it";
  // A limit of the command line stands.
  EXPECT_EQ(json_output(with({"--gpu", "H200", "--memory", "20GB"}))["limit_bytes"], 20'000'000'000);

  CommandResult unknown = with({"--gpu", "3091"});
  EXPECT_EQ(unknown.exit_code, 2);
  EXPECT_NE(unknown.errors.find("RTX 3090"), std::string::npos) << unknown.errors;
  EXPECT_EQ(with({"--gpu", "3090", "--device", "cpu"}).exit_code, 2);
}

// Numbers of cards are for the machine that has them; where there is none, a plan is a plan.
TEST(PlanForACard, IsTheSameForEveryCardThatIsNotHere) {
  if (run_snug({"--version"}).output.find("cuda:") != std::string::npos) {
    GTEST_SKIP() << "a build with CUDA looks for the card; tests/cuda/cards_test.cc has its cases";
  }
  Json any = json_output(run_snug({"plan", kCase1, "--device", "cuda", "--json"}));
  EXPECT_EQ(any["device"], "cuda");
  for (const char* device : {"cuda:0", "cuda:7", "cuda:auto"}) {
    EXPECT_EQ(json_output(run_snug({"plan", kCase1, "--device", device, "--json"})), any) << device;
    CommandResult run = run_snug({"train", source_path("recipes/ship_log.yml"), "--device", device});
    EXPECT_EQ(run.exit_code, 2);
    EXPECT_NE(run.errors.find("\"" + std::string(device) + "\", but this is a build for the CPU"),
              std::string::npos)
        << run.errors;
  }
}

// fp16 has no kernels on the CPU; the way out is in the message.
TEST(PlanForACard, IsWhatAnFp16RecipeIsToldOf) {
  CommandResult result = run_snug({"plan", kCase1, "--device", "cpu"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_NE(result.errors.find("--device cuda"), std::string::npos) << result.errors;
}

}  // namespace
}  // namespace snug
