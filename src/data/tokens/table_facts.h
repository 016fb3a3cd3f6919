// What was seen while rows were tokenized: for reports, warnings, and the reader of the tokens.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "io/json.h"

namespace snug {

// Something that rows may have wrong without being unusable: how often, and where first.
struct Finding {
  int64_t count = 0;
  std::string first;  // "data/train.jsonl:17"

  void add(const std::string& place) {
    if (count++ == 0) {
      first = place;
    }
  }
};

inline constexpr size_t kShownBadRows = 10;

struct TableFacts {
  std::string encoding;          // the way in which rows became tokens, see encoding_version.h
  std::string files;             // "train.jsonl", or "train.jsonl and 3 more files"
  std::string format;            // what a row holds, and why snug thinks so
  std::string chat_template;     // "" for none
  bool template_unused = false;  // plain pairs, though the model brings a chat template
  int64_t rows = 0;              // read, whatever became of them
  int64_t vocabulary = 0;        // all ids are below
  int32_t decoder_start_id = 0;
  int32_t end_id = -1;            // what sources and answers of an encoder's model end with; -1 for nothing
  int64_t bad_rows = 0;           // that could not be used
  std::vector<std::string> bad;   // the first of them: place and reason
  Finding nothing_learned = {};   // left out: nothing to learn in them
  Finding empty_answers = {};     // an answer without text
  Finding wrong_role_order = {};  // two turns of the same role, or an answer before any question
  Finding without_end = {};       // the last answer does not end with a token that ends it
  Finding unknown_roles = {};     // that chat templates do not know
  Finding unfound_answers = {};   // not learned: the chat template changed them beyond recognition
  Finding unknown_text = {};      // much of the row is nothing that the vocabulary can write
  Finding duplicates = {};        // the same tokens as a row before

  Json to_json() const;
  // Throws bad_input, naming `path`, for anything but what to_json() writes.
  static TableFacts from_json(const Json& json, const std::string& path);
};

}  // namespace snug
