// What the file tests share: raw bytes on disk, and the text of a thrown Error.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <vector>

#include "base/error.h"
#include "io/tensor_source.h"
#include "support/temporary_folder.h"

namespace snug {

inline void write_raw(const std::filesystem::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

inline std::string read_raw(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// A safetensors file laid out by hand: length, header text, data.
inline std::string safetensors_bytes(const std::string& header, const std::string& data) {
  std::string bytes;
  for (int shift = 0; shift < 64; shift += 8) {
    bytes += static_cast<char>((static_cast<uint64_t>(header.size()) >> shift) & 0xFFU);
  }
  return bytes + header + data;
}

// The bytes of a tensor, in the order of its file.
inline std::string stored_text(const SourceTensor& tensor) {
  std::string text(static_cast<size_t>(tensor.stored_bytes()), ' ');
  tensor.read(0, tensor.elements(), tensor.dtype(), text.data());
  return text;
}

// The message of the Error of this kind that `action` throws; fails the test if it throws none.
inline std::string error_text(ErrorKind kind, const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "no Error was thrown";
  return "";
}

#define EXPECT_SAYS(text, part) \
  EXPECT_NE((text).find(part), std::string::npos) << "\"" << (part) << "\" is not in: " << (text)

}  // namespace snug
