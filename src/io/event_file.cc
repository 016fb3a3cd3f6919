// Messages and their frames. Numbers of fields are those of TensorBoard's .proto files.
#include "io/event_file.h"

#include <array>
#include <bit>
#include <cstring>

namespace snug {
namespace {

// Types on the wire.
constexpr int kVarint = 0;
constexpr int kFixed64 = 1;
constexpr int kLengthDelimited = 2;
constexpr int kFixed32 = 5;

constexpr std::array<uint32_t, 256> make_checksum_table() {
  constexpr uint32_t kCastagnoliReflected = 0x82f63b78;
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < table.size(); ++i) {
    uint32_t value = i;
    for (int bit = 0; bit < 8; ++bit) {
      value = (value >> 1) ^ ((value & 1) != 0 ? kCastagnoliReflected : 0);
    }
    table[i] = value;
  }
  return table;
}
constexpr std::array<uint32_t, 256> kChecksumTable = make_checksum_table();

template <typename Number>
void append_little_endian(std::string& bytes, Number value) {
  static_assert(std::endian::native == std::endian::little);
  std::array<char, sizeof(Number)> raw{};
  std::memcpy(raw.data(), &value, sizeof value);
  bytes.append(raw.data(), raw.size());
}

// Event
constexpr int kWallTime = 1;
constexpr int kStep = 2;
constexpr int kFileVersion = 3;
constexpr int kSummary = 5;
constexpr int kSessionLog = 7;
// Summary, Summary.Value
constexpr int kValue = 1;
constexpr int kTag = 1;
constexpr int kSimpleValue = 2;
constexpr int kTensor = 8;
constexpr int kMetadata = 9;

ProtoMessage event_at(double unix_seconds, int64_t step) {
  ProtoMessage event;
  event.number(kWallTime, unix_seconds).integer(kStep, step);
  return event;
}

// SummaryMetadata: which plugin shows the value.
ProtoMessage metadata_of(std::string_view plugin, std::string_view content) {
  ProtoMessage data;
  data.text(1, plugin).text(2, content);
  ProtoMessage metadata;
  metadata.message(1, data);
  return metadata;
}

std::string settings_record(double unix_seconds, std::string_view tag, int field, const ProtoMessage& info) {
  ProtoMessage content;  // HParamsPluginData
  content.message(field, info);
  ProtoMessage value;
  value.text(kTag, tag).message(kMetadata, metadata_of("hparams", content.bytes()));
  ProtoMessage summary;
  summary.message(kValue, value);
  return event_record(event_at(unix_seconds, 0).message(kSummary, summary));
}

}  // namespace

void ProtoMessage::varint(uint64_t value) {
  for (; value >= 0x80; value >>= 7) {
    bytes_.push_back(static_cast<char>((value & 0x7f) | 0x80));
  }
  bytes_.push_back(static_cast<char>(value));
}

void ProtoMessage::key(int field, int wire_type) {
  varint((static_cast<uint64_t>(field) << 3) | static_cast<uint64_t>(wire_type));
}

ProtoMessage& ProtoMessage::integer(int field, int64_t value) {
  key(field, kVarint);
  varint(static_cast<uint64_t>(value));
  return *this;
}

ProtoMessage& ProtoMessage::number(int field, double value) {
  key(field, kFixed64);
  append_little_endian(bytes_, value);
  return *this;
}

ProtoMessage& ProtoMessage::small_number(int field, float value) {
  key(field, kFixed32);
  append_little_endian(bytes_, value);
  return *this;
}

ProtoMessage& ProtoMessage::text(int field, std::string_view value) {
  key(field, kLengthDelimited);
  varint(value.size());
  bytes_ += value;
  return *this;
}

uint32_t masked_checksum(std::string_view bytes) {
  uint32_t value = 0xffffffff;
  for (char c : bytes) {
    value = kChecksumTable[(value ^ static_cast<uint8_t>(c)) & 0xff] ^ (value >> 8);
  }
  return std::rotr(~value, 15) + 0xa282ead8;
}

std::string event_record(const ProtoMessage& event) {
  const std::string& data = event.bytes();
  std::string record;
  append_little_endian(record, uint64_t{data.size()});
  append_little_endian(record, masked_checksum(record));
  record += data;
  append_little_endian(record, masked_checksum(data));
  return record;
}

std::string event_file_start(double unix_seconds) {
  ProtoMessage event;
  return event_record(event.number(kWallTime, unix_seconds).text(kFileVersion, "brain.Event:2"));
}

std::string restart_event(double unix_seconds) {
  constexpr int kStatus = 1;
  constexpr int kStart = 1;
  ProtoMessage log;
  log.integer(kStatus, kStart);
  return event_record(event_at(unix_seconds, 0).message(kSessionLog, log));
}

std::string scalars_event(double unix_seconds, int64_t step, const Scalars& scalars) {
  ProtoMessage summary;
  for (const auto& [tag, number] : scalars) {
    ProtoMessage value;
    summary.message(kValue, value.text(kTag, tag).small_number(kSimpleValue, static_cast<float>(number)));
  }
  return event_record(event_at(unix_seconds, step).message(kSummary, summary));
}

std::string text_event(double unix_seconds, int64_t step, std::string_view tag, std::string_view text) {
  constexpr int kStringType = 7;
  ProtoMessage dim;
  dim.integer(1, 1);
  ProtoMessage shape;
  shape.message(2, dim);
  ProtoMessage tensor;  // of one string
  tensor.integer(1, kStringType).message(2, shape).text(8, text);
  ProtoMessage value;
  value.text(kTag, tag).message(kTensor, tensor).message(kMetadata, metadata_of("text", ""));
  ProtoMessage summary;
  summary.message(kValue, value);
  return event_record(event_at(unix_seconds, step).message(kSummary, summary));
}

std::string settings_event(double unix_seconds, const std::vector<std::pair<std::string, Json>>& settings) {
  ProtoMessage start;  // SessionStartInfo
  for (const auto& [name, setting] : settings) {
    ProtoMessage value;  // google.protobuf.Value
    if (setting.is_number()) {
      value.number(2, setting.get<double>());
    } else if (setting.is_boolean()) {
      value.integer(4, setting.get<bool>() ? 1 : 0);
    } else {
      value.text(3, setting.is_string() ? setting.get<std::string>() : setting.dump());
    }
    ProtoMessage entry;
    start.message(1, entry.text(1, name).message(2, value));
  }
  start.number(5, unix_seconds);
  return settings_record(unix_seconds, "_hparams_/session_start_info", 3, start);
}

std::string settings_end_event(double unix_seconds, bool succeeded) {
  constexpr int kSuccess = 1;
  constexpr int kFailure = 2;
  ProtoMessage end;  // SessionEndInfo
  end.integer(1, succeeded ? kSuccess : kFailure).number(2, unix_seconds);
  return settings_record(unix_seconds, "_hparams_/session_end_info", 4, end);
}

}  // namespace snug
