// Four questions with their answers, which a small model learns by heart within some steps.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "support/run_snug.h"

namespace snug {

class FourAnswers : public testing::Test {
 protected:
  void SetUp() override {
    std::string rows;
    for (const auto& [prompt, answer] :
         {std::pair("Who has the lantern?", "The fox"), std::pair("Where is the boat?", "On the hill"),
          std::pair("What is lost?", "A red drum"), std::pair("When do we sail?", "At dusk")}) {
      rows += Json({{"prompt", prompt}, {"completion", answer}}).dump() + "\n";
    }
    write_file_atomically(path("rows.jsonl"), rows);
    write_file_atomically(path("first.jsonl"), rows.substr(0, rows.find('\n') + 1));
  }
  std::string path(const std::string& name) const { return (folder_.path() / name).string(); }

  // The embedded model on these rows, into run/.
  CommandResult train(const std::vector<std::string>& settings,
                      const std::vector<std::string>& more = {}) const {
    std::vector<std::string> all = {"train", source_path("recipes/ship_log.yml")};
    std::vector<std::string> common = {"output_dir=" + path("run"),
                                       "data.cache_dir=" + path("cache"),
                                       "data.train_file=" + path("rows.jsonl"),
                                       "data.eval_file=" + path("rows.jsonl"),
                                       "data.max_length=64",
                                       "lora.lora_dropout=0",
                                       "training.warmup_ratio=0",
                                       "training.per_device_train_batch_size=4",
                                       "training.lr_scheduler_type=constant"};
    for (const std::vector<std::string>& list : {common, settings}) {
      for (const std::string& setting : list) {
        all.insert(all.end(), {"--set", setting});
      }
    }
    all.insert(all.end(), more.begin(), more.end());
    return run_snug(all);
  }

  // Settings by which a small T5 learns them from nothing, in a hundred steps.
  std::vector<std::string> small_t5() const {
    std::filesystem::create_directory(path("t5"));
    for (const char* name : {"tokenizer.json", "tokenizer_config.json"}) {
      std::filesystem::copy_file(source_path(std::string("models/tiny-story/") + name),
                                 path(std::string("t5/") + name));
    }
    Json config = read_json(source_path("tests/goldens/references/t5_one_head/config.json"));
    config.update({{"vocab_size", 1024}, {"d_model", 32}, {"d_ff", 64}, {"dropout_rate", 0.0}});
    write_file_atomically(path("t5/config.json"), config.dump());
    return {"model.path=" + path("t5"),    "model.from_scratch=true", "model.dtype=fp32", "lora=null",
            "training.learning_rate=1e-2", "training.max_steps=100"};
  }

  TemporaryFolder folder_;
};

}  // namespace snug
