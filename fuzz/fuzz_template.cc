// A chat template from arbitrary bytes: parsing and rendering it ends in text or in an Error. The answers lie
// inside the text, in order.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "base/error.h"
#include "text/chat/chat_template.h"

namespace {

const snug::Json& conversation() {
  static const snug::Json kConversation = snug::Json::parse(R"([
    {"role": "system", "content": "S"}, {"role": "user", "content": "ước \u00df"},
    {"role": "assistant", "content": " a ", "tool_calls": [{"function": {"name": "f", "arguments": {"x": 1.5}}}]},
    {"role": "user", "content": null}, {"role": "assistant", "content": "b"}])");
  return kConversation;
}

// Small, so that hostile templates cost little time: what is counted is counted alike.
constexpr snug::jinja::Limits kLimits = {.steps = 20'000, .bytes = 200'000, .depth = 300};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view source(reinterpret_cast<const char*>(data), size);
  try {
    snug::ChatTemplate chat_template(source, "fuzz", {{"bos_token", "<s>"}, {"eos_token", "</s>"}});
    snug::ChatOptions options;
    options.limits = kLimits;
    snug::RenderedChat chat = chat_template.render_with_answers(conversation(), options);
    for (const snug::AnswerRange& range : chat.assistant) {
      SNUG_CHECK(range.begin <= range.end && range.end <= chat.text.size(), "an answer outside of the text");
    }
  } catch (const snug::Error& error) {
    SNUG_CHECK(error.kind() == snug::ErrorKind::bad_input, error.what());
  }
  return 0;
}
