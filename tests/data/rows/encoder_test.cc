// Rows to tokens: one end token, and messages as the template understands them.
#include "data/data_fixture.h"
#include "data/rows/message_style.h"

namespace snug {
namespace {

constexpr int32_t kEnd = 21;  // </s> of the tiny tokenizer

class RowEncoderTest : public DataTest {
 protected:
  Ids ids(const Json& row) { return ids_of(load("d.jsonl", row.dump() + "\n"), 0); }
};

TEST_F(RowEncoderTest, ARowThatBringsItsEndTokenGetsNoSecond) {
  EXPECT_EQ(ids({{"text", "ab"}}), (Ids{5, kEnd}));
  EXPECT_EQ(ids({{"text", "ab</s>"}}), (Ids{5, kEnd}));
  EXPECT_EQ(ids({{"prompt", "a"}, {"completion", "b</s>"}}), (Ids{0, 1, kEnd}));
  EXPECT_EQ(ids({{"prompt", "a</s>"}, {"completion", "b"}}), (Ids{0, kEnd, 1, kEnd}))
      << "the prompt's is another";
  EXPECT_EQ(ids({{"text", "a</s>b"}}), (Ids{0, kEnd, 1, kEnd})) << "it is not at the end";
  decoder_start_id_ = 3;
  Dataset pairs = load("p.jsonl", Json{{"prompt", "ab</s>"}, {"completion", "c</s>"}}.dump());
  EXPECT_EQ(source_ids_of(pairs, 0), (Ids{5, kEnd}));
  EXPECT_EQ(targets_of(pairs, 0), (Ids{2, kEnd}));
}

TEST_F(RowEncoderTest, AnyTokenThatEndsAnswersIsAnEnd) {
  write_raw(tokenizer_folder_ / "generation_config.json", R"({"eos_token_id": [21, 22]})");
  EXPECT_EQ(ids({{"text", "ab<tool>"}}), (Ids{5, 22}));
}

Json text_part(const std::string& text) {
  return {{"type", "text"}, {"text", text}};
}

TEST_F(RowEncoderTest, TextPartsAreOneTextWhereTheTemplateWantsStrings) {
  recipe_.data.chat_template =
      file("strings.jinja", "{% for m in messages %}{{ m.content }}{% endfor %}</s>");
  Json parts = Json::array({text_part("a"), text_part("b")});
  Json row = {{"messages",
               {{{"role", "user"}, {"content", parts}},
                {{"role", "assistant"}, {"content", Json::array({text_part("c"), text_part("d")})}}}}};
  EXPECT_EQ(ids(row), (Ids{5, 2, 8, kEnd}));
}

TEST_F(RowEncoderTest, ATemplateThatKnowsPartsGetsThem) {
  recipe_.data.chat_template = file("parts.jinja",
                                    "{% for m in messages %}{% if m.content is string %}{{ m.content }}"
                                    "{% else %}{% for p in m.content %}{{ p.text }}"
                                    "{% if not loop.last %}d{% endif %}{% endfor %}{% endif %}{% endfor %}");
  Json parts = Json::array({text_part("a"), text_part("b")});
  Json row = {
      {"messages", {{{"role", "user"}, {"content", parts}}, {{"role", "assistant"}, {"content", "c"}}}}};
  EXPECT_EQ(ids(row), (Ids{0, 8, 1, 2})) << "a, the template's own d, b, then the answer";
}

TEST_F(RowEncoderTest, WhatIsNoTextIsRefusedByName) {
  recipe_.data.chat_template = "chatml";
  Json parts = Json::array({text_part("a"), {{"type", "image_url"}, {"image_url", {{"url", "x"}}}}});
  Json row = {
      {"messages", {{{"role", "user"}, {"content", parts}}, {{"role", "assistant"}, {"content", "c"}}}}};
  std::string message = error_text(ErrorKind::bad_input, [&] { ids(row); });
  EXPECT_SAYS(message, "d.jsonl:1: message 1 holds a part of type \"image_url\"");
}

// OpenAI writes the arguments of a call as JSON text, transformers as an object, and templates want one or
// the other: the text holds them once, however the row has them.
class ToolCallStyle : public testing::TestWithParam<std::pair<const char*, const char*>> {};

TEST_P(ToolCallStyle, ArgumentsAreWrittenOnce) {
  ChatTemplate chat("{% for m in messages %}{{ m.content }}{% for t in m.tool_calls or [] %}" +
                        std::string(GetParam().first) + "{% endfor %}{% endfor %}",
                    "calls");
  MessageStyle style = message_style(chat);
  for (Json arguments : {Json{{"city", "Paris"}}, Json("{\"city\": \"Paris\"}")}) {
    Json call = {{"type", "function"}, {"function", {{"name", "weather"}, {"arguments", arguments}}}};
    Json messages = {{{"role", "user"}, {"content", "?"}},
                     {{"role", "assistant"}, {"content", ""}, {"tool_calls", Json::array({call})}}};
    std::string text = chat.render(styled_messages(messages, style));
    text.erase(std::remove(text.begin(), text.end(), ' '), text.end());  // JSON may have them or not
    EXPECT_EQ(text, GetParam().second);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Templates, ToolCallStyle,
    testing::Values(std::pair{"{{ t.function.arguments | tojson }}", "?{\"city\":\"Paris\"}"},
                    std::pair{"{{ '<' + t.function.arguments + '>' }}", "?<{\"city\":\"Paris\"}>"},
                    std::pair{"{{ t.function.arguments }}", "?{\"city\":\"Paris\"}"},
                    std::pair{"{% for k, v in t.function.arguments | items %}{{ k }}={{ v }}{% endfor %}",
                              "?city=Paris"},
                    std::pair{"{{ t.function.arguments if t.function.arguments is string else "
                              "t.function.arguments | tojson }}",
                              "?{\"city\":\"Paris\"}"}));

}  // namespace
}  // namespace snug
