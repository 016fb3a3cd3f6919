// Samples: what the model writes behind the recipe's prompts at every evaluation.
#include <gtest/gtest.h>

#include <fstream>
#include <set>

#include "support/event_reader.h"
#include "support/four_answers.h"

namespace snug {
namespace {

namespace fs = std::filesystem;

class Samples : public FourAnswers {
 protected:
  CommandResult train(const std::vector<std::string>& settings,
                      const std::vector<std::string>& more = {}) const {
    std::vector<std::string> all = settings;
    all.insert(all.begin(), {"logging.logging_steps=1", "training.validation_max_new_tokens=16"});
    return FourAnswers::train(all, more);
  }
  // Rows of metrics.jsonl without what clocks say.
  std::vector<Json> rows() const {
    std::vector<Json> all;
    std::ifstream file(path("run/metrics.jsonl"));
    for (std::string line; std::getline(file, line);) {
      Json row = parse_json(line, "metrics.jsonl");
      row.erase("time");
      row.erase("tokens_per_second");
      all.push_back(row);
    }
    return all;
  }
  std::vector<Json> samples() const {
    std::vector<Json> found;
    for (const Json& row : rows()) {
      if (row.contains("sample")) {
        found.push_back(row);
      }
    }
    return found;
  }
  std::string generated(const std::string& prompt, const std::vector<std::string>& more = {}) const {
    return generated_by({source_path("models/tiny-story"), "--adapter", path("run")}, prompt, more);
  }
  static std::string generated_by(const std::vector<std::string>& model, const std::string& prompt,
                                  const std::vector<std::string>& more = {}) {
    std::vector<std::string> all = {"generate", "--prompt", prompt, "--max-new-tokens", "16", "--json"};
    all.insert(all.end(), model.begin(), model.end());
    all.insert(all.end(), more.begin(), more.end());
    return json_output(run_snug(all))["text"];
  }
};

// Answers learned by heart; and a prompt that is in no row, as snug generate answers it in the end.
TEST_F(Samples, AreWhatTheModelWrites) {
  CommandResult result = train({"training.max_steps=60", "training.eval_steps=30",
                                "training.validation_prompts=[{prompt: 'Where is the boat?', reference: On "
                                "the hill}, 'Who is lost?']"});
  ASSERT_EQ(result.exit_code, 0) << result.errors;
  std::vector<Json> found = samples();
  ASSERT_EQ(found.size(), 4U);
  for (size_t i = 0; i < found.size(); ++i) {
    EXPECT_EQ(found[i]["sample"], i % 2 + 1);
    EXPECT_EQ(found[i]["step"], i < 2 ? 30 : 60);
    EXPECT_EQ(found[i].contains("reference"), i % 2 == 0);
  }
  EXPECT_EQ(found[2]["prompt"], "Where is the boat?");
  EXPECT_EQ(found[2]["reference"], "On the hill");
  EXPECT_EQ(found[2]["text"], "On the hill");
  EXPECT_EQ(found[3]["text"], generated("Who is lost?"));
  Json summary = read_json(path("run/summary.json"));
  EXPECT_EQ(summary["planned_bytes"], summary["allocated_bytes"]);
  for (const std::string& text : {result.output, read_text_file(path("run/run.log"))}) {
    EXPECT_NE(text.find("sample 1: \"Where is the boat?\" → \"On the hill\", wished for: \"On the hill\""),
              std::string::npos)
        << text;
  }
  // Beside the scalars, for TensorBoard.
  for (const fs::directory_entry& entry : fs::directory_iterator(path("run"))) {
    if (entry.path().filename().string().starts_with("events.out.tfevents.")) {
      EventFile events = read_event_file(read_text_file(entry.path()));
      ASSERT_EQ(events.texts.size(), 2U);
      EXPECT_NE(events.texts["samples/1"][60].find("    On the hill\n"), std::string::npos);
      EXPECT_NE(events.texts["samples/2"][30].find("    Who is lost?\n"), std::string::npos);
      EXPECT_FALSE(events.scalars.contains("train/sample"));
    }
  }
}

// The encoder reads the prompt, and the decoder begins its answer.
TEST_F(Samples, OfAModelWithAnEncoder) {
  std::vector<std::string> settings = small_t5();
  settings.insert(settings.end(), {"training.eval_steps=0",
                                   "training.validation_prompts=[{prompt: 'What is lost?', "
                                   "reference: A red drum}, 'Who has the boat?']"});
  CommandResult result = train(settings);
  ASSERT_EQ(result.exit_code, 0) << result.errors;
  std::vector<Json> found = samples();
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0]["text"], "A red drum");
  EXPECT_EQ(found[0]["reference"], "A red drum");
  EXPECT_EQ(found[1]["text"], generated_by({path("run")}, "Who has the boat?"));
  Json summary = read_json(path("run/summary.json"));
  EXPECT_EQ(summary["planned_bytes"], summary["allocated_bytes"]);
}

// A run that goes on writes what the one that never stopped wrote, each once; drawn at random, too.
TEST_F(Samples, AreTheSameOverResumes) {
  std::vector<std::string> settings = {"training.max_steps=6", "training.eval_steps=2",
                                       "training.save_steps=3", "training.validation_temperature=0.9",
                                       "training.validation_prompts=['Who has', 'Where is']"};
  ASSERT_EQ(train(settings).exit_code, 0);
  std::vector<Json> whole = rows();
  ASSERT_EQ(samples().size(), 6U);
  ASSERT_EQ(train(settings, {"--resume=" + path("run/checkpoint-3")}).exit_code, 0);
  EXPECT_EQ(rows(), whole);
  std::set<std::string> texts;
  for (const Json& sample : samples()) {
    texts.insert(sample["text"].get<std::string>());
  }
  EXPECT_GT(texts.size(), 2U) << "no two draw the same";
}

// A conversation, and a prompt, which becomes one where the data does.
TEST_F(Samples, AreAskedAsTheDataIs) {
  write_file_atomically(path("prompts.jsonl"),
                        Json({{"messages", Json::array({{{"role", "user"}, {"content", "When do we sail?"}},
                                                        {{"role", "assistant"}, {"content", "At dusk"}}})}})
                                .dump() +
                            "\n" + Json({{"prompt", "When do we sail?"}, {"completion", "At dusk"}}).dump() +
                            "\n");
  ASSERT_EQ(train({"training.max_steps=40", "data.chat_template=chatml",
                   "training.validation_prompts=" + path("prompts.jsonl")})
                .exit_code,
            0);
  std::vector<Json> found = samples();
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0]["prompt"], "user: When do we sail?");
  EXPECT_EQ(found[0]["reference"], "At dusk");
  EXPECT_EQ(found[0]["text"], found[1]["text"]);
  EXPECT_EQ(found[1]["reference"], "At dusk");
  std::string alone = generated("When do we sail?", {"--chat", "--chat-template", "chatml"});
  EXPECT_TRUE(alone.starts_with(found[0]["text"].get<std::string>()))
      << alone;  // it may know no end of a turn
  EXPECT_NE(found[0]["text"], "");
}

TEST_F(Samples, ThatCannotBeAskedAreNamedBeforeTheRun) {
  std::string words;
  for (int i = 0; i < 64; ++i) {
    words += "fox ";
  }
  CommandResult result = train({"training.validation_prompts=[a, '" + words + "']"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_NE(result.errors.find("training.validation_prompts[1]: \"fox fox"), std::string::npos)
      << result.errors;
  EXPECT_NE(result.errors.find("data.max_length is 64"), std::string::npos) << result.errors;
  write_file_atomically(path("prompts.jsonl"), "{\"prompt\": \"a\"}\n{\"question\": \"b\"}\n");
  result = train({"training.validation_prompts=" + path("prompts.jsonl")});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_NE(result.errors.find("prompts.jsonl:2"), std::string::npos) << result.errors;
  result = train({"data.chat_template=none",
                  "training.validation_prompts=[{messages: [{role: user, content: hello}]}]"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_NE(result.errors.find("chat template"), std::string::npos) << result.errors;
}

}  // namespace
}  // namespace snug
