// A list of prompts, or the name of a file that has them (data/samples.h).
#include "recipe/validation_prompts_key.h"

#include <utility>

#include "recipe/key_types.h"

namespace snug {
namespace {

BadValue bad(const YamlNode& node) {
  return {.where = node, .element = std::nullopt, .did_you_mean = ""};
}

bool is_map(const YamlNode& node) {
  return node.value->kind == YamlValue::Kind::map;
}

// {role: user, content: ...}
std::optional<BadValue> read_message(const YamlNode& node, PromptMessage& message) {
  const std::vector<YamlNode>& items = node.value->items;
  for (size_t i = 0; is_map(node) && i + 1 < items.size(); i += 2) {
    const std::string& name = items[i].value->text;
    std::optional<BadValue> wrong = name == "role"      ? read_text(items[i + 1], message.role)
                                    : name == "content" ? read_lines(items[i + 1], message.content)
                                                        : bad(items[i]);
    if (wrong) {
      return wrong;
    }
  }
  return message.role.empty() || message.content.empty() ? std::optional(bad(node)) : std::nullopt;
}

std::optional<BadValue> read_messages(const YamlNode& node, std::vector<PromptMessage>& messages) {
  if (!is_list(node) || node.value->items.empty()) {
    return bad(node);
  }
  for (const YamlNode& item : node.value->items) {
    if (messages.size() == kMostPromptMessages) {
      return bad(node);
    }
    if (std::optional<BadValue> wrong = read_message(item, messages.emplace_back())) {
      return wrong;
    }
  }
  return std::nullopt;
}

std::optional<BadValue> read_prompt(const YamlNode& node, ValidationPrompt& prompt) {
  if (!is_map(node)) {
    return read_lines(node, prompt.prompt);
  }
  const std::vector<YamlNode>& items = node.value->items;
  for (size_t i = 0; i + 1 < items.size(); i += 2) {
    const std::string& name = items[i].value->text;
    std::optional<BadValue> wrong = name == "prompt"      ? read_lines(items[i + 1], prompt.prompt)
                                    : name == "reference" ? read_lines(items[i + 1], prompt.reference)
                                    : name == "messages"  ? read_messages(items[i + 1], prompt.messages)
                                                          : bad(items[i]);
    if (wrong) {
      return wrong;
    }
  }
  bool has_one = prompt.prompt.empty() != prompt.messages.empty();
  return has_one ? std::nullopt : std::optional(bad(node));
}

std::optional<BadValue> read_prompts(const YamlNode& node, TrainingSection& training) {
  std::vector<ValidationPrompt> prompts;
  std::string file;
  if (is_list(node)) {
    for (size_t i = 0; i < node.value->items.size(); ++i) {
      if (i == kMostValidationPrompts) {
        return bad(node);
      }
      if (std::optional<BadValue> wrong = read_prompt(node.value->items[i], prompts.emplace_back())) {
        wrong->element = i;
        return wrong;
      }
    }
  } else if (!is_null(node)) {
    if (std::optional<BadValue> wrong = read_text(node, file)) {
      return wrong;
    }
  }
  training.validation_prompts = std::move(prompts);
  training.validation_prompts_file = std::move(file);
  return std::nullopt;
}

Json prompts_json(const TrainingSection& training) {
  if (!training.validation_prompts_file.empty()) {
    return training.validation_prompts_file;
  }
  Json list = Json::array();
  for (const ValidationPrompt& prompt : training.validation_prompts) {
    if (prompt.messages.empty() && prompt.reference.empty()) {
      list.push_back(prompt.prompt);
      continue;
    }
    Json& entry = list.emplace_back(Json::object());
    for (const PromptMessage& message : prompt.messages) {
      entry["messages"].push_back({{"role", message.role}, {"content", message.content}});
    }
    if (prompt.messages.empty()) {
      entry["prompt"] = prompt.prompt;
    }
    if (!prompt.reference.empty()) {
      entry["reference"] = prompt.reference;
    }
  }
  return list.empty() ? Json() : list;
}

}  // namespace

RecipeKey validation_prompts_key() {
  RecipeKey key{
      .name = "training.validation_prompts",
      .allowed =
          "a list of prompts, {prompt, reference} and {messages: [{role, content}], reference}, the "
          "name of a file with them, or null",
      .example = "[\"Log: fox\", {prompt: \"2 + 2 =\", reference: \"4\"}]",
      .help =
          "What the model is to answer at every evaluation, [to be read](runs.md#samples) beside the "
          "reference. A prompt is encoded as the data's are: by its chat template, if it has one. A file: "
          "JSONL with the same names (`completion` is a reference too), or text with a prompt a line."};
  key.read = [](const YamlNode& node, Recipe& recipe) { return read_prompts(node, recipe.training); };
  key.print = [](const Recipe& recipe) { return prompts_json(recipe.training); };
  return key;
}

}  // namespace snug
