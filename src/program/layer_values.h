// What a layer computes on its way forward, by the names under which people may say what it keeps.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace snug {

enum class LayerValue : uint8_t {
  norms,      // what norms put out
  qkv,        // queries, keys and values
  rotated,    // the same, with their positions in them
  attention,  // what attention puts out
  out,        // what attention and MLP end with; read again only where norms come behind them
  sum,        // the layer's input and what attention adds to it
  gate_up,    // the MLP's first products
  gated,      // what its activation makes of them
  dropout,    // what is left where elements are dropped
  lora,       // the adapters' down products
};
inline constexpr int kLayerValueCount = 10;

inline constexpr std::array<std::string_view, kLayerValueCount> kLayerValueNames = {
    "norms", "qkv", "rotated", "attention", "out", "sum", "gate_up", "gated", "dropout", "lora"};

constexpr std::string_view name_of(LayerValue value) {
  return kLayerValueNames[static_cast<size_t>(value)];
}

struct LayerValues {
  uint32_t bits = 0;

  constexpr bool contains(LayerValue value) const { return (bits >> static_cast<int>(value) & 1U) != 0; }
  constexpr LayerValues with(LayerValue value) const { return {bits | 1U << static_cast<int>(value)}; }
  constexpr LayerValues without(LayerValue value) const { return {bits & ~(1U << static_cast<int>(value))}; }
  // Of the values of `all`, those that are not among these.
  constexpr LayerValues others_of(LayerValues all) const { return {all.bits & ~bits}; }
  constexpr LayerValues in_common_with(LayerValues other) const { return {bits & other.bits}; }
  bool operator==(const LayerValues&) const = default;
};
inline constexpr LayerValues kAllLayerValues = {(1U << kLayerValueCount) - 1};

// Which of them a buffer of a layer's forward ops holds, by its name ("layers.3.attention.lse").
LayerValue layer_value_of(const std::string& buffer);
// The same of any buffer; nothing if it holds none of them.
std::optional<LayerValue> find_layer_value(std::string_view buffer);
// Whether it is what one of the MLP's products makes.
bool is_mlp_product(std::string_view buffer);

struct Program;
// Those that the layers of a model have: one without adapters has no `lora`.
LayerValues layer_values_of(const Program& program);

}  // namespace snug
