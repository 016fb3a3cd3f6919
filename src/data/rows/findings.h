// What is likely a mistake in a row that can be used all the same.
#pragma once

#include "data/rows/row.h"
#include "data/tokens/example.h"
#include "text/tokenizer/tokenizer.h"

namespace snug {

struct RowFindings {
  bool empty_answer = false;
  bool wrong_role_order = false;  // two turns of a role in a row, or an answer before any question
  bool without_end = false;       // nothing tells the model that its answer is over
  bool unknown_role = false;      // one that chat templates do not know
  bool unfound_answer = false;  // one that is not learned, as the chat template changed it beyond recognition
  bool unknown_text = false;    // much of it is nothing that the vocabulary can write
};

RowFindings inspect_row(const DataRow& row, const Example& example, const Tokenizer& tokenizer);

}  // namespace snug
