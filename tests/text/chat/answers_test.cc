// Answers in conversations whose earlier turns the template rewrites, as those of thinking models do. The
// templates are small ones of our own; what is expected was written down by reading them.
#include <gtest/gtest.h>

#include "base/error.h"
#include "text/chat/chat_template.h"

namespace snug {
namespace {

using Strings = std::vector<std::string>;

Json message(const std::string& role, const std::string& content) {
  return {{"role", role}, {"content", content}};
}

Json call(Json arguments) {
  Json result = message("assistant", "");
  result["tool_calls"] =
      Json::array({{{"type", "function"},
                    {"id", "call00001"},
                    {"function", {{"name", "sky"}, {"arguments", std::move(arguments)}}}}});
  return result;
}

struct Found {
  Strings answers;
  std::vector<int64_t> unfound;
  bool operator==(const Found&) const = default;
};

std::ostream& operator<<(std::ostream& out, const Found& found) {
  return out << testing::PrintToString(found.answers) << " without " << testing::PrintToString(found.unfound);
}

Found find(const ChatTemplate& chat_template, const Json& messages) {
  RenderedChat chat = chat_template.render_with_answers(messages);
  EXPECT_EQ(chat.text, chat_template.render(messages));
  Found found{{}, chat.unfound};
  for (const AnswerRange& range : chat.assistant) {
    found.answers.push_back(chat.text.substr(range.begin, range.end - range.begin));
  }
  return found;
}

Json thoughts() {
  return Json::array({message("user", "2+2?"), message("assistant", "<think>\nadd\n</think>\n\n4"),
                      message("user", "3+3?"), message("assistant", "<think>\nmore\n</think>\n\n6")});
}

Json calls() {
  return Json::array({message("user", "How is it?"), call({{"place", "Huế"}, {"days", 2}}),
                      message("tool", "clear"), message("assistant", "It is clear. "),
                      message("user", "Thanks"), message("assistant", "Welcome.")});
}

// Earlier thoughts are dropped; the last turn has them, and an empty one where there is none.
const char* const kDropsThoughts =
    "{% for m in messages %}<|{{ m.role }}|>\n{% if m.role == 'assistant' %}"
    "{% set said = m.content.split('</think>')[-1].lstrip('\n') %}"
    "{% if loop.last %}<think>\n{{ m.content.split('</think>')[0].split('<think>')[-1].strip('\n') if "
    "'</think>' in m.content }}\n</think>\n\n{% endif %}{{ said }}"
    "{% for c in m.tool_calls or [] %}<call>{{ c.function.name }} {{ c.function.arguments | tojson }}</call>"
    "{% endfor %}{% else %}{{ m.content }}{% endif %}<|end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>\n{% endif %}";

TEST(RewrittenHistory, DroppedThoughts) {
  ChatTemplate chat_template(kDropsThoughts, "test");
  EXPECT_EQ(find(chat_template, thoughts()),
            (Found{{"4<|end|>", "<think>\nmore\n</think>\n\n6<|end|>"}, {}}));
  EXPECT_EQ(find(chat_template, calls()),
            (Found{{"<call>sky {\"place\": \"Huế\", \"days\": 2}</call><|end|>", "It is clear. <|end|>",
                    "<think>\n\n</think>\n\nWelcome.<|end|>"},
                   {}}));
}

// The prompt opens a thought, but no answer in the text has one: an answer begins where the header ends.
const char* const kPromptsForThoughts =
    "{{ bos_token }}{% for m in messages %}{% if m.role == 'user' %}<U>{{ m.content }}{% elif m.role == "
    "'tool' %}"
    "<T>{{ m.content }}</T>{% else %}<A>{% for c in m.tool_calls or [] %}<C>{{ c.function.name }}\n"
    "{{ c.function.arguments | tojson }}</C>{% endfor %}{{ m.content.split('</think>')[-1] }}{{ eos_token }}"
    "{% endif %}{% endfor %}{% if add_generation_prompt %}<A><think>\n{% endif %}";

TEST(RewrittenHistory, PromptsThatOpenAThought) {
  ChatTemplate chat_template(kPromptsForThoughts, "test", {{"bos_token", "<s>"}, {"eos_token", "</s>"}});
  EXPECT_EQ(find(chat_template, thoughts()), (Found{{"\n\n4</s>", "\n\n6</s>"}, {}}));
  EXPECT_EQ(find(chat_template, calls()),
            (Found{{"<C>sky\n{\"place\": \"Huế\", \"days\": 2}</C></s>", "It is clear. </s>", "Welcome.</s>"},
                   {}}));
  // What looks like the thought of the prompt is the answer's own.
  Json messages = thoughts();
  messages[1]["content"] = "<think>x</think><b>4</b>";
  EXPECT_EQ(find(chat_template, messages), (Found{{"<b>4</b></s>", "\n\n6</s>"}, {}}));
}

// A message in channels, each with a header of its own; the last ends with another token, and thoughts before
// calls are dropped once there is an answer. The call's name stands in the header of the tool's message too.
const char* const kChannels =
    "{% set ns = namespace(name='') %}{% for m in messages %}{% if m.role == 'assistant' %}{% if "
    "m.tool_calls %}"
    "{% if m.thinking and loop.last %}<start>assistant<channel>analysis<message>{{ m.thinking }}<end>{% "
    "endif %}"
    "{% set ns.name = m.tool_calls[0].function.name %}"
    "<start>assistant to={{ ns.name }}<message>{{ m.tool_calls[0].function.arguments | tojson }}<call>"
    "{% else %}{% if m.thinking and loop.last and not add_generation_prompt %}"
    "<start>assistant<channel>analysis<message>{{ m.thinking }}<end>{% endif %}"
    "<start>assistant<channel>final<message>{{ m.content }}"
    "{{ '<return>' if loop.last and not add_generation_prompt else '<end>' }}{% endif %}"
    "{% elif m.role == 'tool' %}<start>{{ ns.name }} to=assistant<message>{{ m.content | tojson }}<end>"
    "{% else %}<start>{{ m.role }}<message>{{ m.content }}<end>{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<start>assistant{% endif %}";

TEST(RewrittenHistory, Channels) {
  ChatTemplate chat_template(kChannels, "test", {{"eos_token", "<return>"}});
  Json messages = Json::array({message("user", "2+2?"), message("assistant", "4"), message("user", "3+3?"),
                               message("assistant", "6")});
  messages[1]["reasoning_content"] = "add";
  messages[3]["reasoning_content"] = "more";
  EXPECT_EQ(find(chat_template, messages),
            (Found{{"<channel>final<message>4<end>",
                    "<channel>analysis<message>more<end><start>assistant<channel>final<message>6<return>"},
                   {}}));
  messages = calls();
  messages[1]["thinking"] = "ask";
  EXPECT_EQ(find(chat_template, messages),
            (Found{{" to=sky<message>{\"place\": \"Huế\", \"days\": 2}<call>",
                    "<channel>final<message>It is clear. <end>", "<channel>final<message>Welcome.<return>"},
                   {}}));
  messages[1] = call({{"days", 2}});  // no text in the arguments: the name marks the place
  EXPECT_EQ(find(chat_template, messages).answers[0], " to=sky<message>{\"days\": 2}<call>");
}

// Who looks at how a message ends sees no marks: that message is left out of the marking, the others are
// found.
TEST(RewrittenHistory, MessagesThatTheTemplateMeasures) {
  ChatTemplate chat_template(
      "{% for m in messages %}<{{ m.role }}>{{ '!' if m.role == 'user' and m.content.endswith('?') }}"
      "{{ m.content }}{{ '<last>' if m.role == 'assistant' and loop.last and not add_generation_prompt "
      "}}</>{% endfor %}"
      "{% if add_generation_prompt %}<assistant>{% endif %}",
      "test");
  EXPECT_EQ(find(chat_template, thoughts()).answers,
            (Strings{"<think>\nadd\n</think>\n\n4</>", "<think>\nmore\n</think>\n\n6<last></>"}));
}

// A call that the template does not write cannot be learned; the others can, and that is said.
TEST(RewrittenHistory, WhatIsNotWrittenIsNamed) {
  ChatTemplate chat_template(
      "{% for m in messages %}{% if m.content %}<{{ m.role }}>{{ m.content }}</>{% endif %}{{ '.' if "
      "m.role == 'assistant' and loop.last and not add_generation_prompt }}"
      "{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}",
      "test");
  EXPECT_EQ(find(chat_template, calls()), (Found{{"It is clear. </>", "Welcome.</>."}, {1}}));
}

}  // namespace
}  // namespace snug
