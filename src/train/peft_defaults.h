// The keys of adapter_config.json that PEFT knows, with the values that mean "as usual".
#pragma once

#include <string_view>

namespace snug {

// A JSON object; keys that only say where an adapter comes from are not in it.
std::string_view lora_config_defaults();

}  // namespace snug
