// The last answer of a row, and all that stands before it.
#include "data/questions.h"

#include <algorithm>

#include "data/batches/batch.h"

namespace snug {
namespace {

// The last run of targets: `begin` of its first, and its size.
struct LastAnswer {
  size_t begin = 0;
  size_t size = 0;
};

LastAnswer last_answer(const std::vector<int32_t>& targets) {
  auto is_learned = [](int32_t target) { return target != kNoTarget; };
  auto last = std::find_if(targets.rbegin(), targets.rend(), is_learned);
  auto before = std::find_if_not(last, targets.rend(), is_learned);
  return {static_cast<size_t>(targets.rend() - before), static_cast<size_t>(before - last)};
}

}  // namespace

std::vector<Question> questions_of(const Dataset& dataset, int64_t most) {
  std::vector<Question> questions;
  for (int64_t index = 0; index < dataset.size() && std::ssize(questions) < most; ++index) {
    Batch row = make_batch(dataset, std::span(&index, 1));
    auto [begin, size] = last_answer(row.targets);
    // The token at `begin` is the one that the answer's first token is predicted from. If that is the row's
    // first, it is no question, unless an encoder has read one.
    if (size == 0 || (begin == 0 && row.source_ids.empty())) {
      continue;
    }
    auto first = static_cast<std::ptrdiff_t>(begin);
    questions.push_back({.prompt = {row.ids.begin(), row.ids.begin() + first + 1},
                         .source = row.source_ids,
                         .answer = {row.targets.begin() + first,
                                    row.targets.begin() + first + static_cast<std::ptrdiff_t>(size)}});
  }
  return questions;
}

}  // namespace snug
