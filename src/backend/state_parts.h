// The tensors within a pair of moments in 8 bits: each has blocks of its own, or fp32 values where it is
// small.
#pragma once

#include <cstdint>
#include <span>

#include "backend/backend.h"
#include "program/code_layout.h"

namespace snug {

struct MomentPart {
  void* values = nullptr;   // codes, or fp32 values
  float* scales = nullptr;  // of codes
};

struct StatePart {
  int64_t first_element = 0;  // within the parameter
  int64_t elements = 0;
  bool plain = false;  // fp32 values
  MomentPart first;
  MomentPart second;
};

// Calls body(StatePart) for each tensor of a parameter, whose moments `first` and `second` are codes.
template <typename Body>
void for_each_state_part(const Tensor& first, const Tensor& second, const Body& body) {
  CodeLayout layout = code_layout(*first.coded);
  auto moment = [](const Tensor& tensor, const CodedPart& part) {
    auto* base = tensor.as<std::byte>();
    return MomentPart{base + part.codes, reinterpret_cast<float*>(base + part.scales)};
  };
  for (const CodedPart& part : std::span(layout.parts).first(static_cast<size_t>(layout.part_count))) {
    body(StatePart{.first_element = part.row_begin * layout.columns,
                   .elements = part.rows * layout.columns,
                   .plain = part.plain,
                   .first = moment(first, part),
                   .second = moment(second, part)});
  }
}

}  // namespace snug
