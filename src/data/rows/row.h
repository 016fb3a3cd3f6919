// A row of data as training sees it, whatever file and columns it came from.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "io/json.h"

namespace snug {

// Where a row stands, for messages and for reading it again.
struct RowPlace {
  int64_t line = 0;         // of its first byte, from 1
  int64_t row = 0;          // in its file, from 0; rows that cannot be used count too
  int64_t byte_offset = 0;  // in the file, decompressed
};

enum class RowKind : uint8_t { text, pair, conversation };

struct DataRow {
  RowKind kind = RowKind::text;
  RowPlace place;
  std::string text;        // a text row's
  std::string system;      // a pair's, "" if it has none
  std::string prompt;      // a pair's: given
  std::string completion;  // a pair's: learned
  Json messages;           // a conversation's: a list of {"role", "content", ...}
  Json tools;              // a conversation's, null if it has none

  // A pair as a conversation of system, user and assistant; a conversation's own messages.
  Json as_messages() const;
};

// A row that cannot be used, and why.
struct BadRow {
  RowPlace place;
  std::string reason;
};

}  // namespace snug
