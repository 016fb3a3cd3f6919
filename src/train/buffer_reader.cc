// Reading from the device.
#include "train/buffer_reader.h"

#include <algorithm>

#include "base/check.h"
#include "base/split_float.h"
#include "program/names.h"

namespace snug {

void DeviceReader::read(const std::string& buffer, int64_t first_byte, int64_t bytes, const TakeBytes& take) {
  Tensor staging = executor_.tensor(kSavePhase, kStaging);
  const std::byte* source = executor_.tensor(kLoadPhase, buffer).as<std::byte>() + first_byte;
  for (int64_t done = 0; done < bytes; done += staging.elements()) {
    int64_t now = std::min(staging.elements(), bytes - done);
    executor_.backend().download(staging.data, source + done, now);
    executor_.backend().synchronize();
    take({staging.as<std::byte>(), static_cast<size_t>(now)});
  }
}

// Half of the staging buffer takes both halves of the numbers, the other half what they are together.
void DeviceReader::read_joined(const Halves& buffers, int64_t first_element, int64_t elements,
                               const TakeBytes& take) {
  Tensor staging = executor_.tensor(kSavePhase, kStaging);
  int64_t piece = staging.elements() / 2 / size_of(DType::f32);
  SNUG_CHECK(piece > 0, "the staging buffer is too small");
  auto* values = staging.as<float>();
  auto* upper = reinterpret_cast<bf16_t*>(values + piece);
  auto* rests = reinterpret_cast<int16_t*>(upper + piece);
  const auto* upper_source = executor_.tensor(kLoadPhase, buffers.upper).as<bf16_t>() + first_element;
  const auto* rests_source = executor_.tensor(kLoadPhase, buffers.rests).as<int16_t>() + first_element;
  for (int64_t done = 0; done < elements; done += piece) {
    int64_t now = std::min(piece, elements - done);
    executor_.backend().download(upper, upper_source + done, bytes_of(DType::bf16, now));
    executor_.backend().download(rests, rests_source + done, bytes_of(DType::i16, now));
    executor_.backend().synchronize();
    join_floats(upper, rests, values, now);
    take({staging.as<std::byte>(), static_cast<size_t>(bytes_of(DType::f32, now))});
  }
}

}  // namespace snug
