// What a fuzzer of safetensors files is fed with.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

// The input up to its first NUL as header text, with the length that belongs to it, and the rest as data:
// mutations of the text would otherwise nearly always fail at the length.
inline std::vector<std::byte> with_fitting_length(std::span<const std::byte> input) {
  auto end = std::find(input.begin(), input.end(), std::byte{0});
  auto length = static_cast<uint64_t>(end - input.begin());
  std::vector<std::byte> file;
  for (int shift = 0; shift < 64; shift += 8) {
    file.push_back(static_cast<std::byte>((length >> shift) & 0xFFU));
  }
  file.insert(file.end(), input.begin(), end);
  if (end != input.end()) {
    file.insert(file.end(), end + 1, input.end());
  }
  return file;
}
