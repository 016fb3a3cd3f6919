// Laying the pieces of coded weights one behind the other.
#include "program/code_layout.h"

#include <span>

#include "base/bytes.h"
#include "base/check.h"

namespace snug {
namespace {

// Hands out the places of pieces.
class Places {
 public:
  int64_t take(int64_t bytes) {
    int64_t place = end_;
    end_ += align_up(bytes, kCodeAlignment);
    return place;
  }
  int64_t end() const { return end_; }

 private:
  int64_t end_ = 0;
};

constexpr int64_t kFloat = size_of(DType::f32);

int64_t elements_bytes(const Format& format, bool plain, int64_t elements) {
  return plain ? elements * kFloat : (elements * code_bits(format.coding) + 7) / 8;
}

}  // namespace

CodeLayout code_layout(const Buffer& buffer) {
  SNUG_CHECK(buffer.format.is_coded() && buffer.dims.size() <= 2, buffer.name + " holds no codes");
  SNUG_CHECK(buffer.parts.size() <= kMaxCodedParts, buffer.name + " has too many parts");
  const Format& format = buffer.format;
  CodeLayout layout;
  layout.format = format;
  layout.columns = buffer.dims.size() == 2 ? buffer.dims[1].max : 1;
  for (const TensorPart& part : buffer.parts) {
    layout.parts[static_cast<size_t>(layout.part_count++)] = {.row_begin = part.row_begin, .rows = part.rows};
  }
  if (buffer.parts.empty()) {
    layout.part_count = 1;
    layout.parts[0].rows = buffer.dims[0].max;
  }
  auto used = std::span(layout.parts).first(static_cast<size_t>(layout.part_count));
  Places places;
  for (CodedPart& part : used) {
    int64_t elements = part.rows * layout.columns;
    part.plain = is_dynamic(format.coding) && elements < kSmallestDynamicTensor;
    part.codes = places.take(elements_bytes(format, part.plain, elements));
  }
  layout.code_bytes = places.end();
  for (CodedPart& part : used) {
    int64_t count = part.plain ? 0 : scale_count(format, part.rows, layout.columns);
    part.scales = places.take(format.nested ? count : count * kFloat);
  }
  for (CodedPart& part : used) {
    if (format.nested) {
      int64_t count = nested_scale_count(scale_count(format, part.rows, layout.columns));
      part.nested_scales = places.take((count + 1) * kFloat);
      part.offset = part.nested_scales + count * kFloat;
    }
  }
  layout.scale_bytes = places.end() - layout.code_bytes;
  for (CodedPart& part : used) {
    part.map = places.take(map_entries(format.coding) * kFloat);
    part.nested_map = format.nested ? places.take(kNestedMapEntries * kFloat) : 0;
  }
  layout.map_bytes = places.end() - layout.code_bytes - layout.scale_bytes;
  return layout;
}

}  // namespace snug
