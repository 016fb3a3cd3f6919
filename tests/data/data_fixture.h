// Data files over the tiny tokenizer, whose tokens can be worked out by hand; and lengths without any text.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/rng.h"
#include "base/threads.h"
#include "data/batches/batch.h"
#include "data/run_data.h"
#include "data/tokens/store.h"
#include "text/tokenizer/tiny_tokenizer.h"

namespace snug {

using Ids = std::vector<int32_t>;

class DataTest : public testing::Test {
 protected:
  DataTest() { recipe_.data.max_length = 100; }

  std::string file(const std::string& name, const std::string& content) const {
    write_raw(folder_ / name, content);
    return (folder_ / name).string();
  }

  DataModel model() const { return {tokenizer_folder_, decoder_start_id_, 100}; }
  RunData load() const { return load_run_data(recipe_, model(), observer_); }
  Dataset load(const std::string& name, const std::string& content) {
    recipe_.data.train_file = {{file(name, content)}};
    return load().train;
  }
  std::shared_ptr<const TokenTable> table_of(const std::string& path) const {
    return TokenStore(tokenize_options(recipe_.data, model()), recipe_.data.cache_dir, observer_).get(path);
  }

  static const TableFacts& facts(const Dataset& dataset) { return dataset.parts().front().table->facts(); }

  TemporaryFolder folder_;
  TinyTokenizer tiny_;
  std::filesystem::path tokenizer_folder_ = tiny_.folder().path();
  std::optional<int32_t> decoder_start_id_;
  Recipe recipe_;
  DataObserver observer_ = [](const DataProgress&) {};
};

// The files of a folder with this at the end of their names.
inline std::vector<std::filesystem::path> files_ending(const std::filesystem::path& folder,
                                                       const std::string& end) {
  std::vector<std::filesystem::path> found;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(folder, ignored)) {
    if (entry.path().string().ends_with(end)) {
      found.push_back(entry.path());
    }
  }
  std::sort(found.begin(), found.end());
  return found;
}

// Every word of every row, sources first; to be compared.
inline std::vector<std::vector<TokenWord>> words_of(const TokenTable& table) {
  std::vector<std::vector<TokenWord>> rows;
  for (int64_t row = 0; row < table.rows(); ++row) {
    std::vector<TokenWord> tokens = table.tokens(row);
    std::vector<TokenWord>& words = rows.emplace_back(table.source(row));
    words.insert(words.end(), tokens.begin(), tokens.end());
  }
  return rows;
}

inline Ids ids_of(const Dataset& dataset, int64_t index) {
  return make_batch(dataset, std::array{index}).ids;
}
inline Ids targets_of(const Dataset& dataset, int64_t index) {
  return make_batch(dataset, std::array{index}).targets;
}
inline Ids source_ids_of(const Dataset& dataset, int64_t index) {
  return make_batch(dataset, std::array{index}).source_ids;
}

// Runs in a process of its own and returns its exit code. What runs there must not return by an exception.
// One thread: OpenMP's others do not exist in the child.
inline int in_child(const std::function<int()>& action) {
  pid_t child = ::fork();
  if (child == 0) {
    set_thread_count(1);
    ::_exit(action());
  }
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// A table whose rows have these lengths; every token of row i is i.
inline std::shared_ptr<const TokenTable> table_of_lengths(const std::vector<int64_t>& lengths,
                                                          const std::vector<int64_t>& source_lengths = {}) {
  TokenTableBuilder builder;
  for (size_t i = 0; i < lengths.size(); ++i) {
    Ids ids(static_cast<size_t>(lengths[i]), static_cast<int32_t>(i));
    if (source_lengths.empty()) {
      builder.add(make_example(ids, 0));
    } else {
      builder.add(
          make_pair_example(Ids(static_cast<size_t>(source_lengths[i]), static_cast<int32_t>(i)), ids));
    }
  }
  TableFacts table_facts;
  table_facts.vocabulary = std::ssize(lengths) + 1;
  return std::make_shared<const TokenTable>(std::move(builder).finish(std::move(table_facts)));
}

// Lengths as real data has them: many short ones and a long tail, each from 2 to `longest`.
inline std::vector<int64_t> realistic_lengths(int64_t count, int64_t typical, int64_t longest,
                                              uint64_t seed) {
  Rng rng(seed, 1);
  std::vector<int64_t> lengths;
  for (int64_t i = 0; i < count; ++i) {
    // A product of uniform numbers is skewed as lengths are.
    double u = (1.0 + static_cast<double>(rng.below(1000))) / 500.0;
    double v = (1.0 + static_cast<double>(rng.below(1000))) / 500.0;
    double w = (1.0 + static_cast<double>(rng.below(1000))) / 500.0;
    auto length = static_cast<int64_t>(static_cast<double>(typical) * u * v * w);
    lengths.push_back(std::clamp<int64_t>(length, 2, longest));
  }
  return lengths;
}

}  // namespace snug
