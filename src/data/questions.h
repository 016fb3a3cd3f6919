// Rows as questions with an answer: what a model is asked where an evaluation generates text.
#pragma once

#include <cstdint>
#include <vector>

#include "data/dataset.h"

namespace snug {

struct Question {
  std::vector<int32_t> prompt;  // all that the decoder reads before the answer
  std::vector<int32_t> source;  // and what an encoder reads before that, if there is one
  std::vector<int32_t> answer;  // what is learned last in the row
};

// Of the first `most` examples that are one, in the order of the data. Where all of a row is learned (plain
// text, or the rest of a row that was split) nothing asks for it.
std::vector<Question> questions_of(const Dataset& dataset, int64_t most);

}  // namespace snug
