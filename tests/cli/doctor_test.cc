// snug doctor, on a machine without a card.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>

#include "support/run_snug.h"

namespace snug {
namespace {

CommandResult doctor(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {"doctor", "--device", "cpu", "--json"});
  return run_snug(arguments);
}

// By subject, the worst that is said of it.
std::map<std::string, std::string> statuses(const Json& report) {
  std::map<std::string, std::string> found;
  for (const Json& check : report["checks"]) {
    std::string& status = found[check["subject"]];
    std::string now = check["status"];
    status = status == "problem" || now == "ok" ? (status.empty() ? now : status) : now;
  }
  return found;
}

TEST(Doctor, TheDemoIsWell) {
  TemporaryFolder folder;
  std::string output = (folder.path() / "run").string();
  CommandResult result = doctor({source_path("recipes/ship_log.yml"), "--set", "output_dir=" + output});
  EXPECT_EQ(result.exit_code, 0) << result.output;
  Json report = json_output(result);
  EXPECT_EQ(report["problems"], 0);
  std::map<std::string, std::string> found = statuses(report);
  for (const char* subject :
       {"memory", "limits", "recipe", "model", "plan", "weights", "data", "output", "step"}) {
    EXPECT_EQ(found[subject], "ok") << subject;
  }
  for (const Json& check : report["checks"]) {
    if (check["subject"] == "data" &&
        check["text"].get<std::string>().find("ship_log_train") != std::string::npos) {
      EXPECT_NE(check["text"].get<std::string>().find("chat_template.jinja; 100 examples"), std::string::npos)
          << check;
    }
    if (check["subject"] == "step") {
      EXPECT_EQ(check["text"].get<std::string>().rfind("one of 1,536 tokens ran on cpu", 0), 0U) << check;
    }
  }
  EXPECT_FALSE(std::filesystem::exists(output)) << "nothing is written";
}

TEST(Doctor, EachProblemHasItsExitCode) {
  std::string recipe = source_path("recipes/ship_log.yml");
  EXPECT_EQ(doctor({}).exit_code, 0);
  CommandResult misfit = doctor({recipe, "--memory", "1MB"});
  EXPECT_EQ(misfit.exit_code, 3);
  EXPECT_EQ(statuses(json_output(misfit))["plan"], "problem");
  CommandResult no_data = doctor({recipe, "--set", "data.train_file=no-such.jsonl"});
  EXPECT_EQ(no_data.exit_code, 2);
  EXPECT_EQ(statuses(json_output(no_data))["data"], "problem");
  CommandResult no_model = doctor({recipe, "--set", "model.path=no-such-model"});
  EXPECT_EQ(no_model.exit_code, 2);
  EXPECT_EQ(statuses(json_output(no_model))["data"], "ok");
  CommandResult no_recipe = doctor({"no-such.yml"});
  EXPECT_EQ(no_recipe.exit_code, 2);
  EXPECT_EQ(statuses(json_output(no_recipe))["recipe"], "problem");
}

// All of it at once: nobody wants to learn of the data when the model has been downloaded.
TEST(Doctor, LooksAtTheRestWhereTheModelIsNotThere) {
  std::map<std::string, std::string> found = statuses(
      json_output(doctor({source_path("recipes/ship_log.yml"), "--memory", "4GB", "--set",
                          "model.path=Qwen/Qwen2.5-7B-Instruct", "--set", "data.train_file=no-such.jsonl"})));
  for (const char* subject : {"model", "plan", "data"}) {
    EXPECT_EQ(found[subject], "problem") << subject;
  }
  EXPECT_TRUE(found.contains("output"));
}

// A template that refuses the rows is found before the run is.
TEST(Doctor, ATemplateThatDoesNotWork) {
  TemporaryFolder folder;
  std::string path = (folder.path() / "bad.jinja").string();
  write_file_atomically(path, "{{ raise_exception('only one turn') }}");
  CommandResult result = doctor({source_path("recipes/ship_log.yml"), "--set", "data.chat_template=" + path});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_NE(result.output.find("only one turn"), std::string::npos) << result.output;
}

TEST(Doctor, WeightsThatAreDamaged) {
  TemporaryFolder folder;
  std::filesystem::path model = folder.path() / "model";
  std::filesystem::copy(source_path("models/tiny-story"), model);
  std::filesystem::path weights = model / "model.safetensors";
  std::vector<std::string> arguments = {source_path("recipes/ship_log.yml"), "--set",
                                        "model.path=" + model.string()};
  {
    std::fstream file(weights, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(-2, std::ios::end);
    file.write("\xff\xff", 2);  // no number, in bf16
  }
  CommandResult result = doctor(arguments);
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_EQ(statuses(json_output(result))["weights"], "problem") << result.output;
  std::filesystem::resize_file(weights, std::filesystem::file_size(weights) / 2);
  result = doctor(arguments);
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_NE(result.output.find("model.safetensors"), std::string::npos) << result.output;
}

TEST(Doctor, AllStages) {
  Json report = json_output(doctor({source_path("recipes/three_stages.yml")}));
  std::map<std::string, std::string> found = statuses(report);
  for (const char* subject : {"data of log", "data of bill", "data of letter", "plan of letter"}) {
    EXPECT_EQ(found[subject], "ok") << subject << report.dump(2);
  }
}

}  // namespace
}  // namespace snug
