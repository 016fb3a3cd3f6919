// What is likely a mistake in rows: counts and places, for rows whose mistakes are known.
#include "data/data_fixture.h"

namespace snug {
namespace {

class RowFindingsTest : public DataTest {
 protected:
  // Roles are letters: s, u, a, t (a tool). "u:c a:d" are two messages.
  static std::string conversation(const std::vector<std::pair<char, std::string>>& turns) {
    Json messages = Json::array();
    for (const auto& [role, content] : turns) {
      const char* name = role == 's' ? "system" : role == 'u' ? "user" : role == 'a' ? "assistant" : "tool";
      messages.push_back({{"role", name}, {"content", content}});
    }
    return Json{{"messages", messages}}.dump() + "\n";
  }
  static std::string pair(const std::string& prompt, const std::string& completion) {
    return Json{{"prompt", prompt}, {"completion", completion}}.dump() + "\n";
  }
  // Answers begin with b and end with `end`, others begin with a.
  void use_template(const std::string& end) {
    recipe_.data.chat_template = file(
        "turns.jinja",
        "{% for m in messages %}{% if m.role == 'assistant' %}b{{ m.content }}" + end +
            "{% else %}a{{ m.content }}{% endif %}{% endfor %}{% if add_generation_prompt %}b{% endif %}");
  }
  TableFacts facts_of(const std::string& rows) { return facts(load("d.jsonl", rows)); }
};

TEST_F(RowFindingsTest, Conversations) {
  use_template("</s>");
  TableFacts found =
      facts_of(conversation({{'u', "a"}, {'a', "d"}}) +                          // 1
               conversation({{'u', "b"}, {'a', ""}}) +                           // 2: empty
               conversation({{'a', "c"}, {'u', "d"}, {'a', "a"}}) +              // 3: answers nobody
               conversation({{'u', "c"}, {'u', "c"}, {'a', "a"}}) +              // 4: two questions
               conversation({{'u', "d"}, {'a', "d"}, {'u', "c"}}) +              // 5: no last answer
               conversation({{'s', "c"}, {'u', "c"}, {'a', "c"}}) +              // 6
               conversation({{'u', "b"}, {'s', "b"}, {'a', "b"}}) +              // 7: system in the middle
               conversation({{'u', "d"}, {'a', "d"}, {'t', "d"}, {'a', "d"}}) +  // 8: a tool answers
               conversation({{'u', "a"}, {'a', " \n\t"}}) +                      // 9: empty
               conversation({{'u', "a"}, {'a', "a"}, {'a', "a"}}) +              // 10: two answers
               conversation({{'s', "d"}, {'a', "d"}}) +                          // 11: no question
               conversation({{'u', "a"}, {'a', "d"}}) +                          // 12: as 1
               conversation({{'s', "c"}, {'u', "c"}, {'a', "c"}}) +              // 13: as 6
               conversation({{'u', "a"}, {'a', "d"}}));                          // 14: as 1
  EXPECT_EQ(found.rows, 14);
  EXPECT_EQ(found.empty_answers.count, 2);
  EXPECT_SAYS(found.empty_answers.first, "d.jsonl:2");
  EXPECT_EQ(found.wrong_role_order.count, 6);
  EXPECT_SAYS(found.wrong_role_order.first, "d.jsonl:3");
  EXPECT_EQ(found.duplicates.count, 3);
  EXPECT_EQ(found.duplicates.first, "row 12");
  EXPECT_EQ(found.without_end.count, 0) << found.without_end.first;
}

TEST_F(RowFindingsTest, AnswersWithoutAnEnd) {
  use_template("");
  TableFacts found =
      facts_of(conversation({{'u', "a"}, {'a', "d"}}) + conversation({{'u', "c"}, {'a', "d"}}));
  EXPECT_EQ(found.without_end.count, 2);
  EXPECT_SAYS(found.without_end.first, "d.jsonl:1");
  recipe_.data.chat_template.clear();
  EXPECT_EQ(facts_of(pair("a", "d")).without_end.count, 0) << "pairs get the tokenizer's end";
  TinyTokenizer without_eos(tiny_tokenizer_json(), Json::object());
  tokenizer_folder_ = without_eos.folder().path();
  EXPECT_EQ(facts_of(pair("a", "dc") + pair("a", "ddd") + pair("a", "</s>")).without_end.count, 2);
}

TEST_F(RowFindingsTest, ALineBreakBehindTheEndIsNoMissingEnd) {
  use_template("</s>\n");
  for (TrainOn train_on : {TrainOn::completions, TrainOn::everything}) {
    recipe_.data.train_on = train_on;
    EXPECT_EQ(facts_of(conversation({{'u', "a"}, {'a', "d"}})).without_end.count, 0);
  }
  use_template("\n");
  for (TrainOn train_on : {TrainOn::completions, TrainOn::everything}) {
    recipe_.data.train_on = train_on;
    EXPECT_EQ(facts_of(conversation({{'u', "a"}, {'a', "d"}})).without_end.count, 1);
  }
}

TEST_F(RowFindingsTest, PairsWithEmptyAnswers) {
  TableFacts found = facts_of(pair("a", "b") + pair("a", " ") + pair("c", "") + pair("", "d"));
  EXPECT_EQ(found.empty_answers.count, 2);
  EXPECT_SAYS(found.empty_answers.first, "d.jsonl:2");
  EXPECT_EQ(found.nothing_learned.count, 1) << "a space is learned, nothing is not";
  EXPECT_SAYS(found.nothing_learned.first, "d.jsonl:3");
  EXPECT_EQ(found.wrong_role_order.count, 0);
}

TEST_F(RowFindingsTest, RolesThatNoTemplateKnows) {
  use_template("</s>");
  std::string unknown =
      R"({"messages": [{"role": "user", "content": "a"}, {"role": "model", "content": "b"}, )"
      R"({"role": "assistant", "content": "c"}]})"
      "\n";
  std::string developer =
      R"({"messages": [{"role": "developer", "content": "a"}, {"role": "user", "content": "d"}, )"
      R"({"role": "assistant", "content": "c"}]})"
      "\n";
  TableFacts found = facts_of(developer + unknown + conversation({{'u', "d"}, {'a', "d"}}));
  EXPECT_EQ(found.unknown_roles.count, 1);
  EXPECT_SAYS(found.unknown_roles.first, "d.jsonl:2");
}

// The template writes the last answer only: the one before it cannot be learned.
TEST_F(RowFindingsTest, AnswersThatTheTemplateLeavesOut) {
  recipe_.data.chat_template =
      file("last.jinja",
           "{% for m in messages %}{% if m.role != 'assistant' %}a{{ m.content }}{% elif loop.last %}"
           "b{{ m.content }}</s>{% endif %}{% endfor %}{% if add_generation_prompt %}b{% endif %}");
  std::string rows = conversation({{'u', "d"}, {'a', "d"}}) +
                     conversation({{'u', "a"}, {'a', "cc"}, {'u', "b"}, {'a', "d"}});
  TableFacts found = facts_of(rows);
  EXPECT_EQ(found.unfound_answers.count, 1);
  EXPECT_SAYS(found.unfound_answers.first, "d.jsonl:2");
  EXPECT_EQ(found.nothing_learned.count, 0) << "the last answer is learned";
  recipe_.data.train_on = TrainOn::last_completion;
  EXPECT_EQ(facts_of(rows).unfound_answers.count, 0) << "it was not asked for";
}

// A vocabulary without the letters of a language leaves nothing but <unk>.
TEST_F(RowFindingsTest, TextThatTheVocabularyCannotWrite) {
  Json json = tiny_tokenizer_json();
  json["model"]["unk_token"] = "d";  // id 8
  TinyTokenizer with_unknown(json);
  tokenizer_folder_ = with_unknown.folder().path();
  TableFacts found =
      facts_of(pair("a", "bcbcbcbcbcbc") + pair("a", "xyzxyz") + pair("aaaaaaaaaaa", "bbbbbbbbbx"));
  EXPECT_EQ(found.unknown_text.count, 1) << "one strange letter is no matter";
  EXPECT_SAYS(found.unknown_text.first, "d.jsonl:2");
}

// Rows are counted as the file has them, whatever became of those before.
TEST_F(RowFindingsTest, DuplicatesAreNamedByTheirRow) {
  recipe_.data.on_bad_row = OnBadRow::skip;
  TableFacts found = facts_of(pair("a", "b") + "{\"prompt\": 1}\n" + pair("a", "") + pair("a", "c") +
                              pair("a", "b") + pair("a", "b"));
  EXPECT_EQ(found.bad_rows, 1);
  EXPECT_EQ(found.nothing_learned.count, 1);
  EXPECT_EQ(found.duplicates.count, 2);
  EXPECT_EQ(found.duplicates.first, "row 5");
  EXPECT_EQ(facts_of(pair("a", "bc") + pair("ab", "c")).duplicates.count, 0) << "other tokens";
}

// The same tokens, of which others are learned, are another row.
TEST_F(RowFindingsTest, WhatIsLearnedTellsRowsApart) {
  TableFacts found = facts_of(pair("c", "cc") + pair("cc", "c"));
  EXPECT_EQ(found.duplicates.count, 0);
}

}  // namespace
}  // namespace snug
