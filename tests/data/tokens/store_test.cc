// When tokens are found again, and when they are made anew.
#include "data/tokens/store.h"

#include <sys/stat.h>

#include <cstdlib>
#include <thread>

#include "data/data_fixture.h"
#include "data/tokens/cache.h"

namespace snug {
namespace {

namespace fs = std::filesystem;

class TokenStoreTest : public DataTest {
 protected:
  TokenStoreTest() {
    observer_ = [this](const DataProgress& progress) {
      built_ = built_ || progress.stage.starts_with("tokenizing");
    };
  }

  // Whether the tokens of the file had to be made.
  bool builds(const std::string& path) {
    built_ = false;
    table_of(path);
    return built_;
  }
  std::vector<fs::path> caches() const { return files_ending(folder_ / ".snug", ".tokens"); }

  bool built_ = false;
};

TEST_F(TokenStoreTest, TokensAreMadeOnceAndFoundAgain) {
  std::string path = file("d.jsonl", "{\"text\": \"abc ab\"}\n{\"text\": \"a c\"}\n");
  std::shared_ptr<const TokenTable> made = table_of(path);
  EXPECT_TRUE(built_);
  built_ = false;
  std::shared_ptr<const TokenTable> found = table_of(path);
  EXPECT_FALSE(built_);
  EXPECT_EQ(words_of(*made), words_of(*found));
  ASSERT_EQ(found->rows(), 2);
  EXPECT_EQ(found->tokens(0)[0].id(), 6);
  EXPECT_EQ(caches().size(), 1U);
  EXPECT_EQ(read_raw(folder_ / ".snug/.gitignore"), "*\n");
  fs::last_write_time(path, fs::file_time_type::clock::now() - std::chrono::hours(5));
  EXPECT_FALSE(builds(path)) << "the content is the same";
  fs::create_directory(folder_ / "elsewhere");
  fs::copy_file(path, folder_ / "elsewhere/d.jsonl");
  recipe_.data.cache_dir = (folder_ / ".snug").string();
  EXPECT_FALSE(builds((folder_ / "elsewhere/d.jsonl").string())) << "the content is the same";
}

TEST_F(TokenStoreTest, TheTemplateIsNamedWhereItLiesNow) {
  std::string rows =
      file("d.jsonl",
           R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]})");
  write_raw(tokenizer_folder_ / "chat_template.jinja",
            "{% for m in messages %}{{ m.role }} {{ m.content }} {% endfor %}");
  EXPECT_EQ(table_of(rows)->facts().chat_template, (tokenizer_folder_ / "chat_template.jinja").string());
  fs::path moved = folder_ / "moved";
  fs::copy(tokenizer_folder_, moved);
  tokenizer_folder_ = moved;
  built_ = false;
  EXPECT_EQ(table_of(rows)->facts().chat_template, (moved / "chat_template.jinja").string());
  EXPECT_FALSE(built_);
  fs::path named = folder_ / "named.jinja";
  fs::copy(moved / "chat_template.jinja", named);
  recipe_.data.chat_template = named.string();
  EXPECT_EQ(table_of(rows)->facts().chat_template, named.string());
  fs::path renamed = folder_ / "renamed.jinja";
  fs::copy(named, renamed);
  recipe_.data.chat_template = renamed.string();
  built_ = false;
  EXPECT_EQ(table_of(rows)->facts().chat_template, renamed.string());
  EXPECT_FALSE(built_);
}

TEST_F(TokenStoreTest, WhateverChangesTokensMakesThemAnew) {
  std::string csv = file("d.csv", "text,other\nabc ab,c\na c,ab\n");
  EXPECT_TRUE(builds(csv));
  EXPECT_FALSE(builds(csv));
  recipe_.data.max_length = 4;
  recipe_.data.max_target_length = 3;
  recipe_.data.truncation = Truncation::split;
  recipe_.data.truncation_side = TruncationSide::left;
  recipe_.data.on_bad_row = OnBadRow::skip;
  recipe_.data.packing = true;
  EXPECT_FALSE(builds(csv)) << "limits apply to the tokens, not to the cache";

  recipe_.data.train_on = TrainOn::everything;
  EXPECT_TRUE(builds(csv));
  recipe_.data.max_samples = 1;
  EXPECT_TRUE(builds(csv));
  EXPECT_EQ(table_of(csv)->rows(), 1);
  recipe_.data.max_samples = 0;
  recipe_.data.format = DataFormat::text;
  EXPECT_TRUE(builds(csv));
  recipe_.data.prompt_template = "{other}";
  recipe_.data.completion_column = "text";
  EXPECT_TRUE(builds(csv));
  recipe_.data.prompt_template = "{other} ";
  EXPECT_TRUE(builds(csv));
  recipe_.data.completion_column = "other";
  EXPECT_TRUE(builds(csv));
  recipe_.data.system_column = "text";
  EXPECT_TRUE(builds(csv));
  recipe_.data.chat_template = "alpaca";
  EXPECT_TRUE(builds(csv));
  decoder_start_id_ = 0;
  EXPECT_TRUE(builds(csv));
  EXPECT_FALSE(builds(csv));
  EXPECT_EQ(caches().size(), 10U);
}

TEST_F(TokenStoreTest, AChangedTemplateFileMakesThemAnew) {
  std::string path =
      file("d.jsonl",
           R"({"messages": [{"role": "user", "content": "c"}, {"role": "assistant", "content": "d"}]})");
  std::string tail = "{% for m in messages %}{{ m.content }}{% endfor %}";
  recipe_.data.chat_template = file("t.jinja", "a" + tail);
  EXPECT_TRUE(builds(path));
  EXPECT_FALSE(builds(path));
  file("t.jinja", "b" + tail);
  EXPECT_TRUE(builds(path));
}

TEST_F(TokenStoreTest, AnotherTokenizerMakesThemAnew) {
  std::string path = file("d.jsonl", "{\"text\": \"abc ab\"}\n");
  EXPECT_TRUE(builds(path));
  Json json = tiny_tokenizer_json();
  json["model"]["merges"].erase(1);  // ab + c
  TinyTokenizer other(json);
  tokenizer_folder_ = other.folder().path();
  EXPECT_TRUE(builds(path));
  EXPECT_EQ(table_of(path)->tokens(0)[0].id(), 5);
  TinyTokenizer copy;
  tokenizer_folder_ = copy.folder().path();
  EXPECT_FALSE(builds(path)) << "the same tokenizer elsewhere";
  TinyTokenizer with_bos(tiny_tokenizer_json(),
                         {{"bos_token", "<s>"}, {"eos_token", "</s>"}, {"add_bos_token", true}});
  tokenizer_folder_ = with_bos.folder().path();
  EXPECT_TRUE(builds(path));
}

// A file system's clock ticks a few milliseconds apart: size and times of both versions are often the same.
TEST_F(TokenStoreTest, ContentThatChangesAtOnceAndKeepsItsSizeIsSeen) {
  for (int i = 0; i < 20; ++i) {
    std::string path = file("d.jsonl", "{\"text\": \"abc\"}\n");
    ASSERT_EQ(table_of(path)->tokens(0)[0].id(), 6);
    path = file("d.jsonl", "{\"text\": \"dbc\"}\n");
    ASSERT_EQ(table_of(path)->tokens(0)[0].id(), 8) << i;
  }
}

TEST_F(TokenStoreTest, TheSameContentOfAnotherKindIsNotTheSame) {
  std::string content = "{\"text\": \"abc\"}\n";
  EXPECT_EQ(table_of(file("d.jsonl", content))->words(), 2);
  EXPECT_GT(table_of(file("d.txt", content))->words(), 2);
}

TEST_F(TokenStoreTest, ADamagedCacheIsMadeAgain) {
  std::string path = file("d.jsonl", "{\"text\": \"abc ab\"}\n{\"text\": \"a c\"}\n");
  table_of(path);
  fs::path cache = caches().at(0);
  std::string whole = read_raw(cache);
  std::string flipped = whole;
  flipped[10] ^= 1;
  for (const std::string& damaged :
       {std::string(), whole.substr(0, 60), "nonsense" + whole.substr(8), flipped}) {
    fs::remove(cache);
    write_raw(cache, damaged);
    EXPECT_TRUE(builds(path));
    EXPECT_EQ(read_raw(cache), whole);
  }
  EXPECT_EQ(caches().size(), 1U);
}

TEST_F(TokenStoreTest, PatternsMayStandAnywhereInAPath) {
  for (const char* name : {"one", "two"}) {
    fs::create_directory(folder_ / name);
    write_raw(folder_ / name / "d.jsonl", "{\"text\": \"abc\"}\n");
  }
  EXPECT_EQ(table_of((folder_ / "*" / "d.jsonl").string())->rows(), 2);
  EXPECT_EQ(table_of((folder_ / "o*" / "*.jsonl").string())->rows(), 1);
  std::shared_ptr<const TokenTable> both = table_of((folder_ / "*" / "*.jsonl").string());
  EXPECT_EQ(both->facts().duplicates.count, 1);
}

TEST_F(TokenStoreTest, ABadRowLeavesNoCache) {
  std::string path = file("d.jsonl", "{\"text\": \"abc\"}\n{\"text\": 1}\n{\"text\": \"a c\"}\n");
  std::string message = error_text(ErrorKind::bad_input, [&] { table_of(path); });
  EXPECT_SAYS(message, "d.jsonl:2: \"text\" is a number");
  EXPECT_SAYS(message, "Mend the row, or set data.on_bad_row to skip.");
  EXPECT_TRUE(caches().empty());
  EXPECT_TRUE(files_ending(folder_ / ".snug", ".partial").empty());

  recipe_.data.on_bad_row = OnBadRow::skip;
  EXPECT_TRUE(builds(path));
  EXPECT_EQ(table_of(path)->rows(), 2);
  recipe_.data.on_bad_row = OnBadRow::stop;
  EXPECT_EQ(error_text(ErrorKind::bad_input, [&] { table_of(path); }), message) << "from the cache";
}

TEST_F(TokenStoreTest, SkippedRowsAreCountedAndTheFirstOnesNamed) {
  std::string content;
  for (int i = 1; i <= 30; ++i) {
    content += i % 2 == 0 ? "{\"text\": " + std::to_string(i) + "}\n" : "{\"text\": \"abc\"}\n";
  }
  recipe_.data.on_bad_row = OnBadRow::skip;
  std::string path = file("d.jsonl", content);
  for (bool cached : {false, true}) {
    EXPECT_EQ(builds(path), !cached);
    TableFacts facts = table_of(path)->facts();
    EXPECT_EQ(facts.rows, 30);
    EXPECT_EQ(facts.bad_rows, 15);
    ASSERT_EQ(facts.bad.size(), 10U);
    for (int i = 0; i < 10; ++i) {
      EXPECT_SAYS(facts.bad[static_cast<size_t>(i)], "d.jsonl:" + std::to_string(2 * i + 2) + ": ");
    }
  }
}

TEST_F(TokenStoreTest, AFileThatChangesWhileItIsReadIsRefused) {
  std::string row = "{\"text\": \"" + std::string(200, 'a') + "\"}\n";
  std::string content;
  for (int i = 0; i < 20000; ++i) {  // several chunks
    content += row;
  }
  std::string path = file("d.jsonl", content);
  // While its rows are read; and between that it was recognized and that it was read.
  for (const char* stage : {"tokenizing", "reading"}) {
    for (const std::string& added : {row, std::string("\n")}) {
      write_raw(path, content);
      bool done = false;
      observer_ = [&](const DataProgress& progress) {
        if (progress.stage.starts_with(stage) && !done) {
          std::ofstream(path, std::ios::app) << added;
          done = true;
        }
      };
      EXPECT_SAYS(error_text(ErrorKind::environment, [&] { table_of(path); }),
                  "d.jsonl: the file changed while it was read")
          << stage;
      EXPECT_TRUE(caches().empty()) << stage;
    }
  }
}

TEST_F(TokenStoreTest, AFileThatIsReplacedWhileItIsReadIsRefused) {
  std::string path = file("d.jsonl", "{\"text\": \"abc\"}\n{\"text\": \"ab\"}\n");
  recipe_.data.max_samples = 1;  // so that its end is never seen
  observer_ = [&](const DataProgress& progress) {
    if (progress.stage.starts_with("reading")) {
      write_raw(folder_ / "new", "{\"text\": \"c c\"}\n{\"text\": \"ab\"}\n");
      fs::rename(folder_ / "new", path);
    }
  };
  EXPECT_SAYS(error_text(ErrorKind::environment, [&] { table_of(path); }), "changed while it was read");
  EXPECT_TRUE(caches().empty());
}

// A run may wait for another one between recognizing a file and reading its rows.
TEST_F(TokenStoreTest, AFileThatChangesWhileARunWaitsIsRefused) {
  std::string path = file("d.jsonl", "{\"text\": \"abc\"}\n");
  auto held = std::make_unique<BuildLock>(folder_ / ".snug", [] {});
  observer_ = [&](const DataProgress& progress) {
    if (progress.stage.starts_with("waiting")) {
      file("d.jsonl", "{\"text\": \"c c c\"}\n");
      held.reset();
    }
  };
  EXPECT_SAYS(error_text(ErrorKind::environment, [&] { table_of(path); }), "changed while it was read");
  EXPECT_TRUE(caches().empty());
  EXPECT_EQ(table_of(path)->words(), 6) << "c c c and the end";
}

// Gigabytes are not read again at every start. A note that is wrong tells that it is used.
TEST_F(TokenStoreTest, AFileThatHasRestedIsRecognizedWithoutReadingIt) {
  TemporaryFolder own;
  recipe_.data.cache_dir = own.path().string();
  std::string fresh = file("d.jsonl", "{\"text\": \"abc\"}\n");
  table_of(fresh);
  EXPECT_TRUE(files_ending(own.path(), ".seen").empty()) << "it may change within the same tick of the clock";
  std::this_thread::sleep_for(std::chrono::milliseconds(3100));
  EXPECT_FALSE(builds(fresh));
  std::vector<fs::path> notes = files_ending(own.path(), ".seen");
  ASSERT_EQ(notes.size(), 1U);
  write_raw(notes[0], std::string(32, '0') + "\n");
  EXPECT_TRUE(builds(fresh));
  write_raw(notes[0], "half of a no");
  EXPECT_FALSE(builds(fresh)) << "a damaged note is none";
  file("d.jsonl", "{\"text\": \"dbc\"}\n");
  EXPECT_EQ(table_of(fresh)->tokens(0)[0].id(), 8);
}

TEST_F(TokenStoreTest, AFolderThatCannotBeWrittenGivesWayToTheUsersCache) {
  TemporaryFolder own;
  std::string path = file("d.jsonl", "{\"text\": \"abc\"}\n");
  for (const fs::path& folder : {folder_.path(), tokenizer_folder_}) {
    ::chmod(folder.c_str(), 0555);
  }
  ::chmod(own.path().c_str(), 0777);
  int status = in_child([&] {
    constexpr uid_t kNobody = 65534;
    if (::geteuid() == 0 && ::setuid(kNobody) != 0) {
      return 77;
    }
    ::setenv("XDG_CACHE_HOME", own.path().c_str(), 1);
    try {
      bool made = builds(path);
      bool found = !builds(path);
      return (made ? 0 : 1) + (found ? 0 : 2) + (files_ending(own / "snug", ".tokens").size() == 1 ? 0 : 4);
    } catch (const std::exception& error) {
      std::fprintf(stderr, "%s\n", error.what());
      return 8;
    }
  });
  ::chmod(folder_.path().c_str(), 0755);
  ::chmod(tokenizer_folder_.c_str(), 0755);
  if (status == 77) {
    GTEST_SKIP() << "root cannot become another user here";
  }
  EXPECT_EQ(status, 0) << "1: not made; 2: not found again; 4: not in the user's cache; 8: refused";
  EXPECT_FALSE(fs::exists(folder_ / ".snug"));
}

}  // namespace
}  // namespace snug
