// Looking through the B of each adapter.
#include "train/idle_adapters.h"

#include <algorithm>
#include <string_view>

#include "train/weights.h"

namespace snug {

AdapterChange find_unchanged_adapters(BufferReader& reader) {
  constexpr std::string_view kPrefix = "base_model.model.";
  constexpr std::string_view kSuffix = ".lora_B.weight";
  AdapterChange change;
  for (const StoredTensor& tensor : stored_tensors(reader.plan(), Role::adapters, true)) {
    if (!tensor.name.ends_with(kSuffix)) {
      continue;
    }
    ++change.all;
    bool is_zero = true;
    read_tensor(reader, tensor, [&](std::span<const std::byte> bytes) {
      // Not even -0 comes of an update that has no gradient.
      is_zero = is_zero &&
                std::all_of(bytes.begin(), bytes.end(), [](std::byte byte) { return byte == std::byte{0}; });
    });
    if (is_zero) {
      std::string module = tensor.name.substr(0, tensor.name.size() - kSuffix.size());
      change.unchanged.push_back(module.starts_with(kPrefix) ? module.substr(kPrefix.size()) : module);
    }
  }
  return change;
}

}  // namespace snug
