// Finding a model folder's tokenizer file and reading it, whatever form it has.
#include <fmt/format.h>

#include "base/error.h"
#include "text/tokenizer/sentencepiece_file.h"
#include "text/tokenizer/tokenizer.h"

namespace snug {

namespace {

constexpr const char* kJsonNames[] = {"tokenizer.json", "tokenizer.json.gz"};
constexpr const char* kSentencePieceNames[] = {"tokenizer.model", "spiece.model", "sentencepiece.bpe.model",
                                               "tokenizer.model.v3"};

bool is_json_name(const std::filesystem::path& path) {
  return path.extension() == ".json" || (path.extension() == ".gz" && path.stem().extension() == ".json");
}

// tokenizer_config.json lists tokens that a SentencePiece model does not hold, by id.
void add_config_tokens(const std::filesystem::path& config_path, TokenizerFile& file) {
  if (!std::filesystem::exists(config_path)) {
    return;
  }
  Json config = read_json(config_path);
  auto listed = config.find("added_tokens_decoder");
  if (listed == config.end() || !listed->is_object()) {
    return;
  }
  Json& tokens = file.document["added_tokens"];
  for (const auto& [key, entry] : listed->items()) {
    if (!entry.is_object() || key.empty() || key.size() > 9 ||
        key.find_first_not_of("0123456789") != std::string::npos) {
      throw bad_input(fmt::format("{}: added_tokens_decoder holds the key \"{}\"; its keys are token ids.",
                                  config_path.string(), key));
    }
    Json token = entry;
    Json content = token.value("content", Json());
    std::erase_if(tokens.get_ref<Json::array_t&>(),
                  [&](const Json& listed_token) { return listed_token["content"] == content; });
    token["id"] = std::stoll(key);
    tokens.push_back(std::move(token));
  }
}

TokenizerFile read_any(const std::filesystem::path& path) {
  if (is_json_name(path)) {
    return read_tokenizer_file(path);
  }
  TokenizerFile file = read_sentencepiece_file(path);
  add_config_tokens(path.parent_path() / "tokenizer_config.json", file);
  return file;
}

std::filesystem::path find_file(const std::filesystem::path& folder) {
  for (const char* name : kJsonNames) {
    if (std::filesystem::exists(folder / name)) {
      return folder / name;
    }
  }
  for (const char* name : kSentencePieceNames) {
    if (std::filesystem::exists(folder / name)) {
      return folder / name;
    }
  }
  std::string remedy = "copy it from the model's page";
  if (std::filesystem::exists(folder / "vocab.json")) {
    remedy =
        "the folder holds vocab.json, the older form: get tokenizer.json from the model's page, or make it "
        "with "
        "transformers' AutoTokenizer.from_pretrained(...).save_pretrained(...)";
  }
  throw bad_input(fmt::format("{}: no such file, and no tokenizer.model; {}.",
                              (folder / "tokenizer.json").string(), remedy));
}

}  // namespace

std::vector<std::string> text_file_names() {
  std::vector<std::string> names(std::begin(kJsonNames), std::end(kJsonNames));
  names.insert(names.end(), std::begin(kSentencePieceNames), std::end(kSentencePieceNames));
  for (const char* name : {"tokenizer_config.json", "special_tokens_map.json", "generation_config.json",
                           "config.json", "chat_template.jinja"}) {
    names.emplace_back(name);
  }
  return names;
}

std::unique_ptr<Tokenizer> load_tokenizer(const std::filesystem::path& model) {
  std::filesystem::path path = std::filesystem::is_regular_file(model) ? model : find_file(model);
  return std::make_unique<Tokenizer>(read_any(path), path.parent_path());
}

}  // namespace snug
