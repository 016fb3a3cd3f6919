// What a model is: shapes, exact counts, and what LoRA would train.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "io/json.h"
#include "model/model_spec.h"
#include "report/terminal.h"

namespace snug {

struct Inspection {
  ModelSpec spec;
  int64_t parameters = 0;
  int64_t rank = 0;
  int64_t lora_parameters = 0;  // of adapters on all linear layers at this rank
  // What the weights take by the names of model.quantization; what stays 16-bit is in bf16 or fp16.
  std::vector<std::pair<std::string, int64_t>> coded_bytes = {};
};

Inspection inspect(const ModelSpec& spec, int64_t rank);
Json inspection_json(const Inspection& inspection);
std::string inspection_text(const Inspection& inspection, const Style& style);

}  // namespace snug
