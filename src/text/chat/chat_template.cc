// Rendering a conversation with a chat template.
#include "text/chat/chat_template.h"

#include <fmt/format.h>

#include "base/error.h"
#include "text/chat/answers.h"
#include "text/chat/values.h"
#include "text/jinja/evaluator.h"
#include "text/jinja/parser.h"
#include "text/jinja/runtime.h"

namespace snug {

ChatTemplate::ChatTemplate(std::string_view source, std::string name, Json special_tokens)
    : template_(std::make_shared<const jinja::Template>(jinja::parse_template(source, std::move(name)))),
      special_tokens_(std::move(special_tokens)) {}

const std::string& ChatTemplate::name() const {
  return template_->name;
}

std::string ChatTemplate::special_token(const std::string& name) const {
  return special_tokens_.is_object() && special_tokens_.contains(name) && special_tokens_[name].is_string()
             ? special_tokens_[name].get<std::string>()
             : "";
}

jinja::Rendering ChatTemplate::render_values(std::vector<jinja::Value> messages, bool add_generation_prompt,
                                             const ChatOptions& options) const {
  jinja::Runtime runtime(template_->name, options.limits, options.now);
  jinja::Evaluator evaluator(*template_, runtime);
  for (const Json* variables : {&special_tokens_, &options.variables}) {
    if (variables->is_object()) {
      for (const auto& [key, value] : variables->get_ref<const Json::object_t&>()) {
        evaluator.define(key, to_template_value(value));
      }
    }
  }
  evaluator.define("messages", jinja::Value::list(std::move(messages)));
  evaluator.define("tools", to_template_value(options.tools));
  if (!options.variables.is_object() || !options.variables.contains("documents")) {
    evaluator.define("documents", {});
  }
  evaluator.define("add_generation_prompt", jinja::Value(add_generation_prompt));
  return evaluator.render();
}

std::string ChatTemplate::render(const Json& messages, const ChatOptions& options) const {
  return render_values(to_template_messages(messages, name()), options.add_generation_prompt, options).text;
}

RenderedChat ChatTemplate::render_with_answers(const Json& messages, const ChatOptions& options) const {
  return AnswerFinder(*this, to_template_messages(messages, name()), options).find();
}

}  // namespace snug
