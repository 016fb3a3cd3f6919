// Quantising piece by piece.
#include "train/code_placer.h"

#include <algorithm>

#include "backend/quantise.h"
#include "base/bytes.h"
#include "base/check.h"
#include "base/threads.h"
#include "program/names.h"

namespace snug {
namespace {

const CodedPart& coded_part(const CodeLayout& layout, const TensorPart& part) {
  return *std::find_if(layout.parts.begin(), layout.parts.end(),
                       [&](const CodedPart& one) { return one.row_begin == part.row_begin; });
}

class CodePlacer {
 public:
  CodePlacer(Executor& executor, const Buffer& weight, const TensorPart& part)
      : backend_(executor.backend()),
        layout_(code_layout(weight)),
        part_(coded_part(layout_, part)),
        target_(executor.tensor(kLoadPhase, weight.name).as<std::byte>()),
        staging_(executor.tensor(kLoadPhase, kStaging)),
        unit_(layout_.format.block == 0 ? layout_.columns : layout_.format.block) {
    if (layout_.format.nested) {
      scales_ = executor.tensor(kLoadPhase, kScaleStaging);
    }
  }

  void place(const FillValues& fill) {
    int64_t count = part_.rows * layout_.columns;
    // One half of the staging buffer holds values, the other their codes and scales: less than two fp32 each.
    int64_t half_bytes = staging_.elements() / 2 / kCodeAlignment * kCodeAlignment;
    int64_t piece = half_bytes / (2 * size_of(DType::f32)) / unit_ * unit_;
    SNUG_CHECK(piece > 0, "the staging buffer is too small");
    auto* values = staging_.as<float>();
    auto* codes = staging_.as<std::byte>() + half_bytes;
    for (int64_t done = 0; done < count; done += piece) {
      int64_t now = std::min(piece, count - done);
      fill(done, {values, static_cast<size_t>(now)});
      place_piece(done, {values, static_cast<size_t>(now)}, codes);
    }
    place_maps();
    if (layout_.format.nested) {
      place_nested_scales();
    }
  }

 private:
  void place_piece(int64_t first, std::span<const float> values, std::byte* memory) {
    int64_t bits = code_bits(layout_.format.coding);
    int64_t code_bytes = (std::ssize(values) * bits + 7) / 8;
    auto* codes = reinterpret_cast<uint8_t*>(memory);
    auto* scales = reinterpret_cast<float*>(memory + align_up(code_bytes, kCodeAlignment));
    int64_t units = (std::ssize(values) + unit_ - 1) / unit_;
    parallel_for(units, kUnitGrain, [&](int64_t begin, int64_t end) {
      auto share = values.subspan(static_cast<size_t>(begin * unit_));
      share = share.first(std::min(share.size(), static_cast<size_t>((end - begin) * unit_)));
      if (layout_.format.coding == Coding::int8) {
        quantise_rows(unit_, share, reinterpret_cast<int8_t*>(codes) + begin * unit_, scales + begin);
      } else {
        quantise_blocks(layout_.format.coding, unit_, share, codes + begin * unit_ / 2, scales + begin);
      }
    });
    upload(part_.codes + first * bits / 8, memory, code_bytes);
    if (layout_.format.nested) {
      std::copy_n(scales, units, scales_.as<float>() + first / unit_);
    } else {
      upload(part_.scales + first / unit_ * kFloat, reinterpret_cast<std::byte*>(scales), units * kFloat);
    }
  }

  void place_maps() {
    if (map_entries(layout_.format.coding) > 0) {
      upload_floats(part_.map, map_of(levels_of(layout_.format.coding)));
    }
    if (layout_.format.nested) {
      upload_floats(part_.nested_map, dynamic_map());
    }
  }

  void place_nested_scales() {
    int64_t count = scale_count(layout_.format, part_.rows, layout_.columns);
    int64_t nested_count = nested_scale_count(count);
    int64_t nested_bytes = (nested_count + 1) * kFloat;  // and the offset behind them, as in the weight
    auto* nested = staging_.as<float>();
    auto* codes = staging_.as<std::byte>() + align_up(nested_bytes, kCodeAlignment);
    SNUG_CHECK(nested_bytes + count + 2 * kCodeAlignment <= staging_.bytes(),
               "the staging buffer is too small");
    std::span<float> scales(scales_.as<float>(), static_cast<size_t>(count));
    nested[nested_count] = nest_scales(dynamic_map(), scales, reinterpret_cast<uint8_t*>(codes), nested);
    upload(part_.scales, codes, count);
    upload(part_.nested_scales, staging_.as<std::byte>(), nested_bytes);
  }

  template <size_t kCount>
  void upload_floats(int64_t place, const std::array<float, kCount>& values) {
    std::copy(values.begin(), values.end(), staging_.as<float>());
    upload(place, staging_.as<std::byte>(), std::ssize(values) * kFloat);
  }
  // With zeros up to where the next piece of the weight may begin; what follows later overwrites them.
  void upload(int64_t place, std::byte* source, int64_t bytes) {
    int64_t padded = align_up(place + bytes, kCodeAlignment) - place;
    std::fill(source + bytes, source + padded, std::byte{0});
    backend_.upload(target_ + place, source, padded);
    backend_.synchronize();
  }

  static constexpr int64_t kUnitGrain = 64;
  static constexpr int64_t kFloat = size_of(DType::f32);

  Backend& backend_;
  CodeLayout layout_;
  CodedPart part_;
  std::byte* target_;
  Tensor staging_;
  Tensor scales_;
  int64_t unit_;  // values that share a scale
};

}  // namespace

void place_codes(Executor& executor, const Buffer& weight, const TensorPart& part, const FillValues& fill) {
  CodePlacer(executor, weight, part).place(fill);
}

}  // namespace snug
