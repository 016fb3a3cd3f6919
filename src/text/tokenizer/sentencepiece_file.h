// A SentencePiece model (tokenizer.model, spiece.model) as the TokenizerFile that a tokenizer.json with the
// same content would give. The file is untrusted.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "text/tokenizer/file.h"

namespace snug {

TokenizerFile read_sentencepiece_file(const std::filesystem::path& path);
// The same from its bytes; `path` names it in errors.
TokenizerFile parse_sentencepiece_file(std::string_view bytes, const std::string& path);

}  // namespace snug
