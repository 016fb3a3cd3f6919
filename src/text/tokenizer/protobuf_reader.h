// Walks over the fields of one message in protobuf's wire format. The bytes are untrusted: nothing is read
// past their end, and what does not fit is an error.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace snug {

class ProtobufReader {
 public:
  // `where` names the file and message in errors.
  ProtobufReader(std::string_view bytes, std::string where)
      : all_(bytes), rest_(bytes), where_(std::move(where)) {}

  // Goes to the next field; false at the end.
  bool next();
  uint32_t field() const { return field_; }

  // The value of the field; bad_input if it is of another type.
  int64_t integer() const;
  float number() const;
  std::string_view bytes() const;

 private:
  enum class WireType : uint8_t { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };
  uint64_t read_varint();
  std::string_view take(uint64_t count);
  [[noreturn]] void fail(std::string_view problem) const;
  void require(WireType type) const;

  std::string_view all_;
  std::string_view rest_;
  std::string where_;
  uint32_t field_ = 0;
  WireType type_ = WireType::varint;
  uint64_t varint_ = 0;
  std::string_view value_;
};

}  // namespace snug
