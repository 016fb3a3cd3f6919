// What snug made of the data: for people, and as JSON.
#pragma once

#include <string>
#include <vector>

#include "data/batches/limits.h"
#include "data/run_data.h"
#include "io/json.h"
#include "report/terminal.h"
#include "text/tokenizer/tokenizer.h"

namespace snug {

// A stretch of an example's text that is learned, or is not.
struct TextPart {
  enum class Kind { source, read, learned };
  Kind kind = Kind::read;
  std::string text;
};

struct RenderedExample {
  std::vector<TextPart> parts;
  int64_t tokens = 0;
  int64_t hidden_tokens = 0;  // at the end, too many to show
};

// The text of an example's tokens, up to `max_tokens` of them.
RenderedExample render_example(const Dataset& dataset, int64_t index, const Tokenizer& tokenizer,
                               int64_t max_tokens);

struct DataReport {
  const Recipe& recipe;
  const RunData& data;
  RunLimits limits;         // the longest batches; an evaluation's that the recipe leaves open is the largest
  int64_t total_steps = 0;  // of the run
  std::vector<RenderedExample> examples;
};

// A line for each thing that looks wrong; "" if nothing does.
std::string data_warning_lines(const RunData& data, const DataSection& section, const Style& style);

std::string data_report(const DataReport& report, const Style& style);
Json data_report_json(const DataReport& report);

}  // namespace snug
