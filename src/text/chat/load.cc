// Finding a chat template: in the model's folder, under a name, or in a file of the user's own.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "io/atomic_file.h"
#include "io/printable.h"
#include "text/chat/chat_template.h"

namespace snug {

namespace {

namespace fs = std::filesystem;

Json read_if_there(const fs::path& path) {
  return fs::exists(path) ? read_json(path) : Json::object();
}

// bos_token and the like: a string, or an object whose "content" it is.
void add_tokens(const Json& config, Json& tokens) {
  for (const auto& [key, value] : config.items()) {
    bool is_token = key.ends_with("_token") && !tokens.contains(key);
    if (is_token && value.is_string()) {
      tokens[key] = value;
    } else if (is_token && value.is_object() && value.contains("content") && value["content"].is_string()) {
      tokens[key] = value["content"];
    }
  }
}

Json read_special_token_texts(const fs::path& folder, const Json& config) {
  Json tokens = Json::object();
  if (config.is_object()) {
    add_tokens(config, tokens);
  }
  Json map = read_if_there(folder / "special_tokens_map.json");
  if (map.is_object()) {
    add_tokens(map, tokens);
  }
  return tokens;
}

// "chat_template" is the text, or a list of {name, template} of which "default" counts.
std::optional<std::string> template_in_config(const Json& config, const std::string& path) {
  if (!config.is_object() || !config.contains("chat_template") || config["chat_template"].is_null()) {
    return std::nullopt;
  }
  const Json& found = config["chat_template"];
  if (found.is_string()) {
    return found.get<std::string>();
  }
  std::vector<std::string> names;
  if (found.is_array()) {
    for (const Json& entry : found) {
      std::string name = json_string(entry, "name", "", path);
      if (name == "default" || found.size() == 1) {
        return json_string(entry, "template", "", path);
      }
      names.push_back(in_quotes(name, 40));
    }
  }
  throw bad_input(fmt::format(
      "{}: \"chat_template\" must be a string, or a list with one named \"default\"; found {}. Name a "
      "template "
      "yourself.",
      path, names.empty() ? std::string(found.type_name()) : fmt::format("{}", fmt::join(names, ", "))));
}

}  // namespace

std::optional<ChatTemplate> find_chat_template(const fs::path& model_folder) {
  fs::path config_path = model_folder / "tokenizer_config.json";
  Json config = read_if_there(config_path);
  Json tokens = read_special_token_texts(model_folder, config);
  fs::path own_file = model_folder / "chat_template.jinja";
  if (fs::exists(own_file)) {
    return ChatTemplate(read_text_file(own_file), own_file.string(), std::move(tokens));
  }
  std::optional<std::string> source = template_in_config(config, config_path.string());
  if (!source) {
    return std::nullopt;
  }
  return ChatTemplate(*source, config_path.string() + " (chat_template)", std::move(tokens));
}

bool ships_chat_template(const fs::path& model_folder) {
  return fs::exists(model_folder / "chat_template.jinja") ||
         read_if_there(model_folder / "tokenizer_config.json").contains("chat_template");
}

ChatTemplate load_chat_template(const std::string& wanted, const fs::path& model_folder) {
  std::string names = fmt::format("{}", fmt::join(named_chat_templates(), ", "));
  if (wanted.empty() || wanted == kModelsOwnTemplate) {
    if (std::optional<ChatTemplate> found = find_chat_template(model_folder)) {
      return std::move(*found);
    }
    throw bad_input(
        fmt::format("{}: the model ships no chat template (no chat_template.jinja, and none in "
                    "tokenizer_config.json). Name one ({}), or give a file of your own.",
                    model_folder.string(), names));
  }
  Json tokens = read_special_token_texts(model_folder, read_if_there(model_folder / "tokenizer_config.json"));
  if (std::optional<std::string_view> source = named_chat_template_source(wanted)) {
    return ChatTemplate(*source, wanted, std::move(tokens));
  }
  if (!fs::is_regular_file(wanted)) {
    throw bad_input(
        fmt::format("{}: no such chat template. There are {}; or give a file with a Jinja template.",
                    printable(wanted, 200), names));
  }
  return ChatTemplate(read_text_file(wanted), wanted, std::move(tokens));
}

}  // namespace snug
