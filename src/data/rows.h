// The rows of a data file, before they are tokenized: JSONL or plain text. Errors name file and line.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "recipe/recipe.h"

namespace snug {

struct Row {
  std::string prompt;  // given, not learned; "" in rows of text
  std::string text;    // the text, or the completion: what is learned
};

// How the rows of a file are read, decided once for the whole file.
struct RowLayout {
  bool plain_text = false;               // paragraphs between blank lines instead of one JSON object a line
  DataFormat format = DataFormat::text;  // never `automatic`
  std::string description;               // "prompt/completion rows (seen in the first row)"
};

// `format` is what the file's rows turned out to be, never `automatic`.
using RowVisitor = std::function<void(const Row& row, DataFormat format)>;

// Calls `visit` for each row of the file, in order. `wanted` may be `automatic`: then the file's name and its
// first row decide.
RowLayout read_rows(const std::filesystem::path& path, DataFormat wanted, const RowVisitor& visit);

}  // namespace snug
