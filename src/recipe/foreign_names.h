// What other tools call things. Their names are not accepted, but whoever writes one is told ours.
#pragma once

#include <span>
#include <string_view>

namespace snug {

struct ForeignNames {
  std::string_view names;   // as transformers, PEFT, TRL, accelerate, DeepSpeed, axolotl, LLaMA-Factory or
                            // Unsloth spell them, with blanks between
  std::string_view advice;  // completes "unknown key "name"; ..."
};

std::span<const ForeignNames> foreign_names();

// What to write for a value that other tools give training.optim; "" for one that nobody knows.
std::string_view foreign_optimizer_advice(std::string_view name);

// "" for a name that is nobody's.
std::string_view foreign_advice(std::string_view name);

}  // namespace snug
