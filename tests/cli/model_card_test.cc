// The model card of a run: figures as its summary has them, and nothing of a name becomes markup.
#include <gtest/gtest.h>

#include "support/run_snug.h"

namespace snug {
namespace {

namespace fs = std::filesystem;

class Card : public testing::Test {
 protected:
  std::string train(const std::string& name, const std::vector<std::string>& settings) {
    std::vector<std::string> all = {"train", source_path("recipes/ship_log.yml"), "--device", "cpu"};
    std::string output = (folder_.path() / name).string();
    for (const std::string& set :
         {"output_dir=" + output, "data.cache_dir=" + (folder_.path() / "cache").string(),
          std::string("logging.logging_steps=1"), std::string("training.max_steps=4")}) {
      all.insert(all.end(), {"--set", set});
    }
    for (const std::string& set : settings) {
      all.insert(all.end(), {"--set", set});
    }
    CommandResult result = run_snug(all);
    EXPECT_EQ(result.exit_code, 0) << result.errors;
    return output;
  }
  static void expect_in(const std::string& card, const std::string& part) {
    EXPECT_NE(card.find(part), std::string::npos) << part << "\n" << card;
  }

  TemporaryFolder folder_;
};

TEST_F(Card, TellsOfAnAdapterAndHowToLoadIt) {
  std::string run = train("my|<b>*run*", {"training.eval_steps=2"});
  std::string card = read_text_file(run + "/README.md");
  Json summary = read_json(run + "/summary.json");
  Json origin = read_json(run + "/manifest.json")["origin"];
  expect_in(card, "# my\\|\\<b\\>\\*run\\*\n");
  expect_in(card, "| steps | 4 of 4 |");
  for (const char* loss : {"first_loss", "last_loss"}) {
    expect_in(card, fmt::format("{:.4f}", summary[loss].get<double>()));
  }
  expect_in(card, fmt::format("| evaluation loss | {:.4f} over",
                              summary["evaluations"].back()["eval_loss"].get<double>()));
  expect_in(card, "| trained parameters | 240,640");
  expect_in(card, "| training | `" + origin["train_data"].get<std::string>() + "` |");
  expect_in(card, "| training.max\\_steps | 4 |");
  expect_in(card, "PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(base), \"my|<b>*run*\")");
  expect_in(card, "snug generate '" + source_path("models/tiny-story") + "' --adapter 'my|<b>*run*'");
  EXPECT_EQ(card.find(folder_.path().string()), std::string::npos) << "where the run lay\n" << card;
  // The curve begins at the first loss and has a dot for each evaluation.
  expect_in(card, "![loss by step](loss_curve.svg)");
  std::string curve = read_text_file(run + "/loss_curve.svg");
  EXPECT_EQ(curve.rfind("<svg xmlns", 0), 0U);
  size_t dots = 0;
  for (size_t at = curve.find("<circle"); at != std::string::npos; at = curve.find("<circle", at + 1)) {
    ++dots;
  }
  EXPECT_EQ(dots, summary["evaluations"].size());
  Json files = read_json(run + "/manifest.json")["files"];
  for (const char* name : {"README.md", "loss_curve.svg"}) {
    EXPECT_NE(std::find(files.begin(), files.end(), name), files.end()) << name;
  }
}

TEST_F(Card, TellsOfAWholeModel) {
  std::string run = train("whole", {"lora=null"});
  std::string card = read_text_file(run + "/README.md");
  expect_in(card, "library_name: transformers");
  expect_in(card, "AutoModelForCausalLM.from_pretrained(\"whole\")");
  expect_in(card, "snug generate 'whole' --prompt");
  EXPECT_EQ(card.find("peft"), std::string::npos) << card;
}

}  // namespace
}  // namespace snug
