// The messages of a conversation, brought to one form and checked.
#include "data/rows/messages.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "data/rows/row.h"
#include "io/printable.h"

namespace snug {

namespace {

// "" for a name that is not known.
std::string role_of_sharegpt(const std::string& from) {
  for (const char* user : {"human", "user", "prompter"}) {
    if (from == user) {
      return "user";
    }
  }
  for (const char* assistant : {"gpt", "assistant", "chatgpt", "model", "bot", "bing", "bard"}) {
    if (from == assistant) {
      return "assistant";
    }
  }
  for (const char* tool : {"tool", "observation", "function_response", "ipython"}) {
    if (from == tool) {
      return "tool";
    }
  }
  return from == "system" ? "system" : "";
}

const Json* find(const Json& object, const char* key) {
  auto found = object.find(key);
  return found == object.end() ? nullptr : &*found;
}

// Content as a list, the way OpenAI's interface takes it.
std::string find_part_problem(const Json& parts) {
  for (size_t i = 0; i < parts.size(); ++i) {
    const Json* type = parts[i].is_object() ? find(parts[i], "type") : nullptr;
    if (type == nullptr || !type->is_string()) {
      return fmt::format(
          "has a part {} of its content that has no \"type\"; text is {{\"type\": \"text\", "
          "\"text\": \"...\"}}",
          i + 1);
    }
    if (*type != "text") {
      return fmt::format("holds a part of type {}; only text can be learned from, so leave the row out",
                         in_quotes(type->get_ref<const std::string&>(), 40));
    }
    const Json* text = find(parts[i], "text");
    if (text == nullptr || !text->is_string()) {
      return fmt::format("has a part {} of its content whose \"text\" is no string", i + 1);
    }
  }
  return "";
}

}  // namespace

std::string find_message_problem(const Json& messages) {
  if (messages.empty()) {
    return "the list of messages is empty";
  }
  for (size_t i = 0; i < messages.size(); ++i) {
    const Json& message = messages[i];
    if (!message.is_object()) {
      return fmt::format("message {} is a {}; an object with \"role\" and \"content\" is needed", i + 1,
                         message.type_name());
    }
    const Json* role = find(message, "role");
    if (role == nullptr || !role->is_string()) {
      return fmt::format("message {} has no \"role\" that is a string", i + 1);
    }
    const Json* content = find(message, "content");
    const Json* calls = find(message, "tool_calls");
    bool has_text = content != nullptr && (content->is_string() || content->is_array());
    bool has_calls = calls != nullptr && calls->is_array() && !calls->empty();
    if (!has_text && !has_calls) {
      return fmt::format("message {} has no \"content\" that is a string, nor a list of \"tool_calls\"",
                         i + 1);
    }
    if (content != nullptr && content->is_array()) {
      std::string problem = find_part_problem(*content);
      if (!problem.empty()) {
        return fmt::format("message {} {}", i + 1, problem);
      }
    }
  }
  return "";
}

bool is_known_role(std::string_view role) {
  constexpr std::array<std::string_view, 7> kRoles = {"system", "developer", "user",   "assistant",
                                                      "tool",   "function",  "ipython"};
  return std::find(kRoles.begin(), kRoles.end(), role) != kRoles.end();
}

std::string convert_sharegpt(Json& messages) {
  for (size_t i = 0; i < messages.size(); ++i) {
    Json& message = messages[i];
    if (!message.is_object() || find(message, "role") != nullptr) {
      continue;  // some files mix the two ways; what is wrong is found afterwards
    }
    const Json* from = find(message, "from");
    const Json* value = find(message, "value");
    if (from == nullptr || !from->is_string() || value == nullptr || !value->is_string()) {
      return fmt::format("message {} has no \"from\" and \"value\" that are strings", i + 1);
    }
    std::string role = role_of_sharegpt(from->get_ref<const std::string&>());
    if (role.empty()) {
      return fmt::format("message {} is \"from\" {}; known are system, human, gpt and tool", i + 1,
                         in_quotes(from->get_ref<const std::string&>(), 40));
    }
    message = {{"role", role}, {"content", *value}};
  }
  return "";
}

Json DataRow::as_messages() const {
  if (kind == RowKind::conversation) {
    return messages;
  }
  Json result = Json::array();
  if (!system.empty()) {
    result.push_back({{"role", "system"}, {"content", system}});
  }
  result.push_back({{"role", "user"}, {"content", prompt}});
  result.push_back({{"role", "assistant"}, {"content", completion}});
  return result;
}

}  // namespace snug
