// Which tokens begin and end a text: put together from tokenizer_config.json, generation_config.json,
// config.json and tokenizer.json's post-processor, because real folders spread it over all of them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "text/tokenizer/file.h"

namespace snug {

struct SpecialTokens {
  std::optional<int32_t> bos_id;
  std::optional<int32_t> eos_id;
  std::vector<int32_t> stop_ids;     // eos and whatever else ends generation
  std::vector<int32_t> opening_ids;  // put before a text when special tokens are asked for
  std::vector<int32_t> closing_ids;  // and after it
};

using PieceLookup = std::function<std::optional<int32_t>(const std::string& piece)>;

// `folder` is the model's; each of the config files may be missing.
SpecialTokens read_special_tokens(const std::filesystem::path& folder, const TokenizerFile& file,
                                  const PieceLookup& id_of);

}  // namespace snug
