// A conversation as values that a template can use.
#include "text/chat/values.h"

#include <fmt/format.h>

#include "base/error.h"

namespace snug {

namespace {

using jinja::Dict;
using jinja::Value;

constexpr int kMaxDepth = 100;

Value convert(const Json& document, int depth) {
  if (depth > kMaxDepth) {
    throw bad_input(fmt::format("a conversation is nested more than {} levels deep.", kMaxDepth));
  }
  switch (document.type()) {
    case Json::value_t::boolean:
      return Value(document.get<bool>());
    case Json::value_t::number_integer:
      return Value(document.get<int64_t>());
    case Json::value_t::number_unsigned:
      if (document.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX)) {
        return Value(document.get<double>());
      }
      return Value(document.get<int64_t>());
    case Json::value_t::number_float:
      return Value(document.get<double>());
    case Json::value_t::string:
      return Value(document.get_ref<const std::string&>());
    case Json::value_t::array: {
      std::vector<Value> items;
      items.reserve(document.size());
      for (const Json& item : document) {
        items.push_back(convert(item, depth + 1));
      }
      return Value::list(std::move(items));
    }
    case Json::value_t::object: {
      Dict dict;
      for (const auto& [key, value] : document.get_ref<const Json::object_t&>()) {
        dict.append(Value(key), convert(value, depth + 1));
      }
      return Value(std::make_shared<const Dict>(std::move(dict)));
    }
    default:
      return {};
  }
}

// Reasoning goes by several names; transformers fills in the two that templates read.
Value with_reasoning_names(const Value& message) {
  const Dict& dict = message.dict();
  for (const char* name : {"reasoning_content", "thinking", "reasoning"}) {
    const Value* reasoning = dict.find(std::string_view(name));
    if (reasoning == nullptr || reasoning->is_none()) {
      continue;
    }
    Dict result;
    result.append(Value("thinking"), *reasoning);
    for (const auto& [key, value] : dict.items()) {
      result.set(key.string(), value);
    }
    result.set("reasoning_content", *reasoning);
    return Value(std::make_shared<const Dict>(std::move(result)));
  }
  return message;
}

}  // namespace

Value to_template_value(const Json& document) {
  return convert(document, 0);
}

std::vector<Value> to_template_messages(const Json& messages, const std::string& name) {
  if (!messages.is_array()) {
    throw bad_input(fmt::format("{}: the messages of a conversation must be a list, not {}.", name,
                                messages.type_name()));
  }
  std::vector<Value> result;
  for (const Json& message : messages) {
    if (!message.is_object()) {
      throw bad_input(fmt::format(
          "{}: message {} of a conversation is a JSON {}; an object with \"role\" and \"content\" is "
          "needed.",
          name, result.size() + 1, message.type_name()));
    }
    result.push_back(with_reasoning_names(to_template_value(message)));
  }
  return result;
}

}  // namespace snug
