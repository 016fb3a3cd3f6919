// Writing answers, and exact match.
#include "train/answers.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "program/names.h"

namespace snug {
namespace {

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kSpace = " \t\n\v\f\r";
  size_t begin = text.find_first_not_of(kSpace);
  return begin == std::string_view::npos ? "" : text.substr(begin, text.find_last_not_of(kSpace) - begin + 1);
}

}  // namespace

Answers::Answers(Executor& executor, const std::filesystem::path& model_folder)
    : executor_(executor), tokenizer_(load_tokenizer(model_folder)) {}

// Those of the model, and the special token that ends this answer in the data (a chat template may close a
// turn with one that the model's files do not name).
std::vector<int32_t> Answers::stop_ids_of(const Question& question) const {
  std::vector<int32_t> ids = tokenizer_->stop_ids();
  auto special = std::find_if(question.answer.rbegin(), question.answer.rend(),
                              [&](int32_t id) { return tokenizer_->is_special(id); });
  if (special != question.answer.rend()) {
    std::vector<int32_t> behind(special.base(), question.answer.end());
    if (trimmed(tokenizer_->decode(behind, true)).empty()) {
      ids.push_back(*special);
    }
  }
  return ids;
}

std::string Answers::write(const Question& question, SamplingOptions how) {
  // The model's positions may end before the answer does. The last token of one is read by nobody.
  const Program& program = executor_.plan().phase(kGeneratePhase).program;
  int64_t room = planned_extents(program)[static_cast<size_t>(Extent::cached_tokens)] -
                 static_cast<int64_t>(question.prompt.size());
  how.max_new_tokens = std::min(how.max_new_tokens, room + 1);
  how.stop_ids = stop_ids_of(question);
  how.ends_if_not_finite = true;
  return tokenizer_->decode(generate(executor_, {question.prompt, question.source}, how), true);
}

bool Answers::is_exact(const Question& question, int64_t max_new_tokens) {
  std::vector<int32_t> stop_ids = stop_ids_of(question);
  auto end =
      std::find_first_of(question.answer.begin(), question.answer.end(), stop_ids.begin(), stop_ids.end());
  std::vector<int32_t> expected(question.answer.begin(), end);
  return trimmed(write(question, {.max_new_tokens = max_new_tokens, .stop_ids = {}})) ==
         trimmed(tokenizer_->decode(expected, true));
}

AnswerCounts Answers::count_exact(const std::vector<Question>& questions, int64_t max_new_tokens,
                                  const std::function<bool(int64_t done, int64_t total)>& goes_on) {
  AnswerCounts counts;
  for (const Question& question : questions) {
    counts.exact += is_exact(question, max_new_tokens) ? 1 : 0;
    ++counts.answers;
    if (goes_on && !goes_on(counts.answers, std::ssize(questions))) {
      counts.complete = false;
      break;
    }
  }
  return counts;
}

}  // namespace snug
