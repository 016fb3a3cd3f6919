// Walks over the fields of one message in protobuf's wire format.
#include "text/tokenizer/protobuf_reader.h"

#include <fmt/format.h>

#include <cstring>

#include "base/error.h"

namespace snug {

void ProtobufReader::fail(std::string_view problem) const {
  throw bad_input(
      fmt::format("{}: byte {}: {}. The file is damaged or no SentencePiece model: download it again.",
                  where_, all_.size() - rest_.size(), problem));
}

uint64_t ProtobufReader::read_varint() {
  uint64_t value = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    if (rest_.empty()) {
      fail("it ends inside a number");
    }
    auto byte = static_cast<uint8_t>(rest_[0]);
    rest_.remove_prefix(1);
    value |= static_cast<uint64_t>(byte & 0x7FU) << shift;
    if (byte < 0x80) {
      return value;
    }
  }
  fail("a number is longer than ten bytes");
}

std::string_view ProtobufReader::take(uint64_t count) {
  if (count > rest_.size()) {
    fail(fmt::format("a field of {} bytes, but {} are left", count, rest_.size()));
  }
  std::string_view taken = rest_.substr(0, static_cast<size_t>(count));
  rest_.remove_prefix(static_cast<size_t>(count));
  return taken;
}

bool ProtobufReader::next() {
  if (rest_.empty()) {
    return false;
  }
  uint64_t tag = read_varint();
  uint64_t number = tag >> 3;
  if (number == 0 || number > (uint64_t{1} << 29)) {
    fail(fmt::format("field number {}", number));
  }
  field_ = static_cast<uint32_t>(number);
  type_ = static_cast<WireType>(tag & 7U);
  switch (type_) {
    case WireType::varint:
      varint_ = read_varint();
      break;
    case WireType::fixed64:
      value_ = take(8);
      break;
    case WireType::bytes:
      value_ = take(read_varint());
      break;
    case WireType::fixed32:
      value_ = take(4);
      break;
    default:
      fail(fmt::format("field {} has wire type {}", field_, tag & 7U));
  }
  return true;
}

void ProtobufReader::require(WireType type) const {
  if (type_ != type) {
    fail(fmt::format("field {} has wire type {}, expected {}", field_, static_cast<int>(type_),
                     static_cast<int>(type)));
  }
}

int64_t ProtobufReader::integer() const {
  require(WireType::varint);
  return static_cast<int64_t>(varint_);
}

float ProtobufReader::number() const {
  require(WireType::fixed32);
  float value = 0;
  std::memcpy(&value, value_.data(), sizeof(value));
  return value;
}

std::string_view ProtobufReader::bytes() const {
  require(WireType::bytes);
  return value_;
}

}  // namespace snug
