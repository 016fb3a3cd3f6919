// Any bytes as a safetensors file: refused with an Error, or every tensor lies where it may.
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/check.h"
#include "base/error.h"
#include "io/safetensors.h"
#include "safetensors_input.h"

namespace {

// What the rest of the program relies on, worked out here in wider arithmetic.
void check_header(const snug::SafetensorsHeader& header, size_t file_bytes) {
  SNUG_CHECK(header.data_begin >= 8 && static_cast<size_t>(header.data_begin) <= file_bytes, "data section");
  std::vector<uint8_t> covered(file_bytes - static_cast<size_t>(header.data_begin), 0);
  for (const auto& [name, tensor] : header.tensors) {
    __int128 bytes = snug::size_of(tensor.dtype);
    for (int64_t dimension : tensor.shape) {
      SNUG_CHECK(dimension >= 0, "negative dimension");
      bytes *= dimension;
      SNUG_CHECK(bytes <= INT64_MAX, "overflow");
    }
    SNUG_CHECK(bytes == tensor.end - tensor.begin, "size of " + name);
    for (int64_t i = tensor.begin; i < tensor.end; ++i) {
      SNUG_CHECK(covered.at(static_cast<size_t>(i))++ == 0, "overlap in " + name);
    }
  }
  for (uint8_t count : covered) {
    SNUG_CHECK(count == 1, "a hole");
  }
}

void parse(std::span<const std::byte> bytes) {
  try {
    check_header(snug::parse_safetensors_header(bytes, static_cast<int64_t>(bytes.size()), "fuzz"),
                 bytes.size());
  } catch (const snug::Error&) {
    // Refusal is the expected answer to most inputs; anything else that is thrown ends the run.
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(data), size);
  parse(bytes);
  parse(with_fitting_length(bytes));
  return 0;
}
