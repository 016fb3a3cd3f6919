// Rows to ids and targets, worked out by hand on the tiny tokenizer; and what is said about files that are
// wrong.
#include <gtest/gtest.h>

#include <array>

#include "data/batches/batch.h"
#include "data/run_data.h"
#include "text/tokenizer/tiny_tokenizer.h"

namespace snug {
namespace {

using Ids = std::vector<int32_t>;
constexpr int32_t kNo = -100;

class DatasetTest : public testing::Test {
 protected:
  DatasetTest() {
    recipe_.data.cache_dir = (folder_ / "cache").string();
    recipe_.data.max_length = 100;
  }

  // The dataset of recipe_, whose train_file is this one.
  Dataset load_file(const std::filesystem::path& path) {
    recipe_.data.train_file = {{path.string()}};
    DataModel model{.folder = tokenizer_folder_, .decoder_start_id = {}, .vocabulary = 100};
    return load_run_data(recipe_, model, [](const DataProgress&) {}).train;
  }
  Dataset load(const std::string& name, const std::string& content, DataFormat format = DataFormat::automatic,
               int64_t max_length = 100) {
    write_raw(folder_ / name, content);
    recipe_.data.format = format;
    recipe_.data.max_length = max_length;
    return load_file(folder_ / name);
  }
  std::string load_error(const std::string& name, const std::string& content,
                         DataFormat format = DataFormat::automatic) {
    return error_text(ErrorKind::bad_input, [&] { load(name, content, format); });
  }
  static Ids ids(const Dataset& dataset, int64_t index) { return make_batch(dataset, std::array{index}).ids; }
  static Ids targets(const Dataset& dataset, int64_t index) {
    return make_batch(dataset, std::array{index}).targets;
  }
  static const TableFacts& facts(const Dataset& dataset) { return dataset.parts().front().table->facts(); }

  TemporaryFolder folder_;
  TinyTokenizer tiny_;  // abc 6, " ab" 7, c 2, ab 5, </s> 21
  std::filesystem::path tokenizer_folder_ = tiny_.folder().path();
  Recipe recipe_;
};

TEST_F(DatasetTest, TextRowsLearnEverythingAfterTheFirstToken) {
  Dataset dataset = load("d.jsonl", "{\"text\": \"abc ab\"}\n\n{\"text\": \"c\", \"other\": 1}\r\n");
  ASSERT_EQ(dataset.size(), 2);
  EXPECT_EQ(ids(dataset, 0), (Ids{6, 7, 21}));
  EXPECT_EQ(targets(dataset, 0), (Ids{7, 21, kNo}));
  EXPECT_EQ(ids(dataset, 1), (Ids{2, 21}));
  EXPECT_EQ(targets(dataset, 1), (Ids{21, kNo}));
  EXPECT_EQ(dataset.count_tokens().tokens, 5);
  EXPECT_EQ(dataset.count_tokens().learned, 3);
  EXPECT_EQ(describe(dataset),
            "d.jsonl: text rows: the first 2 rows have \"text\"; 2 examples, 5 tokens, 3 of them learned");
}

TEST_F(DatasetTest, PromptsAreGivenCompletionsAreLearned) {
  Dataset dataset = load("d.jsonl",
                         "{\"prompt\": \"abc\", \"completion\": \" abc\"}\n"
                         "{\"prompt\": \"ab\", \"response\": \"c\"}\n"
                         "{\"prompt\": \"\", \"completion\": \"ab\"}\n");
  ASSERT_EQ(dataset.size(), 3);
  EXPECT_EQ(ids(dataset, 0), (Ids{6, 3, 6, 21})) << "abc forms before the space could join";
  EXPECT_EQ(targets(dataset, 0), (Ids{3, 6, 21, kNo}));
  EXPECT_EQ(ids(dataset, 1), (Ids{5, 2, 21})) << "prompt and completion never merge into abc";
  EXPECT_EQ(targets(dataset, 1), (Ids{2, 21, kNo}));
  EXPECT_EQ(targets(dataset, 2), (Ids{21, kNo}));
  EXPECT_SAYS(describe(dataset),
              "prompt_completion rows: the first 3 rows have \"prompt\" and \"completion\"");
}

TEST_F(DatasetTest, LongPromptsCarryNoTargets) {
  Dataset dataset = load("d.jsonl", "{\"prompt\": \"abc ab c\", \"completion\": \"d\"}\n");
  EXPECT_EQ(ids(dataset, 0), (Ids{6, 7, 3, 2, 8, 21}));
  EXPECT_EQ(targets(dataset, 0), (Ids{kNo, kNo, kNo, 8, 21, kNo}));
  EXPECT_EQ(dataset.count_tokens().learned, 2);
}

TEST_F(DatasetTest, BosIsPutBeforeWhereTheTokenizerAddsIt) {
  TinyTokenizer with_bos(tiny_tokenizer_json(),
                         {{"bos_token", "<s>"}, {"eos_token", "</s>"}, {"add_bos_token", true}});
  write_raw(folder_ / "d.jsonl", "{\"prompt\": \"\", \"completion\": \"ab\"}\n");
  tokenizer_folder_ = with_bos.folder().path();
  Dataset dataset = load_file(folder_ / "d.jsonl");
  EXPECT_EQ(ids(dataset, 0), (Ids{20, 5, 21}));
  EXPECT_EQ(targets(dataset, 0), (Ids{5, 21, kNo}));
}

TEST_F(DatasetTest, PlainTextIsParagraphs) {
  Dataset dataset = load("d.txt", "\n\nabc\nab\n \t\n\nc ab");
  ASSERT_EQ(dataset.size(), 2);
  EXPECT_EQ(ids(dataset, 0), (Ids{6, 4, 5, 21}));
  EXPECT_EQ(ids(dataset, 1), (Ids{2, 7, 21}));
  EXPECT_SAYS(describe(dataset), "plain text");
  EXPECT_EQ(load("d.txt", "{\"text\": 1}").size(), 1) << "the name says that it is plain text";
  EXPECT_EQ(load("d.data", "{\"text\": \"abc\"}").count_tokens().tokens, 2)
      << "the first line says that it is JSON";
}

TEST_F(DatasetTest, CutsOnTheRightAndCounts) {
  Dataset dataset = load("d.jsonl", "{\"text\": \"abcdabcd\"}\n{\"text\": \"abc\"}\n", DataFormat::text, 3);
  ASSERT_EQ(dataset.size(), 2);
  EXPECT_EQ(ids(dataset, 0), (Ids{6, 8, 6}));
  EXPECT_EQ(targets(dataset, 0), (Ids{8, 6, kNo}));
  EXPECT_EQ(dataset.truncation().cut_examples, 1);
  EXPECT_EQ(dataset.truncation().targets.tokens, 2);
  EXPECT_EQ(dataset.truncation().nothing_learned, 0);
  EXPECT_SAYS(describe(dataset), "1 cut to 3 tokens (2 tokens lost)");
}

TEST_F(DatasetTest, DropsWhatTeachesNothing) {
  Dataset dataset =
      load("d.jsonl",
           "{\"prompt\": \"ab\", \"completion\": \"c\"}\n"
           "{\"prompt\": \"ab\", \"completion\": \"\"}\n"         // empty
           "{\"prompt\": \"abcdabcd\", \"completion\": \"c\"}\n"  // 4 tokens: the completion is cut
           "{\"prompt\": \"abcda\", \"completion\": \"cc\"}\n",   // 3 tokens: one of it is left
           DataFormat::automatic, 4);
  ASSERT_EQ(dataset.size(), 2);
  EXPECT_EQ(facts(dataset).nothing_learned.count, 1);
  EXPECT_SAYS(facts(dataset).nothing_learned.first, "d.jsonl:2");
  EXPECT_EQ(dataset.truncation().nothing_learned, 1);
  EXPECT_EQ(dataset.truncation().cut_examples, 1);
  EXPECT_EQ(targets(dataset, 1), (Ids{kNo, kNo, 2, kNo}));
  EXPECT_SAYS(describe(dataset), "1 rows left out");
  EXPECT_SAYS(describe(dataset), "1 dropped");
  TinyTokenizer without_eos(tiny_tokenizer_json(), Json::object());
  tokenizer_folder_ = without_eos.folder().path();
  write_raw(folder_ / "e.jsonl", "{\"text\": \"a\"}\n{\"text\": \"a c\"}\n");
  recipe_.data.max_length = 100;
  dataset = load_file(folder_ / "e.jsonl");
  EXPECT_EQ(dataset.size(), 1) << "one token alone has nothing before it";
  EXPECT_EQ(facts(dataset).nothing_learned.count, 1);
}

TEST_F(DatasetTest, SaysWhatIsWrongWithARow) {
  std::string good = "{\"text\": \"a c\"}\n";
  EXPECT_SAYS(load_error("d.jsonl", good + "{\"text\": \"a\n"), "d.jsonl:2: not valid JSON at column");
  EXPECT_SAYS(load_error("d.jsonl", good + good + "{\"Text\": \"a\", \"id\": 1}\n"),
              "d.jsonl:3: no column \"text\"; found \"Text\", \"id\"");
  EXPECT_SAYS(load_error("d.jsonl", good + "{\"text\": 3.5}\n"), "d.jsonl:2: \"text\" is a number");
  EXPECT_SAYS(load_error("d.jsonl", good + "{\"text\": null}\n"), "d.jsonl:2: \"text\" is null");
  EXPECT_SAYS(load_error("d.jsonl", good + "\"text\"\n"),
              "d.jsonl:2: a string where a JSON object is needed");
  EXPECT_SAYS(load_error("d.jsonl", good + "{\"text\": \"caf\xE9\"}\n"),
              "d.jsonl:2: byte 14 of the row (0xE9) is not UTF-8");
  EXPECT_SAYS(load_error("d.jsonl", "{\"question\": \"a\", \"answer\": \"b\"}"),
              "no columns that snug knows; found \"question\", \"answer\"");
  EXPECT_SAYS(load_error("d.jsonl", "{\"prompt\": \"a\"}", DataFormat::prompt_completion),
              "no column \"completion\"; found \"prompt\"");
}

TEST_F(DatasetTest, SaysWhatIsWrongWithAFile) {
  EXPECT_SAYS(load_error("d.jsonl", ""), "d.jsonl: is empty");
  EXPECT_SAYS(load_error("d.txt", "\n \n"), "d.txt: is empty");
  EXPECT_SAYS(load_error("d.txt", "abc", DataFormat::prompt_completion), "plain text has no prompts");
  EXPECT_SAYS(load_error("d.jsonl", "{\"text\": \"\"}\n"), "none of its 1 rows has anything to learn");
  EXPECT_SAYS(error_text(ErrorKind::bad_input, [&] { load_file(folder_ / "no.jsonl"); }),
              "no.jsonl: cannot be read: No such file");
  EXPECT_SAYS(error_text(ErrorKind::bad_input, [&] { load_file(folder_.path()); }), "is a folder");
}

TEST_F(DatasetTest, BadRowsAreSkippedAndCountedIfTheRecipeSaysSo) {
  write_raw(folder_ / "d.jsonl", "{\"text\": \"a c\"}\n{\"text\": 1}\n{\"text\": \"ab c\"}\n{");
  recipe_.data.on_bad_row = OnBadRow::skip;
  Dataset dataset = load_file(folder_ / "d.jsonl");
  EXPECT_EQ(dataset.size(), 2);
  EXPECT_EQ(facts(dataset).bad_rows, 2);
  EXPECT_SAYS(describe(dataset), "2 bad rows skipped, the first at");
  EXPECT_SAYS(facts(dataset).bad.at(0), "d.jsonl:2: ");
}

TEST_F(DatasetTest, LongRowsAreCutOnEitherSideDroppedOrSplit) {
  write_raw(folder_ / "d.jsonl",
            "{\"text\": \"abcdabcd\"}\n{\"text\": \"abc\"}\n");  // 6 8 6 8 21; 6 21
  auto load_with = [&](Truncation truncation, TruncationSide side) {
    recipe_.data.truncation = truncation;
    recipe_.data.truncation_side = side;
    recipe_.data.max_length = 3;
    return load_file(folder_ / "d.jsonl");
  };
  Dataset left = load_with(Truncation::cut, TruncationSide::left);
  EXPECT_EQ(ids(left, 0), (Ids{6, 8, 21}));
  EXPECT_EQ(left.truncation().targets.tokens, 2);
  Dataset dropped = load_with(Truncation::drop, TruncationSide::right);
  EXPECT_EQ(dropped.size(), 1);
  EXPECT_EQ(dropped.truncation().dropped_long, 1);
  Dataset split = load_with(Truncation::split, TruncationSide::right);
  ASSERT_EQ(split.size(), 3);
  EXPECT_EQ(ids(split, 1), (Ids{8, 21}));
  EXPECT_EQ(split.truncation().split_rows, 1);
}

// The template writes [role: content] turns; an answer and its end are learned.
TEST_F(DatasetTest, ConversationsLearnTheAnswers) {
  write_raw(folder_ / "turns.jinja",
            "{% for m in messages %}{{ 'a' if m.role == 'user' else 'b' }}{{ m.content }}{% endfor %}"
            "{% if add_generation_prompt %}b{% endif %}");
  write_raw(folder_ / "d.jsonl",
            R"({"messages": [{"role": "user", "content": "c"}, {"role": "assistant", "content": "d"},)"
            R"( {"role": "user", "content": "dd"}, {"role": "assistant", "content": "c"}]})");
  auto learned = [&](TrainOn train_on) {
    recipe_.data.train_on = train_on;
    recipe_.data.chat_template = (folder_ / "turns.jinja").string();
    Dataset dataset = load_file(folder_ / "d.jsonl");
    std::unique_ptr<Tokenizer> tokenizer = tiny_.load();
    std::string text;
    for (int32_t target : targets(dataset, 0)) {
      text += target == kNo ? "" : tokenizer->bytes(target);
    }
    return text;
  };
  EXPECT_EQ(learned(TrainOn::completions), "dc");
  EXPECT_EQ(learned(TrainOn::last_completion), "c");
  EXPECT_EQ(learned(TrainOn::everything), "cbdaddbc") << "all but the first";
}

TEST_F(DatasetTest, AcceptsAByteOrderMark) {
  EXPECT_EQ(load("d.jsonl", "\xEF\xBB\xBF{\"text\": \"abc\"}\n").size(), 1);
}

}  // namespace
}  // namespace snug
