// What one micro-batch feeds to the program: sequences laid end to end, without padding.
#include "data/batches/batch.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"

namespace snug {
namespace {

// Ids come from a file, and the device trusts them.
int32_t checked_id(TokenWord word, const TableFacts& facts) {
  if (word.id() >= facts.vocabulary) {
    throw environment_error(fmt::format(
        "the tokens of {} are damaged: token {} in a vocabulary of {}. Remove the token cache beside "
        "the data (the folder .snug), and start again.",
        facts.files, word.id(), facts.vocabulary));
  }
  return word.id();
}

void append_source(Batch& batch, const ExampleView& example) {
  for (TokenWord word : example.source) {
    batch.source_ids.push_back(checked_id(word, example.facts));
  }
  if (example.source_ends_early) {
    batch.source_ids.back() = example.facts.end_id;
  }
  batch.source_offsets.push_back(static_cast<int32_t>(batch.source_ids.size()));
}

// The decoder reads its answer shifted right, behind its start token.
void append_answer(Batch& batch, const ExampleView& example) {
  int32_t previous = example.facts.decoder_start_id;
  for (size_t i = 0; i < example.tokens.size(); ++i) {
    bool is_end = example.tokens_end_early && i + 1 == example.tokens.size();
    int32_t id = is_end ? example.facts.end_id : checked_id(example.tokens[i], example.facts);
    batch.ids.push_back(previous);
    batch.targets.push_back(id);
    previous = id;
  }
}

// Each token is the target of the one before it, where it is learned.
void append_sequence(Batch& batch, const ExampleView& example) {
  for (size_t i = 0; i < example.tokens.size(); ++i) {
    TokenWord next = i + 1 < example.tokens.size() ? example.tokens[i + 1] : TokenWord();
    batch.ids.push_back(checked_id(example.tokens[i], example.facts));
    batch.targets.push_back(next.is_learned() ? next.id() : kNoTarget);
  }
}

}  // namespace

Batch make_batch(const Dataset& dataset, std::span<const int64_t> examples) {
  Batch batch;
  batch.offsets.push_back(0);
  if (dataset.has_sources()) {
    batch.source_offsets.push_back(0);
  }
  for (int64_t index : examples) {
    ExampleView example = dataset.example(index);
    if (dataset.has_sources()) {
      append_source(batch, example);
      append_answer(batch, example);
    } else {
      append_sequence(batch, example);
    }
    for (size_t i = 0; i < example.tokens.size(); ++i) {
      batch.positions.push_back(static_cast<int32_t>(i));
    }
    batch.offsets.push_back(static_cast<int32_t>(batch.ids.size()));
  }
  batch.target_count = batch.tokens() - std::count(batch.targets.begin(), batch.targets.end(), kNoTarget);
  return batch;
}

}  // namespace snug
