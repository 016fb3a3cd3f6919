// TensorBoard's event files: records with checksums (TFRecord), each an Event message of protocol buffers.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "io/json.h"

namespace snug {

// A message of protocol buffers, by the numbers of its fields.
class ProtoMessage {
 public:
  ProtoMessage& integer(int field, int64_t value);
  ProtoMessage& number(int field, double value);       // fixed, 8 bytes
  ProtoMessage& small_number(int field, float value);  // fixed, 4 bytes
  ProtoMessage& text(int field, std::string_view value);
  ProtoMessage& message(int field, const ProtoMessage& value) { return text(field, value.bytes_); }

  const std::string& bytes() const { return bytes_; }

 private:
  void key(int field, int wire_type);
  void varint(uint64_t value);

  std::string bytes_;
};

// CRC-32C (Castagnoli) of the bytes, as the format masks it.
uint32_t masked_checksum(std::string_view bytes);
// The message with its length and both checksums.
std::string event_record(const ProtoMessage& event);

// The first record of a file.
std::string event_file_start(double unix_seconds);
// What came before in this folder is taken back by readers that have read it.
std::string restart_event(double unix_seconds);

using Scalars = std::vector<std::pair<std::string, double>>;
std::string scalars_event(double unix_seconds, int64_t step, const Scalars& scalars);
// Markdown, under its tag.
std::string text_event(double unix_seconds, int64_t step, std::string_view tag, std::string_view text);

// The settings of a run, for the table of hparams; what is no number, truth value or text stands there as
// JSON.
std::string settings_event(double unix_seconds, const std::vector<std::pair<std::string, Json>>& settings);
std::string settings_end_event(double unix_seconds, bool succeeded);

}  // namespace snug
