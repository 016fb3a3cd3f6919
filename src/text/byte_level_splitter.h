// Cutting text into the words that byte-level BPE merges within: tokenizer.json's "pre_tokenizer" where it is
// ByteLevel, alone or after Split and Digits steps (GPT-2, Llama 3, Qwen2, DeepSeek).
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "io/json.h"
#include "text/regex.h"

namespace snug {

class ByteLevelSplitter {
 public:
  // Throws bad_input, naming the type, for anything that is not known here.
  static ByteLevelSplitter from_json(const Json& description, const std::string& path);

  // Visits the words in order. `at_start` is false for text that continues other text: it gets no space in
  // front even where the tokenizer adds one.
  using Visitor = std::function<void(std::string_view word)>;
  void split(std::string_view text, bool at_start, const Visitor& visit) const;

 private:
  struct Step {
    std::optional<Regex> pattern;
    bool keep_matches = true;
    bool keep_between = true;
    bool add_prefix_space = false;
  };
  static std::vector<Step> steps_from_json(const Json& description, const std::string& path);
  static Step split_step(const Json& description, const std::string& path);
  void run_step(size_t index, std::string_view text, bool at_start, const Visitor& visit) const;

  std::vector<Step> steps_;
};

}  // namespace snug
