// Where a model is: a folder, the local Hugging Face cache, or (shape only) the catalogue.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "model/model_spec.h"

namespace snug {

struct LocatedModel {
  ModelSpec spec;
  std::string folder;  // "" where only the catalogue knows the model: plans and counts, no weights
};

// `model`: a folder, which always wins, or a hub id. Throws bad_input saying where it looked.
LocatedModel locate_model(const std::string& model);

// The same, for what needs weights: a model that only the catalogue knows is refused with what to do.
LocatedModel locate_model_files(const std::string& model);

// The snapshot of a hub id in the cache that HF_HUB_CACHE or HF_HOME name, else in ~/.cache/huggingface.
std::optional<std::filesystem::path> find_in_hub_cache(const std::string& hub_id);

}  // namespace snug
