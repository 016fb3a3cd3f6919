// What other tools call things. Their names are not accepted, but whoever writes one is told ours.
#pragma once

#include <span>
#include <string_view>

namespace snug {

struct ForeignName {
  std::string_view name;    // as Hugging Face, PEFT, axolotl or LLaMA-Factory spell it
  std::string_view advice;  // completes "unknown key "name"; ..."
};

std::span<const ForeignName> foreign_names();

}  // namespace snug
