// Values to codes where host and device are one memory.
#include <algorithm>
#include <array>

#include "backend/backend.h"
#include "backend/quantise.h"
#include "base/threads.h"

namespace snug {
namespace {

// fp32 values of a piece, so many at a time.
class WideValues {
 public:
  static constexpr int64_t kMost = 4096;

  explicit WideValues(const CodePiece& piece) : piece_(piece) {}
  std::span<const float> at(int64_t first, int64_t count) {
    DType dtype = piece_.format.dtype;
    convert(dtype, static_cast<const std::byte*>(piece_.values) + bytes_of(dtype, first), DType::f32,
            values_.data(), count);
    return {values_.data(), static_cast<size_t>(count)};
  }

 private:
  const CodePiece& piece_;
  std::array<float, kMost> values_;
};

void quantise_blocks_of(const CodePiece& piece, int64_t begin, int64_t end) {
  WideValues wide(piece);
  int64_t most = WideValues::kMost / piece.unit() * piece.unit();
  for (int64_t i = begin; i < end; i += most) {
    int64_t now = std::min(most, end - i);
    quantise_blocks(piece.format.coding, piece.unit(), wide.at(i, now),
                    reinterpret_cast<uint8_t*>(piece.codes) + i / 2, piece.scales + i / piece.unit());
  }
}

void quantise_row_of(const CodePiece& piece, int64_t row) {
  WideValues wide(piece);
  int64_t begin = row * piece.columns;
  int64_t end = begin + piece.columns;
  Coding coding = piece.format.coding;
  float largest = 0;
  for (int64_t i = begin; i < end; i += WideValues::kMost) {
    auto values = wide.at(i, std::min(WideValues::kMost, end - i));
    largest = std::max(largest, largest_of_row_piece(coding, values));
  }
  float scale = scale_of_row(coding, largest);
  piece.scales[row] = scale;
  for (int64_t i = begin; i < end; i += WideValues::kMost) {
    quantise_row_piece(coding, wide.at(i, std::min(WideValues::kMost, end - i)), scale,
                       reinterpret_cast<uint8_t*>(piece.codes) + i);
  }
}

}  // namespace

void Backend::quantise(const CodePiece& piece) {
  constexpr int64_t kGrain = 64;
  arenas_.announce(piece.codes, piece.code_bytes());
  arenas_.announce(piece.scales, piece.units() * size_of(DType::f32));
  if (piece.format.block == 0) {
    parallel_for(piece.units(), 1, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        quantise_row_of(piece, row);
      }
    });
    return;
  }
  parallel_for(piece.units(), kGrain, [&](int64_t begin, int64_t end) {
    quantise_blocks_of(piece, begin * piece.unit(), std::min(end * piece.unit(), piece.count));
  });
}

}  // namespace snug
