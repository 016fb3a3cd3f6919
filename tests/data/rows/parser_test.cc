// Rows of every format, broken rows with their reasons, and what `auto` decides.
#include "data/rows/parser.h"

#include <gtest/gtest.h>

#include <fstream>
#include <functional>

#include "base/error.h"
#include "support/temporary_folder.h"

namespace snug {
namespace {

namespace fs = std::filesystem;
using Strings = std::vector<std::string>;

class RowParserTest : public testing::Test {
 protected:
  RowChunk chunk(const std::string& name, const std::string& text) {
    std::ofstream(folder_ / name, std::ios::binary) << text;
    RowSource source({folder_ / name});
    return *source.next();
  }
  ParsedChunk parse(const std::string& name, const std::string& text) {
    RowChunk first = chunk(name, text);
    return RowParser(detect_row_format(first)).parse(first);
  }
  // Of rows that must all be good.
  std::vector<DataRow> rows(const std::string& name, const std::string& text) {
    ParsedChunk parsed = parse(name, text);
    for (const BadRow& bad : parsed.bad) {
      ADD_FAILURE() << bad.reason;
    }
    return std::move(parsed.rows);
  }
  std::string format_of(const std::string& name, const std::string& text) {
    try {
      return detect_row_format(chunk(name, text)).description;
    } catch (const Error& error) {
      return error.what();
    }
  }
  TemporaryFolder folder_;
};

TEST_F(RowParserTest, Pairs) {
  auto check = [&](const std::string& name, const std::string& text, const std::string& prompt) {
    std::vector<DataRow> found = rows(name, text);
    ASSERT_EQ(found.size(), 1U) << text;
    EXPECT_EQ(found[0].kind, RowKind::pair);
    EXPECT_EQ(found[0].prompt, prompt);
    EXPECT_EQ(found[0].completion, "a\né");
  };
  check("a.jsonl", R"({"prompt": "q", "completion": "a\n\u00e9"})", "q");
  check("a.jsonl", R"({"response": "a\né", "prompt": "q"})", "q");
  check("a.jsonl", R"({"input": "q", "output": "a\né", "extra": {"x": [1]}})", "q");
  check("a.jsonl", R"({"instruction": "do", "input": "", "output": "a\né"})", "do");
  check("a.jsonl", R"({"instruction": "do", "input": "this", "output": "a\né"})", "do\n\nthis");
  check("a.jsonl", R"({"instruction": "do", "input": null, "output": "a\né"})", "do");
  check("a.json", "[\n{\"prompt\": \"q\",\n \"completion\": \"a\\n\u00e9\"}\n]\n", "q");
  check("a.csv", "\"prompt\",completion\n\"q\"\"1\"\"\",\"a\n\u00e9\"\n", "q\"1\"");
  check("a.tsv", "prompt\tresponse\nq, r\t\"a\n\u00e9\"\n", "q, r");
}

TEST_F(RowParserTest, PairAsMessages) {
  DataRow row = rows("a.jsonl", R"({"system": "s", "prompt": "q", "completion": "a"})")[0];
  EXPECT_EQ(row.as_messages(),
            Json::parse(R"([{"role": "system", "content": "s"}, {"role": "user", "content": "q"},
                                              {"role": "assistant", "content": "a"}])"));
}

TEST_F(RowParserTest, Conversations) {
  Json expected = Json::parse(R"([{"role": "system", "content": "s"}, {"role": "user", "content": "q"},
                                  {"role": "assistant", "content": "a"}])");
  for (
      const char* text :
      {R"({"messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]})",
       R"({"conversations": [{"from": "system", "value": "s"}, {"from": "human", "value": "q"}, {"from": "gpt", "value": "a"}]})",
       R"({"system": "s", "conversations": [{"from": "human", "value": "q"}, {"from": "gpt", "value": "a"}]})",
       R"({"prompt": [{"role": "system", "content": "s"}, {"role": "user", "content": "q"}], "completion": [{"role": "assistant", "content": "a"}]})"}) {
    std::vector<DataRow> found = rows("a.jsonl", text);
    ASSERT_EQ(found.size(), 1U);
    EXPECT_EQ(found[0].kind, RowKind::conversation);
    EXPECT_EQ(found[0].messages, expected) << text;
  }
  DataRow call = rows("a.json", R"([{"messages": [{"role": "user", "content": "q"},
      {"role": "assistant", "content": null, "tool_calls": [
          {"function": {"name": "f", "arguments": {"x": 1.5, "y": -2}}}]}],
      "tools": "[{\"name\": \"f\"}]"}])")[0];
  EXPECT_EQ(call.messages[1]["tool_calls"][0]["function"]["arguments"]["y"], -2);
  EXPECT_EQ(call.tools[0]["name"], "f");
}

TEST_F(RowParserTest, Text) {
  std::vector<DataRow> found = rows("a.txt", "one\r\ntwo\r\n\r\nthree\n");
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].text, "one\ntwo");
  EXPECT_EQ(found[1].place.line, 4);
  EXPECT_EQ(rows("a.jsonl", R"({"id": 1, "text": "a\tb"})")[0].text, "a\tb");
}

TEST_F(RowParserTest, Columns) {
  RowChunk first = chunk("a.jsonl", R"({"question": "q", "hint": "h", "answer": "a", "role": null})");
  RowParser parser(row_format_from_columns({"Q: {question} {{{hint}}}\n", "answer", "role"}));
  ParsedChunk parsed = parser.parse(first);
  ASSERT_EQ(parsed.rows.size(), 1U);
  EXPECT_EQ(parsed.rows[0].prompt, "Q: q {h}\n");
  EXPECT_EQ(parsed.rows[0].completion, "a");
  RowParser lists(row_format_from_columns({"{title} for {people}: {parts}", "steps", ""}));
  parsed = lists.parse(chunk(
      "b.jsonl", R"({"title": "Pie", "people": 4, "parts": ["flour", "eggs"], "steps": ["Mix.", "Bake."]})"));
  ASSERT_EQ(parsed.rows.size(), 1U) << parsed.bad.at(0).reason;
  EXPECT_EQ(parsed.rows[0].prompt, "Pie for 4: flour\neggs");
  EXPECT_EQ(parsed.rows[0].completion, "Mix.\nBake.");
  parsed = lists.parse(chunk("c.jsonl", R"({"title": "Pie", "people": 4, "parts": [1], "steps": "x"})"));
  EXPECT_NE(parsed.bad.at(0).reason.find("\"parts\" is a list with a number in it"), std::string::npos);
  EXPECT_THROW(row_format_from_columns({"{question", "answer", ""}), Error);
  EXPECT_THROW(row_format_from_columns({"question}", "answer", ""}), Error);
}

TEST_F(RowParserTest, AutoSaysWhatItDecided) {
  EXPECT_EQ(format_of("a.jsonl", "{\"prompt\": \"q\", \"response\": \"a\", \"text\": \"t\"}\n"),
            "prompt_completion rows: the first row has \"prompt\" and \"response\"");
  EXPECT_EQ(format_of("a.jsonl", "{\"messages\": []}\n{\"messages\": []}\n"),
            "messages rows: the first 2 rows have \"messages\"");
  EXPECT_EQ(format_of("a.jsonl", "{\"x\": 1}\nbroken\n{\"text\": \"t\"}\n"),
            "text rows: 1 of the first 2 rows have \"text\"");
  EXPECT_EQ(format_of("a.txt", "x"), "plain text, a paragraph between blank lines is an example");
  EXPECT_NE(format_of("a.jsonl", "{\"foo\": 1, \"bar\": 2}")
                .find("a.jsonl:1: no columns that snug knows; found \"foo\", \"bar\""),
            std::string::npos);
  EXPECT_NE(format_of("a.jsonl", "\n{\"foo\": 1,}").find("a.jsonl:2: not valid JSON at column 11"),
            std::string::npos);
  EXPECT_THROW(named_row_format("alpacca"), Error);
  EXPECT_EQ(named_row_format("instruction").kind, RowFormatKind::instruction);
}

TEST_F(RowParserTest, BrokenRowsAreCountedWithTheirReason) {
  RowChunk first =
      chunk("a.jsonl",
            "{\"text\": \"good\"}\n{\"text\": \"cut\n\n{\"text\": 5}\n{\"other\": \"x\"}\n[1]\n"
            "{\"text\": \"\xFF\"}\n{\"text\": \"x\"} trailing\n{\"text\": \"fine\"}\n\"string\"\n");
  ParsedChunk parsed = RowParser(named_row_format("text")).parse(first);
  ASSERT_EQ(parsed.rows.size(), 2U);
  EXPECT_EQ(parsed.rows[1].place.line, 9);
  EXPECT_EQ(parsed.rows[1].place.row, 7);
  const std::pair<int64_t, const char*> kExpected[] = {{2, "not valid JSON at column"},
                                                       {4, "\"text\" is a number; it must be a string"},
                                                       {5, "no column \"text\"; found \"other\""},
                                                       {6, "a list where a JSON object is needed"},
                                                       {7, "byte 11 of the row (0xFF) is not UTF-8"},
                                                       {8, "not valid JSON"},
                                                       {10, "a string where"}};
  ASSERT_EQ(parsed.bad.size(), std::size(kExpected));
  for (size_t i = 0; i < parsed.bad.size(); ++i) {
    EXPECT_EQ(parsed.bad[i].place.line, kExpected[i].first);
    EXPECT_NE(parsed.bad[i].reason.find(kExpected[i].second), std::string::npos) << parsed.bad[i].reason;
  }
  EXPECT_EQ(describe(parsed.bad[1], *first.file),
            (folder_ / "a.jsonl").string() + ":4: \"text\" is a number; it must be a string");
}

TEST_F(RowParserTest, BrokenRecords) {
  ParsedChunk parsed =
      parse("a.csv", "prompt,completion\na,b\nonly one\nx,\"y\"z\n1,2,3\nlast,\"open\nmore\n");
  ASSERT_EQ(parsed.rows.size(), 1U);
  ASSERT_EQ(parsed.bad.size(), 4U);
  EXPECT_EQ(parsed.bad[0].reason, "1 fields where the header names 2");
  EXPECT_NE(parsed.bad[1].reason.find("text follows a closing quote"), std::string::npos);
  EXPECT_EQ(parsed.bad[3].place.line, 6);
  EXPECT_NE(parsed.bad[3].reason.find("never closed"), std::string::npos);
}

TEST_F(RowParserTest, BrokenConversations) {
  auto reason = [&](const std::string& text) {
    ParsedChunk parsed = parse("a.jsonl", text);
    return parsed.bad.empty() ? "" : parsed.bad[0].reason;
  };
  EXPECT_EQ(reason(R"({"messages": []})"), "the list of messages is empty");
  EXPECT_EQ(reason(R"({"messages": [{"role": "user", "content": 5}]})"),
            "message 1 has no \"content\" that is a string, nor a list of \"tool_calls\"");
  EXPECT_EQ(reason(R"({"messages": [{"content": "x"}]})"),
            "message 1 has no \"from\" and \"value\" that are strings");
  EXPECT_EQ(reason(R"({"messages": "x"})"), "\"messages\" is a string that is no JSON list");
  EXPECT_EQ(reason(R"({"conversations": [{"from": "alien", "value": "x"}]})"),
            "message 1 is \"from\" \"alien\"; known are system, human, gpt and tool");
  std::string deep = std::string(200, '[') + std::string(200, ']');
  EXPECT_EQ(reason(R"({"messages": )" + deep + "}"), "\"messages\" is nested too deeply");
}

}  // namespace
}  // namespace snug
