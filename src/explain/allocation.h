// What a failed allocation was for: a tensor of the model, the logits, or the scores of attention.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "explain/log.h"
#include "model/model_spec.h"

namespace snug {

// A tensor of the model's files.
struct ModelTensor {
  std::string name;
  std::vector<int64_t> shape;

  int64_t elements() const;
};

// In the order of the layers, which is that of loading.
std::vector<ModelTensor> tensors_of(const ModelSpec& spec);

// What PyTorch asks the driver for when a tensor of so many bytes does not fit into what it has: that is what
// its message says, and not the tensor's own size.
int64_t torch_request_bytes(int64_t tensor_bytes);

// The weights that were being loaded when memory ran out.
struct LoadingStory {
  DType dtype = DType::f32;             // that they were being loaded in
  std::vector<int64_t> shape = {};      // of the tensor that failed
  std::vector<std::string> names = {};  // last names of those of its shape
  int64_t bytes_before = 0;             // of the tensors before it
  int64_t layer = 0;                    // it was in, from 1; 0: outside the layers
  int64_t layers = 0;
  int64_t model_bytes = 0;  // of all weights in this dtype
};

// Nothing if no tensor of the model has the size in fp32 or 16 bits. Which of several it was follows from
// what was taken already, less the driver's context.
std::optional<LoadingStory> find_loading(const FailedAllocation& failure, const ModelSpec& spec);

// Logits of so many tokens, if the size is a whole number of them.
struct LogitsStory {
  DType dtype = DType::f32;
  int64_t tokens = 0;
};
std::optional<LogitsStory> find_logits(const FailedAllocation& failure, const ModelSpec& spec);

}  // namespace snug
