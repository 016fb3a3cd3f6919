// Published shapes of well-known models, so that plans and counts need nothing downloaded. Facts only.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "io/json.h"

namespace snug {

// The config.json of a hub id such as "Qwen/Qwen2.5-7B-Instruct"; nothing for an id that is not listed.
std::optional<Json> catalogue_config(std::string_view hub_id);

// Every id that the catalogue answers for.
std::vector<std::string> catalogue_ids();

}  // namespace snug
