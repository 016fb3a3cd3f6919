// The model card, with the settings of transformers' BitsAndBytesConfig.
#include "train/model_card.h"

#include <fmt/format.h>

#include "compile/coded_weights.h"
#include "compile/phases.h"
#include "io/json.h"

namespace snug {
namespace {

std::string compute_dtype(DType dtype) {
  return dtype == DType::bf16 ? "bfloat16" : dtype == DType::f16 ? "float16" : "float32";
}

Json bitsandbytes_settings(const Format& format, DType dtype) {
  bool four = format.coding != Coding::int8;
  Json settings = {{"quant_method", "bitsandbytes"}, {"load_in_4bit", four}, {"load_in_8bit", !four}};
  if (four) {
    settings["bnb_4bit_quant_type"] = format.coding == Coding::nf4 ? "nf4" : "fp4";
    settings["bnb_4bit_use_double_quant"] = format.nested;
    settings["bnb_4bit_compute_dtype"] = compute_dtype(dtype);
  }
  return settings;
}

}  // namespace

std::string model_card(const Recipe& recipe, const ModelSpec& spec) {
  Format format = weight_format(recipe.model.quantization, spec);
  if (!format.is_coded()) {
    return "";
  }
  // Quoted as JSON does it, which YAML reads.
  std::string text =
      fmt::format("---\nbase_model: {}\nlibrary_name: peft\n---\n\n",
                  Json(recipe.model.path).dump(-1, ' ', false, Json::error_handler_t::replace));
  text += "## Base model\n\nThe adapter was trained on linear layers in bitsandbytes' formats:\n\n";
  Json settings = bitsandbytes_settings(format, run_dtype(recipe, spec));
  for (const auto& [key, value] : settings.items()) {
    text += fmt::format("- {}: {}\n", key, value.is_string() ? value.get<std::string>() : value.dump());
  }
  text += spec.stored_codes
              ? "\nThe base's own files are so; transformers loads them as they are.\n"
              : "\nGive them to transformers' BitsAndBytesConfig to load the base in the same way.\n";
  if (format.coding == Coding::int8) {
    text += "Activations were not quantised in training.\n";
  }
  return text;
}

}  // namespace snug
