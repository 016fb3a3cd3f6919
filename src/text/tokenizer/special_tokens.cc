// Which tokens begin and end a text: put together from tokenizer_config.json, generation_config.json,
// config.json and tokenizer.json's post-processor.
#include "text/tokenizer/special_tokens.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "base/error.h"
#include "io/printable.h"

namespace snug {

namespace {

Json read_if_present(const std::filesystem::path& path) {
  if (!std::filesystem::exists(path)) {
    return Json::object();
  }
  Json document = read_json(path);
  if (!document.is_object()) {
    throw bad_input(fmt::format("{}: must be a JSON object.", path.string()));
  }
  return document;
}

// "<s>" or {"content": "<s>", ...}; "" for anything else.
std::string token_content(const Json& entry) {
  if (entry.is_string()) {
    return entry.get<std::string>();
  }
  if (entry.is_object() && entry.contains("content") && entry["content"].is_string()) {
    return entry["content"].get<std::string>();
  }
  return "";
}

// One id or a list of them; both are in use.
std::vector<int32_t> ids_at(const Json& document, const std::string& key, const std::string& path) {
  std::vector<int32_t> ids;
  auto found = document.find(key);
  if (found == document.end() || found->is_null()) {
    return ids;
  }
  for (const Json& entry : found->is_array() ? *found : Json::array({*found})) {
    if (!entry.is_number_integer() || entry.get<int64_t>() < 0 || entry.get<int64_t>() >= kMaxTokenId) {
      throw bad_input(fmt::format("{}: \"{}\" holds {}; token ids are whole numbers, 0 to {}.", path, key,
                                  entry.dump(), kMaxTokenId - 1));
    }
    ids.push_back(entry.get<int32_t>());
  }
  return ids;
}

struct ConfigFiles {
  std::filesystem::path folder;
  Json tokenizer = read_if_present(folder / "tokenizer_config.json");
  Json generation = read_if_present(folder / "generation_config.json");
  Json model = read_if_present(folder / "config.json");

  std::vector<int32_t> generation_ids(const std::string& key) const {
    return ids_at(generation, key, (folder / "generation_config.json").string());
  }
  std::vector<int32_t> model_ids(const std::string& key) const {
    return ids_at(model, key, (folder / "config.json").string());
  }
};

// The tokenizer's own word comes first; a null there means that there is none.
std::optional<int32_t> find_id(const ConfigFiles& configs, const std::string& name, const PieceLookup& id_of,
                               std::optional<int32_t> fallback) {
  auto own = configs.tokenizer.find(name);
  if (own != configs.tokenizer.end()) {
    if (own->is_null()) {
      return std::nullopt;
    }
    if (std::optional<int32_t> id = id_of(token_content(*own)); id) {
      return id;
    }
  }
  for (const std::vector<int32_t>& ids :
       {configs.generation_ids(name + "_id"), configs.model_ids(name + "_id")}) {
    if (!ids.empty()) {
      return ids.front();
    }
  }
  return fallback;
}

// {"type": "TemplateProcessing", "single": [{"SpecialToken": ...}, {"Sequence": ...}, ...], "special_tokens":
// ...}
void read_template(const Json& description, const std::string& path, SpecialTokens& tokens) {
  auto single = description.find("single");
  if (single == description.end() || !single->is_array()) {
    throw bad_input(fmt::format("{}: the post_processor TemplateProcessing has no list \"single\".", path));
  }
  const Json known = description.contains("special_tokens") ? description["special_tokens"] : Json::object();
  bool after_text = false;
  for (const Json& item : *single) {
    if (item.is_object() && item.contains("Sequence")) {
      after_text = true;
      continue;
    }
    if (!item.is_object() || !item.contains("SpecialToken")) {
      throw bad_input(
          fmt::format("{}: the post_processor's \"single\" holds {}; allowed are SpecialToken and "
                      "Sequence.",
                      path, item.dump()));
    }
    std::string name = json_string(item["SpecialToken"], "id", "", path);
    if (!known.is_object() || !known.contains(name)) {
      throw bad_input(
          fmt::format("{}: the post_processor uses '{}', which its \"special_tokens\" lacks.", path, name));
    }
    std::vector<int32_t>& side = after_text ? tokens.closing_ids : tokens.opening_ids;
    std::vector<int32_t> ids = ids_at(known[name], "ids", path);
    side.insert(side.end(), ids.begin(), ids.end());
  }
}

// "cls": ["<s>", 0]
int32_t id_of_pair(const Json& description, const std::string& key, const std::string& path) {
  auto pair = description.find(key);
  bool good = pair != description.end() && pair->is_array() && pair->size() == 2;
  std::vector<int32_t> ids = good ? ids_at(Json{{key, (*pair)[1]}}, key, path) : std::vector<int32_t>{};
  if (ids.size() != 1) {
    throw bad_input(fmt::format("{}: the post_processor's \"{}\" must be [\"token\", id].", path, key));
  }
  return ids[0];
}

void read_post_processor(const Json& description, const std::string& path, SpecialTokens& tokens) {
  if (description.is_null()) {
    return;
  }
  std::string type = json_string(description, "type", "", path);
  if (type == "TemplateProcessing") {
    read_template(description, path, tokens);
  } else if (type == "Sequence" && description.contains("processors") &&
             description["processors"].is_array()) {
    for (const Json& part : description["processors"]) {
      read_post_processor(part, path, tokens);
    }
  } else if (type == "BertProcessing" || type == "RobertaProcessing") {
    tokens.opening_ids.push_back(id_of_pair(description, "cls", path));
    tokens.closing_ids.push_back(id_of_pair(description, "sep", path));
  } else if (type != "ByteLevel") {  // ByteLevel moves offsets only, which nobody here asks for
    throw bad_input(fmt::format(
        "{}: the post_processor '{}' is not supported; snug knows TemplateProcessing, BertProcessing, "
        "RobertaProcessing, ByteLevel and sequences of these.",
        path, printable(type)));
  }
}

// tokenizer_config.json's add_bos_token / add_eos_token overrule the template, as the reference does.
void apply_switches(const Json& config, const std::string& path, SpecialTokens& tokens) {
  std::vector<int32_t>& opening = tokens.opening_ids;
  if (tokens.bos_id) {
    bool has = !opening.empty() && opening.front() == *tokens.bos_id;
    bool wants = json_bool(config, "add_bos_token", has, path);
    if (wants && !has) {
      opening.insert(opening.begin(), *tokens.bos_id);
    } else if (!wants && has) {
      opening.erase(opening.begin());
    }
  }
  std::vector<int32_t>& closing = tokens.closing_ids;
  if (tokens.eos_id) {
    bool has = !closing.empty() && closing.back() == *tokens.eos_id;
    bool wants = json_bool(config, "add_eos_token", has, path);
    if (wants && !has) {
      closing.push_back(*tokens.eos_id);
    } else if (!wants && has) {
      closing.pop_back();
    }
  }
}

}  // namespace

SpecialTokens read_special_tokens(const std::filesystem::path& folder, const TokenizerFile& file,
                                  const PieceLookup& id_of) {
  ConfigFiles configs{.folder = folder};
  SpecialTokens tokens;
  tokens.bos_id = find_id(configs, "bos_token", id_of, file.bos_id);
  tokens.eos_id = find_id(configs, "eos_token", id_of, file.eos_id);
  if (tokens.eos_id) {
    tokens.stop_ids.push_back(*tokens.eos_id);
  }
  for (const std::vector<int32_t>& ids :
       {configs.generation_ids("eos_token_id"), configs.model_ids("eos_token_id")}) {
    for (int32_t id : ids) {
      if (std::find(tokens.stop_ids.begin(), tokens.stop_ids.end(), id) == tokens.stop_ids.end()) {
        tokens.stop_ids.push_back(id);
      }
    }
  }
  read_post_processor(file.part("post_processor"), file.path, tokens);
  apply_switches(configs.tokenizer, (folder / "tokenizer_config.json").string(), tokens);
  return tokens;
}

}  // namespace snug
