// 20 steps of LoRA on quantised weights as peft and bitsandbytes take them (tools/make_qlora_references.py).
#pragma once

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "base/check.h"
#include "recipe/choices.h"
#include "support/curve_case.h"
#include "test_paths.h"
#include "train/adapter_files.h"

namespace snug {

struct QloraCase {
  explicit QloraCase(const std::string& name)
      : adapter(std::filesystem::path(SNUG_SOURCE_DIR) / "tests/goldens/qlora" / name / "initial_adapter"),
        curve(read_json(adapter.parent_path() / "curve.json")),
        recipe(reference_recipe(reference_folder(curve["model"].get<std::string>()))) {
    apply_settings(curve["settings"], recipe);
    auto quantization = curve["quantization"].get<std::string>();
    auto found = std::find_if(kQuantizations.begin(), kQuantizations.end(),
                              [&](const auto& choice) { return choice.first == quantization; });
    SNUG_CHECK(found != kQuantizations.end(), "no quantization is named " + quantization);
    recipe.model.quantization = found->second;
    recipe.lora = read_adapter_config(adapter);
  }

  std::filesystem::path adapter;
  Json curve;
  Recipe recipe;
};

inline const std::vector<std::string> kQloraCases = {"llama", "llama_int8", "mistral", "qwen2",
                                                     "qwen3", "phi3",       "t5"};

}  // namespace snug
