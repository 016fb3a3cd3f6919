// Chat templates: how a conversation becomes the text that a model reads. They are Jinja templates that come
// with a model, rendered to the same text as by Jinja2 under transformers.
#pragma once

#include <cstdint>
#include <ctime>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "io/json.h"
#include "text/jinja/limits.h"

namespace snug {

namespace jinja {
struct Template;
struct Rendering;
class Value;
}  // namespace jinja

struct ChatOptions {
  bool add_generation_prompt = false;  // end with what comes before an answer
  Json tools;                          // null, or the list of tools as JSON schemas
  Json variables;                      // null, or an object: more variables for the template
  std::optional<std::tm> now;          // for strftime_now; the clock's time if it is not given
  jinja::Limits limits;                // of one rendering
};

// The bytes of the rendered text that are one answer, with the token that ends its turn.
struct AnswerRange {
  size_t begin = 0;
  size_t end = 0;
  int64_t message = -1;  // index into the messages; -1 if the template's marks do not tell
};

struct RenderedChat {
  std::string text;
  std::vector<AnswerRange> assistant;  // every answer that was found, in order
  std::vector<int64_t> unfound = {};   // the messages of those that the template changed beyond recognition
};

// All methods are const and may be called from several threads at once.
class ChatTemplate {
 public:
  // `name` is for messages. `special_tokens` holds bos_token and the like, which the template may use. Throws
  // bad_input with line and column for what is wrong or not supported.
  ChatTemplate(std::string_view source, std::string name, Json special_tokens = Json::object());

  const std::string& name() const;

  // `messages` is a list of objects with "role" and "content". Throws bad_input if the template refuses them.
  std::string render(const Json& messages, const ChatOptions& options = {}) const;

  // Also says which parts are the answers of the role "assistant": by the template's {% generation %} marks;
  // else by what each answer adds to the conversation before it; else by what stands around it. Throws
  // bad_input if none of these can tell of any answer.
  RenderedChat render_with_answers(const Json& messages, const ChatOptions& options = {}) const;

 private:
  friend class AnswerFinder;
  jinja::Rendering render_values(std::vector<jinja::Value> messages, bool add_generation_prompt,
                                 const ChatOptions& options) const;
  std::string special_token(const std::string& name) const;

  std::shared_ptr<const jinja::Template> template_;
  Json special_tokens_;
};

// The template that a model folder ships in chat_template.jinja or in tokenizer_config.json; nothing if it
// has none.
std::optional<ChatTemplate> find_chat_template(const std::filesystem::path& model_folder);

// Whether it ships one at all, sound or not.
bool ships_chat_template(const std::filesystem::path& model_folder);

// Asks for the template that the model brings, whatever the rows are.
inline constexpr std::string_view kModelsOwnTemplate = "model";

// `wanted` is "" or "model" for the model's own, a name of named_chat_templates(), or a file. Throws
// bad_input if there is no such template.
ChatTemplate load_chat_template(const std::string& wanted, const std::filesystem::path& model_folder);

// Templates that snug brings: alpaca, chatml, llama-2, llama-3, mistral, zephyr.
std::vector<std::string> named_chat_templates();
// Nothing if there is none of that name.
std::optional<std::string_view> named_chat_template_source(std::string_view name);

}  // namespace snug
