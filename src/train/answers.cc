// Exact match.
#include "train/answers.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "program/names.h"
#include "train/generator.h"

namespace snug {
namespace {

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kSpace = " \t\n\v\f\r";
  size_t begin = text.find_first_not_of(kSpace);
  return begin == std::string_view::npos ? "" : text.substr(begin, text.find_last_not_of(kSpace) - begin + 1);
}

// Those of the model, and the special token that ends this answer in the data (a chat template may close a
// turn with one that the model's files do not name).
std::vector<int32_t> stop_ids_of(const Question& question, const Tokenizer& tokenizer) {
  std::vector<int32_t> ids = tokenizer.stop_ids();
  auto special = std::find_if(question.answer.rbegin(), question.answer.rend(),
                              [&](int32_t id) { return tokenizer.is_special(id); });
  if (special != question.answer.rend()) {
    std::vector<int32_t> behind(special.base(), question.answer.end());
    if (trimmed(tokenizer.decode(behind, true)).empty()) {
      ids.push_back(*special);
    }
  }
  return ids;
}

}  // namespace

Answers::Answers(Executor& executor, const std::filesystem::path& model_folder, int64_t max_new_tokens)
    : executor_(executor), tokenizer_(load_tokenizer(model_folder)), max_new_tokens_(max_new_tokens) {}

bool Answers::is_exact(const Question& question) {
  std::vector<int32_t> stop_ids = stop_ids_of(question, *tokenizer_);
  auto end =
      std::find_first_of(question.answer.begin(), question.answer.end(), stop_ids.begin(), stop_ids.end());
  std::vector<int32_t> expected(question.answer.begin(), end);
  // The model's positions may end before the answer does. The last token of one is read by nobody.
  const Program& program = executor_.plan().phase(kGeneratePhase).program;
  int64_t room = planned_extents(program)[static_cast<size_t>(Extent::cached_tokens)] -
                 static_cast<int64_t>(question.prompt.size());
  SamplingOptions options{.max_new_tokens = std::min(max_new_tokens_, room + 1),
                          .stop_ids = std::move(stop_ids),
                          .ends_if_not_finite = true};
  std::vector<int32_t> made = generate(executor_, {question.prompt, question.source}, options);
  return trimmed(tokenizer_->decode(made, true)) == trimmed(tokenizer_->decode(expected, true));
}

AnswerCounts Answers::count_exact(const std::vector<Question>& questions,
                                  const std::function<bool(int64_t done, int64_t total)>& goes_on) {
  AnswerCounts counts;
  for (const Question& question : questions) {
    counts.exact += is_exact(question) ? 1 : 0;
    ++counts.answers;
    if (goes_on && !goes_on(counts.answers, std::ssize(questions))) {
      counts.complete = false;
      break;
    }
  }
  return counts;
}

}  // namespace snug
