// A weight of codes in memory, made of values as the loader makes it.
#pragma once

#include <cstring>
#include <vector>

#include "backend/quantise.h"

namespace snug {

inline std::vector<std::byte> coded_weight(const Buffer& weight, const std::vector<float>& values) {
  CodeLayout layout = code_layout(weight);
  std::vector<std::byte> memory(static_cast<size_t>(layout.bytes()), std::byte{0});
  auto floats_at = [&](int64_t place) { return reinterpret_cast<float*>(memory.data() + place); };
  for (int i = 0; i < layout.part_count; ++i) {
    const CodedPart& part = layout.parts[static_cast<size_t>(i)];
    auto first = static_cast<size_t>(part.row_begin * layout.columns);
    auto tensor = std::span(values).subspan(first, static_cast<size_t>(part.rows * layout.columns));
    auto* codes = reinterpret_cast<uint8_t*>(memory.data() + part.codes);
    if (layout.format.block == 0) {
      quantise_rows(layout.format.coding, layout.columns, tensor, codes, floats_at(part.scales));
      continue;
    }
    std::vector<float> scales(static_cast<size_t>(scale_count(layout.format, part.rows, layout.columns)));
    quantise_blocks(layout.format.coding, layout.format.block, tensor, codes, scales.data());
    std::array<float, 16> map = map_of(levels_of(layout.format.coding));
    std::memcpy(floats_at(part.map), map.data(), sizeof map);
    if (!layout.format.nested) {
      std::memcpy(floats_at(part.scales), scales.data(), scales.size() * sizeof(float));
      continue;
    }
    NestedMap nested_map = dynamic_map();
    std::memcpy(floats_at(part.nested_map), nested_map.data(), sizeof nested_map);
    *floats_at(part.offset) =
        nest_scales(nested_map, scales, reinterpret_cast<uint8_t*>(memory.data() + part.scales),
                    floats_at(part.nested_scales));
  }
  return memory;
}

}  // namespace snug
