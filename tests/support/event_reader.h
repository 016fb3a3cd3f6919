// Reads TensorBoard's event files by their description alone: frames with checksums, and protocol buffers.
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace snug {

// Bit by bit, as the polynomial is divided.
inline uint32_t checksum_bit_by_bit(std::string_view bytes) {
  uint32_t rest = 0xffffffff;
  for (char c : bytes) {
    rest ^= static_cast<uint8_t>(c);
    for (int bit = 0; bit < 8; ++bit) {
      bool carries = (rest & 1) != 0;
      rest >>= 1;
      rest ^= carries ? 0x82f63b78U : 0U;
    }
  }
  return ~rest;
}

inline uint32_t masked(uint32_t crc) {
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8U;
}

template <typename Number>
Number number_at(std::string_view bytes, size_t at) {
  Number value{};
  std::memcpy(&value, bytes.substr(at, sizeof value).data(), sizeof value);
  return value;
}

// The data of each record; lengths and both checksums are held to what they should be.
inline std::vector<std::string> read_records(std::string_view file) {
  std::vector<std::string> records;
  while (!file.empty()) {
    if (file.size() < 12) {
      ADD_FAILURE() << "half a frame at the end";
      break;
    }
    auto length = number_at<uint64_t>(file, 0);
    EXPECT_EQ(number_at<uint32_t>(file, 8), masked(checksum_bit_by_bit(file.substr(0, 8))));
    if (file.size() < 16 + length) {
      ADD_FAILURE() << "half a record at the end";
      break;
    }
    records.emplace_back(file.substr(12, length));
    EXPECT_EQ(number_at<uint32_t>(file, 12 + length), masked(checksum_bit_by_bit(records.back())));
    file.remove_prefix(16 + length);
  }
  return records;
}

// A field of a message: a varint or a fixed number as its bits, or bytes.
struct ProtoField {
  uint64_t bits = 0;
  std::string bytes = {};
};
using ProtoFields = std::multimap<int, ProtoField>;

inline ProtoFields read_message(std::string_view bytes) {
  ProtoFields fields;
  size_t at = 0;
  auto varint = [&] {
    uint64_t value = 0;
    for (int shift = 0; at < bytes.size(); shift += 7) {
      auto byte = static_cast<uint8_t>(bytes[at++]);
      value |= static_cast<uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) {
        break;
      }
    }
    return value;
  };
  while (at < bytes.size()) {
    uint64_t key = varint();
    ProtoField field;
    switch (key & 7) {
      case 0:
        field.bits = varint();
        break;
      case 1:
        field.bits = number_at<uint64_t>(bytes, at);
        at += 8;
        break;
      case 2: {
        uint64_t length = varint();
        field.bytes = bytes.substr(at, length);
        at += length;
        break;
      }
      case 5:
        field.bits = number_at<uint32_t>(bytes, at);
        at += 4;
        break;
      default:
        ADD_FAILURE() << "wire type " << (key & 7);
        return fields;
    }
    fields.emplace(static_cast<int>(key >> 3), field);
  }
  return fields;
}

inline const ProtoField& field_of(const ProtoFields& fields, int number) {
  static const ProtoField kNone;
  auto found = fields.find(number);
  return found == fields.end() ? kNone : found->second;
}

struct EventFile {
  struct Point {
    int64_t step = 0;
    float value = 0;
    double wall_time = 0;
  };
  std::string version;
  std::map<std::string, std::vector<Point>> scalars;            // by tag
  std::map<std::string, std::map<int64_t, std::string>> texts;  // by tag and step
  std::map<std::string, ProtoFields> settings;                  // hparams
  int64_t ended = -1;                                           // the status of hparams
};

inline EventFile read_event_file(std::string_view bytes) {
  EventFile file;
  for (const std::string& record : read_records(bytes)) {
    ProtoFields event = read_message(record);
    auto step = static_cast<int64_t>(field_of(event, 2).bits);
    if (event.contains(3)) {
      file.version = field_of(event, 3).bytes;
    }
    ProtoFields summary = read_message(field_of(event, 5).bytes);
    for (const auto& [number, field] : summary) {
      ProtoFields value = read_message(field.bytes);
      std::string tag = field_of(value, 1).bytes;
      ProtoFields plugin = read_message(field_of(read_message(field_of(value, 9).bytes), 1).bytes);
      if (value.contains(2)) {
        auto number32 = static_cast<uint32_t>(field_of(value, 2).bits);
        file.scalars[tag].push_back(
            {step, std::bit_cast<float>(number32), std::bit_cast<double>(field_of(event, 1).bits)});
      } else if (field_of(plugin, 1).bytes == "text") {
        file.texts[tag][step] = field_of(read_message(field_of(value, 8).bytes), 8).bytes;
      } else if (field_of(plugin, 1).bytes == "hparams") {
        ProtoFields content = read_message(field_of(plugin, 2).bytes);
        for (const auto& [entry_number, entry] : read_message(field_of(content, 3).bytes)) {
          if (entry_number == 1) {
            ProtoFields pair = read_message(entry.bytes);
            file.settings[field_of(pair, 1).bytes] = read_message(field_of(pair, 2).bytes);
          }
        }
        if (content.contains(4)) {
          file.ended = static_cast<int64_t>(field_of(read_message(field_of(content, 4).bytes), 1).bits);
        }
      }
    }
  }
  return file;
}

}  // namespace snug
