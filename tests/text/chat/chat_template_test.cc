// Which part of a rendered conversation is an answer, where templates come from, and the named ones.
#include "text/chat/chat_template.h"

#include <gtest/gtest.h>

#include <fstream>

#include "base/error.h"
#include "support/temporary_folder.h"
#include "test_paths.h"

namespace snug {
namespace {

namespace fs = std::filesystem;
const fs::path kShared = fs::path(SNUG_SOURCE_DIR) / ".." / "shared" / "data" / "tokenizers";

Json message(const std::string& role, const std::string& content) {
  return {{"role", role}, {"content", content}};
}

Json two_turns() {
  return Json::array({message("system", "Be brief."), message("user", "One?"), message("assistant", "First."),
                      message("user", "Two?"), message("assistant", "Second.")});
}

std::vector<std::string> answers(const ChatTemplate& chat_template, const Json& messages,
                                 const ChatOptions& options = {}) {
  RenderedChat chat = chat_template.render_with_answers(messages, options);
  EXPECT_EQ(chat.text, chat_template.render(messages, options));
  std::vector<std::string> result;
  for (const AnswerRange& range : chat.assistant) {
    EXPECT_LE(range.begin, range.end);
    EXPECT_LE(range.end, chat.text.size());
    result.push_back(chat.text.substr(range.begin, range.end - range.begin));
  }
  return result;
}

std::string error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::bad_input);
    return error.what();
  }
  ADD_FAILURE() << "no error";
  return "";
}

using Strings = std::vector<std::string>;

TEST(ChatTemplateAnswers, WhatTheGenerationPromptLeavesOpen) {
  ChatTemplate chat_template(
      "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
      "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}",
      "test");
  EXPECT_EQ(answers(chat_template, two_turns()), (Strings{"First.<|im_end|>", "Second.<|im_end|>"}));
  RenderedChat chat = chat_template.render_with_answers(two_turns());
  EXPECT_EQ(chat.assistant[0].message, 2);
  EXPECT_EQ(chat.assistant[1].message, 4);
  // A generation prompt after the last answer is not part of it.
  EXPECT_EQ(answers(chat_template, two_turns(),
                    {.add_generation_prompt = true, .tools = {}, .variables = {}, .now = {}, .limits = {}}),
            (Strings{"First.<|im_end|>", "Second.<|im_end|>"}));
}

TEST(ChatTemplateAnswers, WhiteSpaceOfTheAnswerStays) {
  ChatTemplate chat_template(
      "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"
      "{% if add_generation_prompt %}assistant: {% endif %}",
      "test");
  Json messages = Json::array({message("user", "q"), message("assistant", "  a  \n\n")});
  EXPECT_EQ(answers(chat_template, messages), (Strings{"  a  \n\n"}));
}

TEST(ChatTemplateAnswers, HeaderIsSkippedWhereTheTemplateHasNoPrompt) {
  ChatTemplate chat_template(
      "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}", "test");
  EXPECT_EQ(answers(chat_template, two_turns()), (Strings{"First.<|im_end|>", "Second.<|im_end|>"}));
}

// The system text moves to the last user turn, so no prefix of the text is the text of a prefix.
TEST(ChatTemplateAnswers, FoundByContentWherePrefixesDisagree) {
  ChatTemplate chat_template(
      "{% for m in messages[1:] %}{% if m.role == 'user' %}[INST] "
      "{{ messages[0].content ~ ' ' if loop.last or loop.revindex == 2 }}{{ m.content }}[/INST]"
      "{% else %} {{ m.content | trim }}</s>{% endif %}{% endfor %}",
      "test");
  Json messages = two_turns();
  messages[2]["content"] = " First. ";
  EXPECT_EQ(answers(chat_template, messages)[0], " First.</s>");
  EXPECT_EQ(answers(chat_template, messages)[1], " Second.</s>");
}

// A token that ends the whole text is not there after earlier answers.
TEST(ChatTemplateAnswers, EndOfTextIsNotEndOfTurn) {
  ChatTemplate chat_template(
      "{% for m in messages %}<|{{ m.role }}|>\n{{ m.content }}<|end|>\n{% endfor %}"
      "{% if add_generation_prompt %}<|assistant|>\n{% else %}{{ eos_token }}{% endif %}",
      "test", {{"eos_token", "</s>"}});
  EXPECT_EQ(answers(chat_template, two_turns()), (Strings{"First.<|end|>", "Second.<|end|>\n</s>"}));
}

TEST(ChatTemplateAnswers, RefusesToGuess) {
  ChatTemplate chat_template(
      "{% for m in messages %}{{ loop.revindex }}{{ m.content | upper | replace('\uE0F0', '') }}{% endfor %}",
      "loud.jinja");
  std::string error = error_of([&] { chat_template.render_with_answers(two_turns()); });
  EXPECT_NE(error.find("loud.jinja: cannot tell which part"), std::string::npos) << error;
  EXPECT_NE(error.find("message 3 of 5"), std::string::npos) << error;
}

TEST(ChatTemplateAnswers, MarksCount) {
  ChatTemplate chat_template(
      "{% for m in messages %}{{ m.role }}{% if m.role == 'assistant' %}"
      "{% generation %}{{ m.content }}!{% endgeneration %}{% endif %}{% endfor %}",
      "test");
  EXPECT_EQ(answers(chat_template, two_turns()), (Strings{"First.!", "Second.!"}));
}

// A mark inside a macro has no place in the text of its own; the answers are found all the same.
TEST(ChatTemplateAnswers, MarksInMacros) {
  ChatTemplate chat_template(
      "{% macro say(m) %}{% generation %}{{ m.content }}<e>{% endgeneration %}{% endmacro %}"
      "{% for m in messages %}<{{ m.role }}>{{ say(m) }}{% endfor %}"
      "{% if add_generation_prompt %}<assistant>{% endif %}",
      "test");
  EXPECT_EQ(answers(chat_template, two_turns()), (Strings{"First.<e>", "Second.<e>"}));
}

TEST(ChatTemplateNamed, Chatml) {
  ChatTemplate chat_template = load_chat_template("chatml", "no-such-folder");
  EXPECT_EQ(chat_template.render(
                two_turns(),
                {.add_generation_prompt = true, .tools = {}, .variables = {}, .now = {}, .limits = {}}),
            "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nOne?<|im_end|>\n"
            "<|im_start|>assistant\nFirst.<|im_end|>\n<|im_start|>user\nTwo?<|im_end|>\n"
            "<|im_start|>assistant\nSecond.<|im_end|>\n<|im_start|>assistant\n");
  EXPECT_EQ(answers(chat_template, two_turns()), (Strings{"First.<|im_end|>", "Second.<|im_end|>"}));
}

TEST(ChatTemplateNamed, Others) {
  Json tokens = {{"bos_token", "<s>"}, {"eos_token", "</s>"}};
  auto rendered = [&](const char* name) {
    return ChatTemplate(*named_chat_template_source(name), name, tokens).render(two_turns());
  };
  EXPECT_EQ(rendered("llama-2"),
            "<s>[INST] <<SYS>>\nBe brief.\n<</SYS>>\n\nOne? [/INST] First. </s><s>[INST] Two? [/INST] "
            "Second. </s>");
  EXPECT_EQ(rendered("mistral"),
            "<s>[INST] Be brief.\n\nOne?[/INST] First.</s>[INST] Two?[/INST] Second.</s>");
  EXPECT_EQ(rendered("llama-3"),
            "<s><|start_header_id|>system<|end_header_id|>\n\nBe brief.<|eot_id|>"
            "<|start_header_id|>user<|end_header_id|>\n\nOne?<|eot_id|>"
            "<|start_header_id|>assistant<|end_header_id|>\n\nFirst.<|eot_id|>"
            "<|start_header_id|>user<|end_header_id|>\n\nTwo?<|eot_id|>"
            "<|start_header_id|>assistant<|end_header_id|>\n\nSecond.<|eot_id|>");
  EXPECT_EQ(rendered("zephyr"),
            "<|system|>\nBe brief.</s>\n<|user|>\nOne?</s>\n<|assistant|>\nFirst.</s>\n"
            "<|user|>\nTwo?</s>\n<|assistant|>\nSecond.</s>\n");
  EXPECT_EQ(rendered("alpaca"),
            "<s>Be brief.\n\n### Instruction:\nOne?\n\n### Response:\nFirst.</s>"
            "\n\n### Instruction:\nTwo?\n\n### Response:\nSecond.</s>");
  for (const std::string& name : named_chat_templates()) {
    ChatTemplate chat_template(*named_chat_template_source(name), name, tokens);
    EXPECT_EQ(answers(chat_template, two_turns()).size(), 2U) << name;
  }
}

void write(const fs::path& path, const std::string& text) {
  std::ofstream(path) << text;
}

TEST(ChatTemplateLoad, FromTheModelsFolder) {
  TemporaryFolder folder;
  EXPECT_FALSE(find_chat_template(folder.path()).has_value());
  std::string error = error_of([&] { load_chat_template("", folder.path()); });
  EXPECT_NE(error.find("ships no chat template"), std::string::npos) << error;

  write(folder / "tokenizer_config.json",
        R"({"eos_token": {"content": "<eos>"}, "chat_template": [{"name": "rag", "template": "no"},
            {"name": "default", "template": "{{ messages[0].content }}{{ eos_token }}"}]})");
  Json messages = Json::array({message("user", "hi")});
  EXPECT_EQ(load_chat_template("", folder.path()).render(messages), "hi<eos>");

  write(folder / "special_tokens_map.json", R"({"bos_token": "<bos>", "eos_token": "<other>"})");
  write(folder / "chat_template.jinja", "{{ bos_token }}{{ messages[0].role }}{{ eos_token }}\n");
  EXPECT_EQ(load_chat_template("", folder.path()).render(messages), "<bos>user<eos>");

  write(folder / "own.jinja", "{{ bos_token }}mine");
  EXPECT_EQ(load_chat_template((folder / "own.jinja").string(), folder.path()).render(messages), "<bos>mine");
  error = error_of([&] { load_chat_template("alpacca", folder.path()); });
  EXPECT_NE(error.find("alpacca: no such chat template. There are alpaca, chatml"), std::string::npos)
      << error;

  write(folder / "tokenizer_config.json",
        R"({"chat_template": [{"name": "a", "template": "x"}, {"name": "b"}]})");
  fs::remove(folder / "chat_template.jinja");
  error = error_of([&] { load_chat_template("", folder.path()); });
  EXPECT_NE(error.find("found \"a\", \"b\""), std::string::npos) << error;
}

TEST(ChatTemplateLoad, Qwen) {
  fs::path folder = kShared / "qwen2.5";
  if (!fs::exists(folder)) {
    GTEST_SKIP() << folder << " is not there";
  }
  ChatTemplate chat_template = load_chat_template("", folder);
  Json messages = Json::array({message("user", "Hi"), message("assistant", "Hello")});
  EXPECT_EQ(chat_template.render(messages),
            "<|im_start|>system\nYou are Qwen, created by Alibaba Cloud. You are a helpful "
            "assistant.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\nHello<|im_end|>\n");
  EXPECT_EQ(answers(chat_template, two_turns()), (Strings{"First.<|im_end|>", "Second.<|im_end|>"}));
  Json call = message("assistant", "");
  call["tool_calls"] = {{{"function", {{"name", "f"}, {"arguments", {{"x", 1}}}}}}};
  EXPECT_EQ(answers(chat_template, Json::array({message("user", "q"), call})),
            (Strings{"<tool_call>\n{\"name\": \"f\", \"arguments\": {\"x\": 1}}\n</tool_call><|im_end|>"}));
}

TEST(ChatTemplateLoad, Mistral) {
  fs::path folder = kShared / "mistral-v0.3";
  if (!fs::exists(folder)) {
    GTEST_SKIP() << folder << " is not there";
  }
  ChatTemplate chat_template = load_chat_template("", folder);
  EXPECT_EQ(answers(chat_template, two_turns()), (Strings{" First.</s>", " Second.</s>"}));
  std::string error = error_of([&] { chat_template.render(Json::array({message("assistant", "x")})); });
  EXPECT_NE(error.find("the chat template refuses this conversation: After the optional system message"),
            std::string::npos)
      << error;
}

}  // namespace
}  // namespace snug
