// The messages of a conversation, brought to one form and checked.
#include "data/rows/messages.h"

#include <fmt/format.h>

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
    bool has_text = content != nullptr && (content->is_string() || content->is_array());
    if (!has_text && find(message, "tool_calls") == nullptr) {
      return fmt::format("message {} has no \"content\" that is a string", i + 1);
    }
  }
  return "";
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
