// snug data as users call it.
#include <gtest/gtest.h>

#include <sstream>

#include "support/run_snug.h"

namespace snug {
namespace {

const std::string kModel = source_path("models/tiny-story");

class DataCommand : public testing::Test {
 protected:
  // A recipe for the embedded model over these rows.
  std::string recipe_for(const std::string& rows, const std::string& data_keys = "  max_length: 512\n") {
    write_file_atomically(folder_.path() / "rows.jsonl", rows);
    write_file_atomically(folder_.path() / "recipe.yml",
                          "model: {path: " + kModel + "}\ndata:\n  train_file: rows.jsonl\n" + data_keys);
    return (folder_.path() / "recipe.yml").string();
  }
  static std::string chat_row(const std::string& question, const std::string& answer) {
    Json messages = {{{"role", "user"}, {"content", question}}, {{"role", "assistant"}, {"content", answer}}};
    return Json{{"messages", messages}}.dump() + "\n";
  }
  static Json warning(const Json& report, const std::string& kind) {
    for (const Json& found : report["train"]["warnings"]) {
      if (found["kind"] == kind) {
        return found;
      }
    }
    return {};
  }

  TemporaryFolder folder_;
};

TEST_F(DataCommand, CountsTokensAsTheTokenizerDoes) {
  std::string recipe = recipe_for(chat_row("Log: owl", "All well.") + chat_row("Log: fox, river", "Day 1."));
  Json report = json_output(run_snug({"data", recipe, "--json"}));
  auto tokens_of = [&](const std::string& text) {
    return json_output(run_snug({"tokenize", kModel, text, "--json"}))["ids"].size();
  };
  // The template puts a line end behind a question and an end token behind an answer.
  size_t learned = tokens_of("All well.") + tokens_of("Day 1.") + 2;
  EXPECT_EQ(report["train"]["learned_tokens"], learned);
  EXPECT_EQ(report["train"]["tokens"], learned + tokens_of("Log: owl\n") + tokens_of("Log: fox, river\n"));
  EXPECT_EQ(report["train"]["examples"], 2);
  EXPECT_EQ(report["examples"][0]["parts"][0]["text"], "Log: owl\n");
  EXPECT_EQ(report["examples"][0]["parts"][0]["kind"], "read");
  EXPECT_EQ(report["examples"][0]["parts"][1]["text"], "All well.</s>");
  EXPECT_EQ(report["examples"][0]["parts"][1]["kind"], "learned");
  EXPECT_TRUE(report["train"]["warnings"].empty());
}

TEST_F(DataCommand, WarnsOfWhatLooksWrong) {
  std::string good = chat_row("Log: owl", "All well.");
  std::string recipe = recipe_for(
      good + good + chat_row("Log: fox", "") + "{\"messages\": [\n" +
      R"({"messages": [{"role": "assistant", "content": "Hm."}, {"role": "user", "content": "?"}]})"
      "\n");
  CommandResult result = run_snug({"data", recipe, "--json"});
  EXPECT_EQ(result.exit_code, 2) << "training would stop at the bad row";
  Json report = parse_json(result.output, "output");
  EXPECT_EQ(warning(report, "duplicates")["rows"], 1);
  EXPECT_EQ(warning(report, "empty_answers")["rows"], 1);
  EXPECT_NE(warning(report, "empty_answers")["first"].get<std::string>().find("rows.jsonl:3"),
            std::string::npos);
  EXPECT_EQ(warning(report, "bad_rows")["rows"], 1);
  EXPECT_NE(warning(report, "bad_rows")["first"].get<std::string>().find("rows.jsonl:4: not valid JSON"),
            std::string::npos);
  EXPECT_EQ(warning(report, "wrong_role_order")["rows"], 1);
  EXPECT_EQ(run_snug({"data", recipe, "--set", "data.on_bad_row=skip"}).exit_code, 0);
  CommandResult text = run_snug({"data", recipe});
  EXPECT_NE(text.output.find("training stops at them"), std::string::npos) << text.output;
}

// A terminal must not obey a file.
TEST_F(DataCommand, NothingInTheDataIsObeyed) {
  std::string recipe = recipe_for(chat_row("Log: \x1b]0;owl\x07", "All \x1b[31mwell.\nDay 2."));
  std::string output = run_snug({"data", recipe}).output;
  EXPECT_EQ(output.find('\x1b'), std::string::npos);
  EXPECT_NE(output.find("\\x1b"), std::string::npos) << output;
  EXPECT_NE(output.find("│ Day 2."), std::string::npos) << "lines stay lines: " << output;
  std::string errors = run_snug({"data", "\x1b[31mnone.yml"}).errors;
  EXPECT_EQ(errors.find('\x1b'), std::string::npos);
  EXPECT_NE(errors.find("\\x1b[31mnone.yml"), std::string::npos) << errors;
}

TEST_F(DataCommand, TrainingShowsTheSameWarnings) {
  std::string good = chat_row("Log: owl", "All well.");
  std::string recipe = recipe_for(good + good + chat_row("Log: fox", ""));
  std::istringstream lines(run_snug({"data", recipe}).output);
  std::string trained = run_snug({"train", recipe, "--set", "training.max_steps=1", "--set",
                                  "output_dir=" + (folder_.path() / "run").string()})
                            .output;
  int warnings = 0;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("  ! ")) {
      ++warnings;
      EXPECT_NE(trained.find(line), std::string::npos) << line << "\nis not in\n" << trained;
    }
  }
  EXPECT_EQ(warnings, 2) << "an empty answer and a row that comes twice";
}

TEST_F(DataCommand, SaysHowManyAreCutAndWhatWouldFit) {
  std::string rows;
  for (int i = 1; i <= 200; ++i) {  // i letters "x", a token each, then the end token
    std::string text;
    for (int k = 0; k < i; ++k) {
      text += "\nx";
    }
    rows += Json{{"text", text}}.dump() + "\n";
  }
  std::string recipe = recipe_for(rows, "  max_length: 101\n");
  Json lengths = json_output(run_snug({"data", recipe, "--json"}))["train"]["lengths"];
  EXPECT_EQ(lengths["rows"], 200);
  EXPECT_EQ(lengths["longest"], 401) << "a line end and an x each, and the end";
  EXPECT_EQ(lengths["fits_99_percent"], 2 * 198 + 1);
  EXPECT_EQ(lengths["rows_too_long"], 150) << "those of more than 50 x";
  int64_t counted = 0;
  for (const Json& bin : lengths["histogram"]) {
    counted += bin["rows"].get<int64_t>();
  }
  EXPECT_EQ(counted, 200);
  CommandResult text = run_snug({"data", recipe, "--examples", "1"});
  EXPECT_NE(text.output.find("150 rows (75.0%) are too long"), std::string::npos) << text.output;
  EXPECT_NE(text.output.find("! 150 rows are cut"), std::string::npos) << text.output;
}

TEST_F(DataCommand, AnEvaluationThatIsLeftOpenIsTheLargestThatAPlanMayChoose) {
  std::string ship_log = source_path("recipes/ship_log.yml");
  auto batch_of = [&](const std::string& size) {
    return json_output(
        run_snug({"data", ship_log, "--json", "--set", "data.cache_dir=" + folder_.path().string(), "--set",
                  "training.per_device_eval_batch_size=" + size}))["longest_eval_batch"];
  };
  EXPECT_EQ(batch_of("8")["tokens"], 492) << "of the 8 longest rows";
  EXPECT_EQ(batch_of("8")["auto"], false);
  Json open = batch_of("auto");
  EXPECT_EQ(open["auto"], true);
  EXPECT_EQ(open["tokens"], 3583) << "of all 64 rows, as the report counts them";
  CommandResult text = run_snug({"data", ship_log, "--set", "data.cache_dir=" + folder_.path().string(),
                                 "--set", "training.per_device_eval_batch_size=auto"});
  EXPECT_NE(text.output.find("to evaluate, up to 3,583 tokens at a time, if there is room"),
            std::string::npos)
      << text.output;
}

TEST_F(DataCommand, AnEndlessTemplateIsNoticed) {
  std::string recipe =
      recipe_for(chat_row("Log: owl", "All well."), "  max_length: 512\n  chat_template: alpaca\n");
  Json report = json_output(run_snug({"data", recipe, "--json"}));
  EXPECT_TRUE(warning(report, "without_end").is_null()) << "alpaca's answers end with the end token";
  write_file_atomically(folder_.path() / "open.jinja",
                        "{% for message in messages %}{{ message.content }}\n{% endfor %}");
  recipe = recipe_for(chat_row("Log: owl", "All well."), "  max_length: 512\n  chat_template: open.jinja\n");
  report = json_output(run_snug({"data", recipe, "--json"}));
  EXPECT_EQ(warning(report, "without_end")["rows"], 1);
}

TEST_F(DataCommand, PairsBesideAnUnusedTemplateAreNoticed) {
  std::string row = "{\"prompt\": \"Log: owl\", \"completion\": \"All well.\"}\n";
  Json report = json_output(run_snug({"data", recipe_for(row), "--json"}));
  EXPECT_EQ(warning(report, "template_unused")["rows"], 1);
  EXPECT_EQ(report["examples"][0]["parts"][0]["text"], "Log: owl");
  report = json_output(
      run_snug({"data", recipe_for(row, "  max_length: 512\n  chat_template: model\n"), "--json"}));
  EXPECT_TRUE(warning(report, "template_unused").is_null());
  EXPECT_EQ(report["examples"][0]["parts"][0]["text"], "Log: owl\n") << "by the model's own template";
}

TEST_F(DataCommand, ChatGeneratesFromTheTextThatWasTrained) {
  std::vector<std::string> common = {"generate", kModel, "--max-new-tokens", "8", "--json"};
  auto with = [&](const std::vector<std::string>& more) {
    std::vector<std::string> all = common;
    all.insert(all.end(), more.begin(), more.end());
    return json_output(run_snug(all))["ids"];
  };
  EXPECT_EQ(with({"--chat", "--prompt", "Log: owl, harbor"}), with({"--prompt", "Log: owl, harbor\n"}));
}

}  // namespace
}  // namespace snug
