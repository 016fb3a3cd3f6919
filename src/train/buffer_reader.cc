// Reading from the device.
#include "train/buffer_reader.h"

#include <algorithm>

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

}  // namespace snug
