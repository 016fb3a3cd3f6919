// The recipe's data section as a whole: columns, several files, evaluation.
#include "data/run_data.h"

#include "data/batches/epoch.h"
#include "data/data_fixture.h"
#include "data/data_statistics.h"

namespace snug {
namespace {

constexpr int32_t kNo = -100;

class RunDataTest : public DataTest {
 protected:
  std::string load_error() {
    return error_text(ErrorKind::bad_input, [&] { load(); });
  }
  std::string rows(int count) const {
    std::string content;
    for (int i = 0; i < count; ++i) {
      content += "{\"text\": \"" + std::string(static_cast<size_t>(i) + 1, 'd') + "\"}\n";
    }
    return content;
  }
};

TEST_F(RunDataTest, ColumnsOfACsvThroughAPromptTemplate) {
  recipe_.data.prompt_template = "{question} {hint}{{";
  recipe_.data.completion_column = "answer";
  Dataset dataset = load("d.csv", "answer,question,hint,id\nd,ab,c,1\n\"c,\nc\",\"a\"\"\",b,2\n");
  ASSERT_EQ(dataset.size(), 2);
  EXPECT_EQ(ids_of(dataset, 0), (Ids{5, 3, 2, 8, 21})) << "ab c, and the brace is in no vocabulary";
  EXPECT_EQ(targets_of(dataset, 0), (Ids{kNo, kNo, 8, 21, kNo}));
  EXPECT_EQ(targets_of(dataset, 1), (Ids{kNo, kNo, 2, 4, 2, 21, kNo})) << "a b, then c newline c";
  recipe_.data.system_column = "id";
  recipe_.data.prompt_template = "{question}";
  dataset = load("e.csv", "answer,question,id\nd,ab,c\n");
  EXPECT_EQ(ids_of(dataset, 0), (Ids{2, 4, 4, 5, 8, 21})) << "the system's text, a blank line, the prompt";
  recipe_.data.completion_column = "reply";
  EXPECT_SAYS(load_error(), "reply");
}

TEST_F(RunDataTest, FilesOfDifferentFormatsWithWeights) {
  recipe_.data.train_file = {{file("a.jsonl", "{\"prompt\": \"ab\", \"completion\": \"c\"}\n"), 2},
                             {file("b.csv", "text\nabc\ndd\n"), 1},
                             {file("c.txt", "c c\n\nd d\n\na a\n\nb b\n"), 0.5}};
  Dataset dataset = load().train;
  ASSERT_EQ(dataset.parts().size(), 3U);
  EXPECT_EQ(dataset.size(), 1 + 2 + 4);
  EXPECT_EQ(examples_per_epoch(dataset), 2 + 2 + 2);
  EXPECT_EQ(targets_of(dataset, 0), (Ids{2, 21, kNo}));
  EXPECT_EQ(ids_of(dataset, 1), (Ids{6, 21}));
  EXPECT_EQ(ids_of(dataset, 3), (Ids{2, 3, 2, 21}));
  std::string text = describe(dataset);
  for (const char* part : {"a.jsonl: prompt_completion rows", ", 2 times an epoch", "b.csv: text rows",
                           "c.txt: ", ", 0.5 times an epoch", "7 examples"}) {
    EXPECT_SAYS(text, part);
  }
}

TEST_F(RunDataTest, SeveralFilesToEvaluateWith) {
  recipe_.data.train_file = {{file("a.jsonl", rows(3))}};
  recipe_.data.eval_file = {file("e1.jsonl", rows(2)), file("e2.txt", "c c\n\nd d\n")};
  RunData run = load();
  EXPECT_EQ(run.train.size(), 3);
  ASSERT_TRUE(run.eval.has_value());
  EXPECT_EQ(run.eval->size(), 4);
  EXPECT_EQ(ids_of(*run.eval, 3), (Ids{8, 3, 8, 21}));
  recipe_.data.eval_file.push_back((folder_ / "missing.jsonl").string());
  EXPECT_SAYS(load_error(), "missing.jsonl");
}

TEST_F(RunDataTest, NothingToEvaluateWithUnlessAsked) {
  recipe_.data.train_file = {{file("a.jsonl", rows(3))}};
  EXPECT_FALSE(load().eval.has_value());
}

TEST_F(RunDataTest, RowsKeptForEvaluation) {
  recipe_.data.train_file = {{file("a.jsonl", rows(20))}, {file("b.jsonl", rows(20))}};
  recipe_.data.eval_split = 0.1;
  RunData run = load();
  EXPECT_EQ(run.train.size(), 36);
  ASSERT_TRUE(run.eval.has_value());
  EXPECT_EQ(run.eval->size(), 4);
  recipe_.data.eval_split = 3;
  EXPECT_EQ(load().eval->size(), 3);
  Ids first = ids_of(*load().eval, 0);
  EXPECT_EQ(ids_of(*load().eval, 0), first);
}

TEST_F(RunDataTest, RowsInBothAreCounted) {
  auto rows = [](const std::vector<std::string>& texts) {
    std::string all;
    for (const std::string& text : texts) {
      all += Json{{"text", text}}.dump() + "\n";
    }
    return all;
  };
  recipe_.data.train_file = {{file("t.jsonl", rows({"a", "ab", "abc", "b"}))}};
  recipe_.data.eval_file = {file("e.jsonl", rows({"ab", "c", "abc", "abc", "d"}))};
  std::vector<DataWarning> found = data_warnings(load(), recipe_.data);
  auto both = std::find_if(found.begin(), found.end(),
                           [](const DataWarning& warning) { return warning.kind == "in_train_and_eval"; });
  ASSERT_NE(both, found.end());
  EXPECT_EQ(both->rows, 2) << "ab, and abc once";
  recipe_.data.eval_file = {file("e.jsonl", rows({"ac", "c"}))};
  EXPECT_TRUE(data_warnings(load(), recipe_.data).empty());
}

TEST_F(RunDataTest, AnEpochThatNoMemoryHoldsIsRefused) {
  recipe_.data.train_file = {{file("t.jsonl", R"({"text": "a"})"
                                              "\n"
                                              R"({"text": "b"})"
                                              "\n"),
                              1e12}};
  std::string message = error_text(ErrorKind::bad_input, [&] { load(); });
  EXPECT_SAYS(message, "an epoch of 2,000,000,000,000 examples, out of 2");
  EXPECT_SAYS(message, "Lower the weights");
}

TEST_F(RunDataTest, ASplitThatLeavesNothingIsRefused) {
  recipe_.data.train_file = {{file("a.jsonl", rows(10))}};
  recipe_.data.eval_split = 10;
  EXPECT_SAYS(load_error(),
              "data.eval_split is 10, which leaves 0 examples to train on and 10 to evaluate with");
  recipe_.data.eval_split = 11;
  EXPECT_SAYS(load_error(), "data.eval_split is 11");
  recipe_.data.eval_split = 0.01;
  EXPECT_SAYS(load_error(), "leaves 10 examples to train on and 0 to evaluate with");
}

TEST_F(RunDataTest, ATokenizerOfAnotherModelIsRefused) {
  recipe_.data.train_file = {{file("a.jsonl", rows(2))}};
  DataModel small{.folder = tokenizer_folder_, .decoder_start_id = {}, .vocabulary = 22};
  EXPECT_SAYS(error_text(ErrorKind::bad_input, [&] { load_run_data(recipe_, small, observer_); }),
              "the tokenizer has 23 tokens, but the model's vocabulary is 22");
}

TEST_F(RunDataTest, MaxSamplesCountsRowsOfEachFile) {
  recipe_.data.max_samples = 3;
  recipe_.data.train_file = {{file("a.jsonl", rows(20))}, {file("b.jsonl", rows(2))}};
  recipe_.data.eval_file = {file("e.jsonl", rows(7))};
  RunData run = load();
  EXPECT_EQ(run.train.size(), 5);
  EXPECT_EQ(run.eval->size(), 3);
  EXPECT_EQ(ids_of(run.train, 2), (Ids{8, 8, 8, 21})) << "from the start";
  recipe_.data.train_file = {{file("c.jsonl", rows(3) + "broken\n")}};
  EXPECT_EQ(load().train.size(), 3) << "what is not used is not looked at";
}

TEST_F(RunDataTest, CompressedFilesAreFilesLikeOthers) {
  std::string command = "cd " + folder_.path().string() + " && gzip -k a.jsonl";
  recipe_.data.train_file = {{file("a.jsonl", rows(5))}};
  ASSERT_EQ(std::system(command.c_str()), 0);
  Dataset plain = load().train;
  recipe_.data.train_file = {{(folder_ / "a.jsonl.gz").string()}};
  Dataset packed = load().train;
  EXPECT_EQ(words_of(*plain.parts()[0].table), words_of(*packed.parts()[0].table));
}

}  // namespace
}  // namespace snug
