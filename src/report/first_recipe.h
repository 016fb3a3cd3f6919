// A first recipe as text, with comments that say what was chosen and why.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace snug {

enum class Method { lora, qlora, full };

struct FirstRecipe {
  std::string model;  // as the recipe is to write them
  std::string data;
  std::string output_dir;
  Method method = Method::lora;
  std::string dtype = "auto";
  int64_t max_length = 2048;
  std::string length_reason;  // why so many
  bool has_evaluation = false;
  std::string card;                    // "": this machine
  std::optional<int64_t> limit_bytes;  // of the card
};

// `fitting` says how it is fitted, a line each; they become comments.
std::string first_recipe_text(const FirstRecipe& recipe, const std::string& fitting);

}  // namespace snug
