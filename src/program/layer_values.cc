// By how the names end that model/stack_builder.cc and compile/adapters.cc give.
#include "program/layer_values.h"

#include "base/check.h"
#include "program/program.h"

namespace snug {
namespace {

struct Ending {
  std::string_view text;
  LayerValue value;
};

constexpr std::array<Ending, 17> kEndings = {{
    {".dropout", LayerValue::dropout},
    {".lora_dropout", LayerValue::dropout},
    {"_norm", LayerValue::norms},
    {"_norm_after", LayerValue::norms},
    {".qkv", LayerValue::qkv},
    {".cross_q", LayerValue::qkv},
    {".cross_kv", LayerValue::qkv},
    {".rotated", LayerValue::rotated},
    {".attention", LayerValue::attention},
    {".cross_attention", LayerValue::attention},
    {"attention.lse", LayerValue::attention},
    {".attention_out", LayerValue::out},
    {".cross_out", LayerValue::out},
    {".down", LayerValue::out},
    {"_sum", LayerValue::sum},
    {".gate_up", LayerValue::gate_up},
    {".gated", LayerValue::gated},
}};

}  // namespace

std::optional<LayerValue> find_layer_value(std::string_view buffer) {
  for (const Ending& ending : kEndings) {
    if (buffer.ends_with(ending.text)) {
      return ending.value;
    }
  }
  // Adapters of several stages lie one beside the other, each with a number behind its name.
  bool is_down_product = buffer.find(".lora_down") != std::string_view::npos ||
                         buffer.find(".frozen_down") != std::string_view::npos;
  return is_down_product ? std::optional(LayerValue::lora) : std::nullopt;
}

LayerValue layer_value_of(const std::string& buffer) {
  std::optional<LayerValue> value = find_layer_value(buffer);
  SNUG_CHECK(value.has_value(), "no name under which a recipe may keep " + buffer);
  return *value;
}

bool is_mlp_product(std::string_view buffer) {
  return buffer.ends_with(".gate_up") || buffer.ends_with(".down");
}

LayerValues layer_values_of(const Program& program) {
  LayerValues values;
  for (const Buffer& buffer : program.buffers) {
    if (std::optional<LayerValue> value = find_layer_value(buffer.name)) {
      values = values.with(*value);
    }
  }
  return values;
}

}  // namespace snug
