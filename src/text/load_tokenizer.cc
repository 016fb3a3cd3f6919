// Finding a model folder's tokenizer and choosing the kind that it is. A new kind adds a line here.
#include <fmt/format.h>

#include "base/error.h"
#include "text/byte_level_tokenizer.h"
#include "text/tokenizer.h"

namespace snug {

std::unique_ptr<Tokenizer> load_tokenizer(const std::filesystem::path& model_folder) {
  std::filesystem::path path = model_folder / "tokenizer.json";
  if (!std::filesystem::exists(path)) {
    std::string remedy = "copy it from the model's page";
    for (const char* other : {"tokenizer.model", "spiece.model", "vocab.json"}) {
      if (std::filesystem::exists(model_folder / other)) {
        remedy = fmt::format(
            "the folder holds {}, the older form: get tokenizer.json from the model's page, or make it with "
            "transformers' AutoTokenizer.from_pretrained(...).save_pretrained(...)",
            other);
        break;
      }
    }
    throw bad_input(fmt::format("{}: no such file; {}.", path.string(), remedy));
  }
  TokenizerFile file = read_tokenizer_file(path);
  if (file.model_type == "BPE" && !json_bool(file.model(), "byte_fallback", false, file.path)) {
    return std::make_unique<ByteLevelTokenizer>(file, model_folder);
  }
  std::string kind = file.model_type == "BPE" ? "BPE with byte fallback" : file.model_type;
  throw bad_input(fmt::format(
      "{}: the tokenizer is of the kind '{}', which is not supported; snug reads byte-level BPE (Llama "
      "3, Qwen2, GPT-2 and the like).",
      file.path, kind));
}

}  // namespace snug
