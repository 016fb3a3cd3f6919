// Answers that a run generates where it evaluates, compared with those of the data.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>

#include "data/questions.h"
#include "exec/executor.h"
#include "text/tokenizer/tokenizer.h"

namespace snug {

struct AnswerCounts {
  int64_t answers = 0;
  int64_t exact = 0;     // white space around them aside
  bool complete = true;  // false: it was broken off
};

// Generates by the phases that the plan of a run has for it, greedily and one answer after the other.
class Answers {
 public:
  Answers(Executor& executor, const std::filesystem::path& model_folder, int64_t max_new_tokens);

  // `goes_on` is asked after each answer, with how many are done and how many there are.
  AnswerCounts count_exact(const std::vector<Question>& questions,
                           const std::function<bool(int64_t done, int64_t total)>& goes_on);

 private:
  bool is_exact(const Question& question);

  Executor& executor_;
  std::unique_ptr<Tokenizer> tokenizer_;
  int64_t max_new_tokens_;
};

}  // namespace snug
