// Matching sizes with shapes.
#include "explain/allocation.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "backend/cuda_plan/context.h"
#include "base/bytes.h"

namespace snug {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;
constexpr int64_t kNear = 512;  // tokens; more than any rounding

// Messages have two decimals of their unit.
bool shown_alike(int64_t said, int64_t bytes) {
  int64_t unit = said >= 1024 * kMiB ? 1024 * kMiB : kMiB;
  return std::abs(static_cast<double>(said - bytes)) <= 0.00501 * static_cast<double>(unit);
}

// Of "model.layers.26.mlp.up_proj.weight" 27; 0 for a name without a number.
int64_t layer_of(const std::string& name) {
  size_t begin = name.find_first_of("0123456789");
  return begin == std::string::npos || name[begin - 1] != '.' ? 0 : std::stoll(name.substr(begin)) + 1;
}

std::string last_name(const std::string& tensor) {
  std::string module = tensor.substr(0, tensor.rfind('.'));
  return module.substr(module.rfind('.') + 1);
}

}  // namespace

int64_t ModelTensor::elements() const {
  int64_t count = 1;
  for (int64_t size : shape) {
    count *= size;
  }
  return count;
}

std::vector<ModelTensor> tensors_of(const ModelSpec& spec) {
  Program forward = build_forward(
      spec, {.program_name = "tensors", .dtype = DType::f32, .max_tokens = 1, .max_sequences = 1});
  std::vector<ModelTensor> tensors;
  for (const Buffer& buffer : forward.buffers) {
    if (!is_model_parameter(buffer)) {
      continue;
    }
    for (const TensorPart& part : buffer.parts) {
      ModelTensor tensor{part.names.front(), {part.rows}};
      for (size_t i = 1; i < buffer.dims.size(); ++i) {
        tensor.shape.push_back(buffer.dims[i].max);
      }
      tensors.push_back(std::move(tensor));
    }
  }
  return tensors;
}

int64_t torch_request_bytes(int64_t tensor_bytes) {
  if (tensor_bytes <= kMiB) {
    return 2 * kMiB;
  }
  if (tensor_bytes < 10 * kMiB) {
    return 20 * kMiB;
  }
  return align_up(tensor_bytes, 2 * kMiB);
}

std::optional<LoadingStory> find_loading(const FailedAllocation& failure, const ModelSpec& spec) {
  if (!failure.wanted_bytes || *failure.wanted_bytes <= 20 * kMiB) {
    return std::nullopt;  // many tensors ask for the least that there is
  }
  std::vector<ModelTensor> tensors = tensors_of(spec);
  for (DType dtype : {DType::f32, DType::bf16}) {
    std::optional<LoadingStory> nearest;
    double distance = 0;
    std::vector<std::string> names;
    int64_t before = 0;
    for (const ModelTensor& tensor : tensors) {
      int64_t bytes = bytes_of(dtype, tensor.elements());
      if (shown_alike(*failure.wanted_bytes, torch_request_bytes(bytes))) {
        std::string name = last_name(tensor.name);
        if (std::find(names.begin(), names.end(), name) == names.end()) {
          names.push_back(name);
        }
        int64_t taken = failure.taken_bytes().value_or(0) - cuda::kTypicalContextBytes;
        double off = std::abs(static_cast<double>(taken - before));
        if (!nearest || off < distance) {
          nearest = LoadingStory{dtype, tensor.shape, {}, before, layer_of(tensor.name), spec.all_layers()};
          distance = off;
        }
      }
      before += bytes;
    }
    if (nearest) {
      nearest->names = names;
      nearest->model_bytes = before;
      return nearest;
    }
  }
  return std::nullopt;
}

std::optional<LogitsStory> find_logits(const FailedAllocation& failure, const ModelSpec& spec) {
  if (!failure.wanted_bytes || *failure.wanted_bytes < 64 * kMiB) {
    return std::nullopt;
  }
  for (DType dtype : {DType::f32, DType::bf16}) {
    int64_t row_bytes = bytes_of(dtype, spec.vocabulary);
    // The message is rounded, so several counts are possible: a batch of sequences is the roundest of them.
    LogitsStory roundest{dtype, 0};
    int64_t about = *failure.wanted_bytes / row_bytes;
    for (int64_t tokens = std::max<int64_t>(about - kNear, 1); tokens <= about + kNear; ++tokens) {
      bool rounder = roundest.tokens == 0 || (tokens & -tokens) > (roundest.tokens & -roundest.tokens);
      if (tokens % 8 == 0 && rounder &&
          shown_alike(*failure.wanted_bytes, torch_request_bytes(tokens * row_bytes))) {
        roundest.tokens = tokens;
      }
    }
    if (roundest.tokens > 0) {
      return roundest;
    }
  }
  return std::nullopt;
}

}  // namespace snug
