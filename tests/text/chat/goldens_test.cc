// Templates against what Jinja2 made of them (tools/make_template_references.py): those of tests/goldens, and
// those in the folder that SNUG_TEMPLATE_FOLDER names.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "base/error.h"
#include "io/atomic_file.h"
#include "io/json.h"
#include "test_paths.h"
#include "text/chat/chat_template.h"

namespace snug {
namespace {

namespace fs = std::filesystem;

// The moment that the script gives to strftime_now.
std::tm reference_time() {
  std::tm now = {};
  now.tm_year = 124;
  now.tm_mon = 6;
  now.tm_mday = 26;
  now.tm_hour = 13;
  now.tm_min = 5;
  now.tm_sec = 9;
  now.tm_wday = 5;
  now.tm_yday = 207;
  return now;
}

void check_case(const ChatTemplate& chat_template, const Json& expected) {
  SCOPED_TRACE(chat_template.name() + ": " + expected["name"].get<std::string>());
  ChatOptions options;
  options.add_generation_prompt = expected.value("add_generation_prompt", false);
  options.tools = expected.value("tools", Json());
  options.variables = expected.value("variables", Json());
  options.now = reference_time();
  if (expected.contains("error")) {
    EXPECT_THROW(chat_template.render(expected["messages"], options), Error)
        << "Jinja2 says: " << expected["error"];
    return;
  }
  try {
    EXPECT_EQ(chat_template.render(expected["messages"], options), expected["text"].get<std::string>());
  } catch (const Error& error) {
    ADD_FAILURE() << error.what();
  }
  if (!expected["ranges"].empty()) {
    std::vector<AnswerRange> ranges =
        chat_template.render_with_answers(expected["messages"], options).assistant;
    ASSERT_EQ(ranges.size(), expected["ranges"].size());
    for (size_t i = 0; i < ranges.size(); ++i) {
      EXPECT_EQ(ranges[i].begin, expected["ranges"][i][0].get<size_t>());
      EXPECT_EQ(ranges[i].end, expected["ranges"][i][1].get<size_t>());
    }
  }
}

int check_folder(const fs::path& folder) {
  int cases = 0;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() != ".jinja") {
      continue;
    }
    fs::path results = entry.path();
    Json expected = Json::parse(read_text_file(results.replace_extension(".json")));
    std::optional<ChatTemplate> chat_template;
    try {
      chat_template.emplace(read_text_file(entry.path()), entry.path().filename().string(),
                            expected["tokens"]);
    } catch (const Error& error) {
      ADD_FAILURE() << error.what();
      continue;
    }
    for (const Json& one : expected["cases"]) {
      check_case(*chat_template, one);
      ++cases;
    }
  }
  return cases;
}

TEST(ChatTemplateGoldens, SameAsJinja2) {
  EXPECT_GT(check_folder(fs::path(SNUG_SOURCE_DIR) / "tests/goldens/templates"), 150);
}

TEST(ChatTemplateShipped, SameAsJinja2) {
  const char* folder = std::getenv("SNUG_TEMPLATE_FOLDER");
  if (folder == nullptr) {
    GTEST_SKIP() << "SNUG_TEMPLATE_FOLDER is not set; tools/make_template_references.py --check sets it";
  }
  EXPECT_GT(check_folder(folder), 0);
}

}  // namespace
}  // namespace snug
