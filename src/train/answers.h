// Answers that a run generates where it evaluates: compared with those of the data, or for people to read.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "data/questions.h"
#include "exec/executor.h"
#include "text/tokenizer/tokenizer.h"
#include "train/generator.h"

namespace snug {

struct AnswerCounts {
  int64_t answers = 0;
  int64_t exact = 0;     // white space around them aside
  bool complete = true;  // false: it was broken off
};

// Generates by the phases that the plan of a run has for it, one answer after the other.
class Answers {
 public:
  Answers(Executor& executor, const std::filesystem::path& model_folder);

  // What the model writes behind the question: `how` without its stop ids, which are the model's and those of
  // the question's answer.
  std::string write(const Question& question, SamplingOptions how);

  // Greedily. `goes_on` is asked after each answer, with how many are done and how many there are.
  AnswerCounts count_exact(const std::vector<Question>& questions, int64_t max_new_tokens,
                           const std::function<bool(int64_t done, int64_t total)>& goes_on);

 private:
  std::vector<int32_t> stop_ids_of(const Question& question) const;
  bool is_exact(const Question& question, int64_t max_new_tokens);

  Executor& executor_;
  std::unique_ptr<Tokenizer> tokenizer_;
};

}  // namespace snug
