// Quantising piece by piece.
#include "train/code_placer.h"

#include <algorithm>
#include <cstring>

#include "backend/quantise.h"
#include "base/check.h"
#include "base/threads.h"

namespace snug {
namespace {

const CodedPart& coded_part(const CodeLayout& layout, const TensorPart& part) {
  return *std::find_if(layout.parts.begin(), layout.parts.end(),
                       [&](const CodedPart& one) { return one.row_begin == part.row_begin; });
}

class CodePlacer {
 public:
  CodePlacer(Executor& executor, Staging& staging, const Buffer& weight, const TensorPart& part)
      : backend_(executor.backend()),
        staging_(staging),
        layout_(code_layout(weight)),
        part_(coded_part(layout_, part)),
        target_(executor.tensor(kLoadPhase, weight.name).as<std::byte>()) {
    if (layout_.format.nested) {
      scales_ = executor.tensor(kLoadPhase, kScaleStaging);
    }
  }

  void place(const FillValues& fill) {
    CodePiece piece{.format = layout_.format, .columns = layout_.columns};
    DType dtype = layout_.format.dtype;
    int64_t count = part_.rows * layout_.columns;
    int64_t most = staging_.half_bytes() / size_of(dtype) / piece.unit() * piece.unit();
    SNUG_CHECK(most > 0, "the staging buffer is too small");
    for (int64_t done = 0; done < count; done += most) {
      std::byte* half = staging_.next();
      piece.values = half;
      piece.count = std::min(most, count - done);
      piece.codes = target_ + part_.codes + done * code_bits(layout_.format.coding) / 8;
      piece.scales = scales() + done / piece.unit();
      parallel_for(piece.count, kFillGrain, [&](int64_t begin, int64_t end) {
        fill(done + begin, end - begin, half + bytes_of(dtype, begin));
      });
      staging_.send(piece);
    }
    place_rest(count);
  }

 private:
  // Of nested ones the codes are made when all of the tensor's are known.
  float* scales() const {
    return layout_.format.nested ? scales_.as<float>() : reinterpret_cast<float*>(target_ + part_.scales);
  }

  // What follows from the codes and scales: nested scales, maps, zeros up to where the next piece begins.
  void place_rest(int64_t values) {
    memory_ = staging_.whole();
    upload(part_.codes + (values * code_bits(layout_.format.coding) + 7) / 8, 0);
    if (layout_.format.nested) {
      place_nested_scales();
      upload_floats(part_.nested_map, dynamic_map());
    } else {
      upload(part_.scales + scale_count(layout_.format, part_.rows, layout_.columns) * kFloat, 0);
    }
    if (map_entries(layout_.format.coding) > 0) {
      upload_floats(part_.map, map_of(levels_of(layout_.format.coding)));
    }
  }

  void place_nested_scales() {
    int64_t count = scale_count(layout_.format, part_.rows, layout_.columns);
    int64_t nested_count = nested_scale_count(count);
    int64_t nested_bytes = (nested_count + 1) * kFloat;  // and the offset behind them, as in the weight
    int64_t codes_at = align_up(nested_bytes, kCodeAlignment);
    SNUG_CHECK(codes_at + count + 2 * kCodeAlignment <= memory_.bytes(), "the staging buffer is too small");
    auto* nested = memory_.as<float>();
    std::span<float> scales(scales_.as<float>(), static_cast<size_t>(count));
    nested[nested_count] = nest_scales(
        dynamic_map(), scales, reinterpret_cast<uint8_t*>(memory_.as<std::byte>() + codes_at), nested);
    upload(part_.scales, count, codes_at);
    upload(part_.nested_scales, nested_bytes);
  }

  template <size_t kCount>
  void upload_floats(int64_t place, const std::array<float, kCount>& values) {
    std::copy(values.begin(), values.end(), memory_.as<float>());
    upload(place, std::ssize(values) * kFloat);
  }
  // From a place of the staging buffer, with zeros up to the next multiple of kCodeAlignment of the weight.
  void upload(int64_t place, int64_t bytes, int64_t from = 0) {
    std::byte* source = memory_.as<std::byte>() + from;
    int64_t padded = align_up(place + bytes, kCodeAlignment) - place;
    std::fill(source + bytes, source + padded, std::byte{0});
    if (padded > 0) {
      backend_.upload(target_ + place, source, padded);
      backend_.synchronize();
    }
  }

  static constexpr int64_t kFillGrain = int64_t{1} << 16;
  static constexpr int64_t kFloat = size_of(DType::f32);

  Backend& backend_;
  Staging& staging_;
  CodeLayout layout_;
  CodedPart part_;
  std::byte* target_;
  Tensor scales_;
  Tensor memory_;  // the staging buffer, when nothing is on its way
};

// Bytes of a file through the staging buffer, with zeros up to where the next piece of the weight may begin.
class CodeCopier {
 public:
  CodeCopier(Staging& staging, std::byte* target) : staging_(staging), target_(target) {}

  void copy(const SourceTensor& source, int64_t place) {
    constexpr int64_t kGrain = int64_t{1} << 16;
    int64_t size = size_of(source.dtype());
    int64_t piece = staging_.half_bytes() / size;
    for (int64_t done = 0; done < source.elements(); done += piece) {
      int64_t now = std::min(piece, source.elements() - done);
      std::byte* half = staging_.next();
      parallel_for(now, kGrain, [&](int64_t begin, int64_t end) {
        source.read(done + begin, end - begin, source.dtype(), half + begin * size);
      });
      send(half, place + done * size, now * size);
    }
  }

  // Nested scales, and the offset behind them.
  void copy_with_offset(const SourceTensor& scales, float offset, int64_t place, int64_t offset_place) {
    copy(scales, place);
    std::byte* half = staging_.next();
    std::memcpy(half, &offset, sizeof offset);
    send(half, offset_place, sizeof offset);
  }

 private:
  void send(std::byte* half, int64_t place, int64_t bytes) {
    int64_t padded = align_up(place + bytes, kCodeAlignment) - place;
    std::fill(half + bytes, half + padded, std::byte{0});
    staging_.send(target_ + place, half, padded);
  }

  Staging& staging_;
  std::byte* target_;
};

}  // namespace

void copy_codes(Executor& executor, Staging& staging, const Buffer& weight, const TensorPart& part,
                const CodedTensor& tensor) {
  CodeLayout layout = code_layout(weight);
  const CodedPart& places = coded_part(layout, part);
  CodeCopier copier(staging, executor.tensor(kLoadPhase, weight.name).as<std::byte>());
  copier.copy(*tensor.codes, places.codes);
  copier.copy(*tensor.scales, places.scales);
  if (tensor.map != nullptr) {
    copier.copy(*tensor.map, places.map);
  }
  if (tensor.nested_scales != nullptr) {
    copier.copy_with_offset(*tensor.nested_scales, tensor.offset, places.nested_scales, places.offset);
    copier.copy(*tensor.nested_map, places.nested_map);
  }
}

void place_codes(Executor& executor, Staging& staging, const Buffer& weight, const TensorPart& part,
                 const FillValues& fill) {
  CodePlacer(executor, staging, weight, part).place(fill);
}

}  // namespace snug
