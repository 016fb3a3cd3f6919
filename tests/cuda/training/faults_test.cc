// Runs that the card ends: the message, and what is in the output folder afterwards.
#include <gtest/gtest.h>

#include <cstdlib>

#include "cuda/training/card_fixture.h"
#include "data/batches/synthetic.h"
#include "support/temporary_folder.h"
#include "train/run_folder.h"

namespace snug {
namespace {

// Trains on examples of which a later one names a token that does not exist, so that a kernel reads what it
// may not: an error of the device in the middle of the run.
void train_until_the_card_fails(const std::filesystem::path& output) {
  Recipe recipe = reference_recipe(reference_folder("gqa_untied"));
  recipe.output_dir = output.string();
  recipe.training.max_steps = 400;
  recipe.logging.logging_steps = 1;
  LocatedModel model = locate_model_files(recipe.model.path);
  std::vector<Example> examples;
  for (int i = 0; i < 64; ++i) {
    int32_t third = i == 63 ? 1'000'000'000 : 3;
    examples.push_back({{{1, true}, {2, true}, {third, false}, {4, true}}});
  }
  TrainInputs inputs{recipe, model, {.train = make_dataset(examples), .eval = std::nullopt}};
  CudaBackend backend;
  Plan plan = plan_training(recipe, model.spec, backend);
  try {
    RunFolder folder({.folder = output, .model_folder = model.folder});
    train(inputs, plan, backend, RunEvents(), folder);
  } catch (const Error& error) {
    std::fprintf(stderr, "kind %d: %s\n", static_cast<int>(error.kind()), error.what());
    std::_Exit(error.kind() == ErrorKind::environment ? 7 : 8);
  }
  std::_Exit(9);
}

// In a process of its own: after such an error it cannot use the card any more.
TEST(CudaRunFaultsDeathTest, AnErrorInMidRunLeavesWholeFiles) {
  SKIP_WITHOUT_CARD();
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  std::filesystem::path output = std::filesystem::temp_directory_path() / "snug_card_fault";
  std::filesystem::remove_all(output);
  EXPECT_EXIT(train_until_the_card_fails(output), testing::ExitedWithCode(7),
              "CUDA error while .*files written so far are whole");
  // What is there is whole, and nothing pretends to be a result.
  EXPECT_TRUE(std::filesystem::exists(output / "recipe.yml"));
  EXPECT_FALSE(std::filesystem::exists(output / "summary.json"));
  for (const auto& entry : std::filesystem::directory_iterator(output)) {
    std::string name = entry.path().filename().string();
    EXPECT_TRUE(name == "recipe.yml" || name == "plan.json" || name == "metrics.jsonl" ||
                name == "manifest.json" || name.starts_with("events.out.tfevents."))
        << name;
  }
  std::string metrics = read_text_file(output / "metrics.jsonl");
  EXPECT_TRUE(metrics.empty() || metrics.ends_with('\n'));
  std::filesystem::remove_all(output);
}

}  // namespace
}  // namespace snug
