// Whose counts a log shows: LoRA on which model, on which layers, at which rank.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "explain/log.h"

namespace snug {

struct CountedRun {
  std::string model;                 // the first id of the catalogue that has this shape
  std::vector<std::string> targets;  // as lora.target_modules
  int64_t r = 0;
  int64_t trainable = 0;
  int64_t parameters = 0;  // of the model without adapters

  double percent() const {
    return 100.0 * static_cast<double>(trainable) / static_cast<double>(parameters + trainable);
  }
  std::string layers() const;  // "all linear layers", "q_proj and v_proj"
};

// The runs of models of the catalogue that train exactly so many parameters, at ranks that are equally
// likely; where the log says how many there are in all, or the share, only those that agree.
std::vector<CountedRun> runs_with_counts(const TrainableCount& count);

// The same settings on another model of the catalogue.
CountedRun count_run(const std::string& model, const std::vector<std::string>& targets, int64_t r);

// Of two ids of one series the one of another size: "Qwen/Qwen2.5-3B" and "7B" give "Qwen/Qwen2.5-7B"; "" if
// there is none.
std::string sibling_of_size(const std::string& model, const std::string& size);

}  // namespace snug
