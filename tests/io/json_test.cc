// JSON: places of errors, duplicates, depth, numbers, typed access.
#include <gtest/gtest.h>

#include <string>

#include "io/file_fixtures.h"
#include "io/json.h"

namespace snug {
namespace {

std::string refusal(const std::string& text) {
  return error_text(ErrorKind::bad_input, [&] { parse_json(text, "a.json"); });
}

TEST(Json, KeepsValuesAndKeyOrder) {
  Json document =
      parse_json(R"({"z": [1, -2, 2.5, "tüü", true, null, {}], "a": {"k": 18446744073709551615}})", "a.json");
  ASSERT_TRUE(document.is_object());
  EXPECT_EQ(document.begin().key(), "z");
  EXPECT_EQ(document["z"].size(), 7U);
  EXPECT_EQ(document["z"][1].get<int>(), -2);
  EXPECT_EQ(document["z"][2].get<double>(), 2.5);
  EXPECT_EQ(document["z"][3].get<std::string>(), "tüü");
  EXPECT_TRUE(document["z"][5].is_null());
  EXPECT_EQ(document["a"]["k"].get<uint64_t>(), UINT64_MAX);
}

TEST(Json, AgreesWithThePlainParserOnManyKeys) {
  std::string text = "{";
  for (int i = 0; i < 3000; ++i) {
    text += (i == 0 ? "" : ",") + ("\"key" + std::to_string(i)) + "\": {\"v\": [" + std::to_string(i) + "]}";
  }
  text += "}";
  EXPECT_EQ(parse_json(text, "a.json"), Json::parse(text));
}

TEST(Json, SyntaxErrorsHaveLineAndColumn) {
  // The comma before the closing brace: line 3, and the brace is its first character.
  EXPECT_SAYS(refusal("{\n  \"a\": 1,\n}"), "a.json:3:1: ");
  // Columns count characters: two umlauts are two columns, though four bytes.
  EXPECT_SAYS(refusal("[\"ää\" x]"), "a.json:1:7: ");
  EXPECT_SAYS(refusal("{\"a\": "), "a.json:1:7: ");
  EXPECT_SAYS(refusal(""), "a.json:1:1: ");
  EXPECT_SAYS(refusal("[1] 2"), "a.json:1:5: ");
}

TEST(Json, DuplicateKeysAreErrorsWithTheirPlace) {
  std::string message = refusal("{\"a\": 1,\n \"b\": {\"a\": 2},\n \"a\": 3}");
  EXPECT_SAYS(message, "a.json:3:2: ");
  EXPECT_SAYS(message, "duplicate key \"a\"");
  EXPECT_SAYS(refusal(R"({"x\"y": 1, "x\"y": 2})"), "a.json:1:13: ");
  EXPECT_NO_THROW(parse_json(R"([{"a": 1}, {"a": 1}])", "a.json"));
}

TEST(Json, DepthIsLimitedToAHundred) {
  auto nested = [](size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  EXPECT_NO_THROW(parse_json(nested(100), "a.json"));
  EXPECT_SAYS(refusal(nested(101)), "a.json:1:101: nested more than 100");
  refusal(std::string(1000000, '['));
}

TEST(Json, WhatJsonDoesNotHave) {
  for (const char* text : {"NaN", "[Infinity]", "[1e999]", "{'a': 1}", "[1,]", "// x\n1", "\"\xff\"",
                           "\"\\ud800\"", "\"tab\there\""}) {
    EXPECT_SAYS(refusal(text), "a.json:");
  }
  EXPECT_SAYS(refusal(std::string("{}\0junk", 7)), "a.json:1:3: ");
}

TEST(Json, MessagesStayShortAndPrintable) {
  std::string message = refusal("[\"" + std::string(100000, 'x'));
  EXPECT_LT(message.size(), 500U);
  message = refusal("{\"\\u001b[2J\": 1, \"\\u001b[2J\": 2}");
  EXPECT_EQ(message.find('\x1b'), std::string::npos);
}

TEST(Json, TypedAccess) {
  Json object = parse_json(
      R"({"n": 7, "neg": -3, "whole": 4096.0, "half": 0.5, "big": 9223372036854775808, "s": "t", "b": true,
          "none": null})",
      "c.json");
  EXPECT_EQ(json_integer(object, "n", "c.json"), 7);
  EXPECT_EQ(json_integer(object, "neg", "c.json"), -3);
  EXPECT_EQ(json_integer(object, "whole", "c.json"), 4096);
  EXPECT_EQ(json_integer(object, "none", 11, "c.json"), 11);
  EXPECT_EQ(json_integer(object, "absent", 12, "c.json"), 12);
  EXPECT_EQ(json_number(object, "half", 0, "c.json"), 0.5);
  EXPECT_EQ(json_number(object, "n", 0, "c.json"), 7.0);
  EXPECT_TRUE(json_bool(object, "b", false, "c.json"));
  EXPECT_EQ(json_string(object, "s", "", "c.json"), "t");
  EXPECT_EQ(json_string(object, "absent", "f", "c.json"), "f");
}

TEST(Json, TypedAccessSaysWhatWasFoundAndWanted) {
  Json object =
      parse_json(R"({"half": 0.5, "big": 9223372036854775808, "s": "t", "b": 1, "none": null})", "c.json");
  auto text = [](const std::function<void()>& action) { return error_text(ErrorKind::bad_input, action); };
  EXPECT_EQ(text([&] { json_integer(object, "half", "c.json"); }),
            "c.json: key \"half\" is 0.5; an integer is wanted");
  EXPECT_SAYS(text([&] { json_integer(object, "big", "c.json"); }), "9223372036854775808");
  EXPECT_SAYS(text([&] { json_integer(object, "s", 1, "c.json"); }), "\"t\"");
  EXPECT_SAYS(text([&] { json_integer(object, "absent", "c.json"); }), "\"absent\" is missing");
  EXPECT_SAYS(text([&] { json_integer(object, "none", "c.json"); }), "\"none\" is missing");
  EXPECT_SAYS(text([&] { json_bool(object, "b", true, "c.json"); }), "true or false");
  EXPECT_SAYS(text([&] { json_number(object, "s", 1, "c.json"); }), "a number");
  EXPECT_SAYS(text([&] { json_string(object, "b", "", "c.json"); }), "a string");
  EXPECT_SAYS(text([&] { json_bool(Json::array(), "b", true, "c.json"); }), "array");
}

TEST(Json, FilesAreNamed) {
  TemporaryFolder folder;
  write_raw(folder / "bad.json", "{\"a\" 1}");
  EXPECT_SAYS(error_text(ErrorKind::bad_input, [&] { read_json(folder / "bad.json"); }),
              (folder / "bad.json").string() + ":1:6: ");
  EXPECT_SAYS(error_text(ErrorKind::bad_input, [&] { read_json(folder / "absent.json"); }), "no such file");
  EXPECT_SAYS(error_text(ErrorKind::bad_input, [&] { read_json(folder.path()); }), "is a folder");
}

}  // namespace
}  // namespace snug
