// Probing a template, and bringing messages to its liking.
#include "data/rows/message_style.h"

#include <optional>
#include <string>

#include "base/error.h"

namespace snug {
namespace {

// A word that no template writes by itself.
constexpr const char* kProbe = "zyxwv";

std::optional<std::string> try_to_render(const ChatTemplate& chat_template, const Json& messages) {
  try {
    return chat_template.render(messages);
  } catch (const Error&) {
    return std::nullopt;
  }
}

Json question(Json content) {
  return {{"role", "user"}, {"content", std::move(content)}};
}

bool takes_parts(const ChatTemplate& chat_template) {
  Json answer = {{"role", "assistant"}, {"content", "b"}};
  Json parts = Json::array({{{"type", "text"}, {"text", kProbe}}});
  std::optional<std::string> by_string =
      try_to_render(chat_template, Json::array({question(kProbe), answer}));
  return by_string && by_string == try_to_render(chat_template, Json::array({question(parts), answer}));
}

Json conversation_with_call(Json arguments) {
  Json function = {{"name", "f"}, {"arguments", std::move(arguments)}};
  Json call = {{"id", "call00001"}, {"type", "function"}, {"function", std::move(function)}};
  Json answer = {{"role", "assistant"}, {"content", ""}, {"tool_calls", Json::array({std::move(call)})}};
  return Json::array({question("a"), std::move(answer)});
}

// A template that only joins strings fails on an object, or writes it as Python would.
bool wants_arguments_text(const ChatTemplate& chat_template) {
  Json arguments = {{kProbe, 1}};
  std::string text = "{\"" + std::string(kProbe) + "\": 1}";
  std::optional<std::string> by_object = try_to_render(chat_template, conversation_with_call(arguments));
  std::optional<std::string> by_text = try_to_render(chat_template, conversation_with_call(text));
  if (!by_text || by_text->find(text) == std::string::npos) {
    return false;
  }
  return !by_object || by_object->find("\"" + std::string(kProbe)) == std::string::npos;
}

std::string joined_text(const Json& parts) {
  std::string text;
  for (const Json& part : parts) {
    text += part["text"].get_ref<const std::string&>();
  }
  return text;
}

// OpenAI writes arguments as JSON text, transformers' documentation as objects.
void style_arguments(Json& arguments, const MessageStyle& style) {
  if (style.wants_arguments_text && arguments.is_object()) {
    arguments = arguments.dump();
  } else if (!style.wants_arguments_text && arguments.is_string()) {
    try {
      Json object = parse_json(arguments.get_ref<const std::string&>(), "arguments");
      if (object.is_object()) {
        arguments = std::move(object);
      }
    } catch (const Error&) {  // whatever it is, the template gets it as it stands
      return;
    }
  }
}

void style_call(Json& call, const MessageStyle& style) {
  if (!call.is_object()) {
    return;
  }
  auto function = call.find("function");
  Json& holder = function != call.end() && function->is_object() ? *function : call;
  if (auto arguments = holder.find("arguments"); arguments != holder.end()) {
    style_arguments(*arguments, style);
  }
}

}  // namespace

MessageStyle message_style(const ChatTemplate& chat_template) {
  return {.takes_parts = takes_parts(chat_template),
          .wants_arguments_text = wants_arguments_text(chat_template)};
}

Json styled_messages(const Json& messages, const MessageStyle& style) {
  Json result = messages;
  for (Json& message : result) {
    auto content = message.find("content");
    bool is_answer = message["role"] == "assistant";
    if (content != message.end() && content->is_array() && (is_answer || !style.takes_parts)) {
      *content = joined_text(*content);
    }
    auto calls = message.find("tool_calls");
    if (calls != message.end() && calls->is_array()) {
      for (Json& call : *calls) {
        style_call(call, style);
      }
    }
  }
  return result;
}

}  // namespace snug
