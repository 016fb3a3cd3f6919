// Checks shared by the shape rules.
#include "ops/shapes.h"

#include <fmt/format.h>

#include <algorithm>

namespace snug {
namespace {

std::string text_of(const Dims& dims) {
  std::string text = "[";
  for (const Dim& dim : dims) {
    text += fmt::format("{}{}", text.size() > 1 ? "," : "", dim.max);
  }
  return text + "]";
}

const Buffer* buffer_or_null(const Program& program, const std::vector<BufferId>& ids, size_t index) {
  bool present = index < ids.size() && ids[index] != kNoBuffer;
  return present ? &program.buffer(ids[index]) : nullptr;
}

}  // namespace

const Buffer* input_of(const Program& program, const Op& op, size_t index) {
  return buffer_or_null(program, op.inputs, index);
}

const Buffer* output_of(const Program& program, const Op& op, size_t index) {
  return buffer_or_null(program, op.outputs, index);
}

std::string find_mismatch(const std::vector<Expected>& expectations) {
  for (const Expected& expected : expectations) {
    if (expected.buffer == nullptr) {
      if (!expected.optional) {
        return fmt::format("{} is missing", expected.label);
      }
    } else if (expected.buffer->dims != expected.dims) {
      return fmt::format("{} \"{}\" is {}, not {}", expected.label, expected.buffer->name,
                         text_of(expected.buffer->dims), text_of(expected.dims));
    }
  }
  return "";
}

std::string find_dtype_mismatch(const std::vector<const Buffer*>& buffers) {
  const Buffer* first = nullptr;
  for (const Buffer* buffer : buffers) {
    if (buffer == nullptr) {
      continue;
    }
    if (buffer->format.is_coded() || !is_floating(buffer->dtype())) {
      return fmt::format("\"{}\" is {}, not a floating type", buffer->name, name_of(buffer->format));
    }
    if (first != nullptr && buffer->format != first->format) {
      return fmt::format("\"{}\" is {} but \"{}\" is {}", first->name, name_of(first->format), buffer->name,
                         name_of(buffer->format));
    }
    first = buffer;
  }
  return "";
}

double touched_bytes(const Program& program, const Op& op) {
  std::vector<BufferId> ids;
  ids.reserve(op.inputs.size() + op.outputs.size());
  ids.insert(ids.end(), op.inputs.begin(), op.inputs.end());
  ids.insert(ids.end(), op.outputs.begin(), op.outputs.end());
  std::erase(ids, kNoBuffer);
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  double bytes = 0;
  for (BufferId id : ids) {
    bytes += static_cast<double>(program.buffer(id).max_bytes());
  }
  return bytes;
}

OpCost streaming_cost(const Program& program, const Op& op, double flops_per_element) {
  int64_t largest = 0;
  for (const std::vector<BufferId>* ids : {&op.inputs, &op.outputs}) {
    for (BufferId id : *ids) {
      if (id != kNoBuffer) {
        largest = std::max(largest, program.buffer(id).max_elements());
      }
    }
  }
  return {flops_per_element * static_cast<double>(largest), touched_bytes(program, op)};
}

}  // namespace snug
