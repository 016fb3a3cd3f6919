// From codes to values, piece by piece (base/code_formula.h).
#include "io/joined_tensor.h"

#include <algorithm>
#include <array>

#include "base/code_formula.h"

namespace snug {
namespace {

constexpr int64_t kPiece = 4096;  // elements that are dequantised at once

std::vector<float> floats_of(const SourceTensor* tensor) {
  std::vector<float> values;
  if (tensor != nullptr) {
    values.resize(static_cast<size_t>(tensor->elements()));
    tensor->read(0, tensor->elements(), DType::f32, values.data());
  }
  return values;
}

int64_t stored_bytes_of(const JoinedTensor::Pieces& pieces) {
  int64_t bytes = 0;
  for (const SourceTensor* piece : {pieces.codes.get(), pieces.scales.get(), pieces.nested_scales.get(),
                                    pieces.map.get(), pieces.nested_map.get()}) {
    bytes += piece != nullptr ? piece->stored_bytes() : 0;
  }
  return bytes;
}

// Bytes of a tensor of any dtype, whose elements are read whole. As many as a piece may have.
class Bytes {
 public:
  Bytes(const SourceTensor& tensor, int64_t first, int64_t count) {
    int64_t size = size_of(tensor.dtype());
    int64_t begin = first / size;
    int64_t end = (first + count + size - 1) / size;
    tensor.read(begin, end - begin, tensor.dtype(), bytes_.data());
    skipped_ = static_cast<size_t>(first - begin * size);
  }
  uint8_t operator[](int64_t index) const { return bytes_[skipped_ + static_cast<size_t>(index)]; }

 private:
  std::array<uint8_t, kPiece + 2 * size_of(DType::f64)> bytes_;
  size_t skipped_ = 0;
};

}  // namespace

JoinedTensor::JoinedTensor(const std::string& name, std::vector<int64_t> shape, Pieces pieces)
    : SourceTensor({.name = name,
                    .dtype = DType::f32,
                    .shape = std::move(shape),
                    .stored_bytes = stored_bytes_of(pieces),
                    .file = pieces.codes->file()}),
      pieces_(std::move(pieces)),
      coded_{.format = pieces_.format,
             .offset = pieces_.offset,
             .codes = pieces_.codes.get(),
             .scales = pieces_.scales.get(),
             .nested_scales = pieces_.nested_scales.get(),
             .map = pieces_.map.get(),
             .nested_map = pieces_.nested_map.get()},
      map_(floats_of(coded_.map)),
      nested_map_(floats_of(coded_.nested_map)) {}

void JoinedTensor::read(int64_t first, int64_t count, DType to, void* target) const {
  std::array<float, kPiece> values;
  for (int64_t done = 0; done < count; done += kPiece) {
    int64_t now = std::min(kPiece, count - done);
    std::span<float> piece(values.data(), static_cast<size_t>(now));
    if (coded_.format.coding == Coding::int8) {
      dequantise_rows(first + done, piece);
    } else {
      dequantise_four_bits(first + done, piece);
    }
    convert(DType::f32, values.data(), to, static_cast<std::byte*>(target) + bytes_of(to, done), now);
  }
}

void JoinedTensor::release() const {
  for (const SourceTensor* piece : {coded_.codes, coded_.scales}) {
    piece->release();
  }
}

void JoinedTensor::dequantise_four_bits(int64_t first, std::span<float> values) const {
  int64_t first_byte = first / 2;
  int64_t last = first + std::ssize(values);
  Bytes codes(*coded_.codes, first_byte, (last + 1) / 2 - first_byte);
  int64_t block = -1;
  float scale_of_block = 0;
  for (int64_t i = first; i < last; ++i) {
    if (i / coded_.format.block != block) {
      block = i / coded_.format.block;
      scale_of_block = scale(block);
    }
    int shift = i % 2 == 0 ? 4 : 0;
    values[static_cast<size_t>(i - first)] = map_[codes[i / 2 - first_byte] >> shift & 0xf] * scale_of_block;
  }
}

void JoinedTensor::dequantise_rows(int64_t first, std::span<float> values) const {
  Bytes codes(*coded_.codes, first, std::ssize(values));
  int64_t columns = shape()[1];
  int64_t row = -1;
  float scale_of_row = 0;
  for (int64_t i = 0; i < std::ssize(values); ++i) {
    if ((first + i) / columns != row) {
      row = (first + i) / columns;
      scale_of_row = scale(row);
    }
    values[static_cast<size_t>(i)] = int8_value(static_cast<int8_t>(codes[i]), scale_of_row);
  }
}

float JoinedTensor::scale(int64_t index) const {
  float value = 0;
  if (!coded_.format.nested) {
    coded_.scales->read(index, 1, DType::f32, &value);
    return value;
  }
  uint8_t code = 0;
  coded_.scales->read(index, 1, DType::u8, &code);
  coded_.nested_scales->read(index / kNestedBlock, 1, DType::f32, &value);
  return nested_value(nested_map_[code], value, coded_.offset);
}

}  // namespace snug
