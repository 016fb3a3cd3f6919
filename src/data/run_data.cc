// The recipe's data section, carried out.
#include "data/run_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "base/bytes.h"
#include "base/error.h"
#include "data/batches/epoch.h"
#include "data/questions.h"
#include "data/tokens/store.h"
#include "recipe/eval_metric.h"

namespace snug {
namespace {

void check_table(const TokenTable& table, const DataModel& model) {
  if (table.facts().vocabulary > model.vocabulary) {
    throw bad_input(fmt::format(
        "{}: the tokenizer has {} tokens, but the model's vocabulary is {}; tokenizer and model do "
        "not belong together",
        model.folder.string(), table.facts().vocabulary, model.vocabulary));
  }
}

void check_not_empty(const Dataset& dataset, const DataSection& data) {
  if (dataset.size() > 0) {
    return;
  }
  const TruncationCounts& counts = dataset.truncation();
  throw bad_input(fmt::format(
      "{}: no example is left: data.max_length ({}) {}. Raise it, or set data.truncation_side to left.",
      dataset.parts().front().table->facts().files, data.max_length,
      counts.dropped_long > 0 ? "is shorter than every row, and data.truncation is drop"
                              : "cuts away all that would be learned"));
}

void check_questions(const Dataset& dataset, const Recipe& recipe) {
  if (questions_of(dataset, 1).empty()) {
    throw bad_input(
        fmt::format("training.eval_max_new_tokens is {}, but no row of {} has an answer behind a question: "
                    "all of it is learned. Set it to 0, or evaluate with rows of prompts and completions",
                    recipe.training.eval_max_new_tokens, dataset.parts().front().table->facts().files));
  }
}

// The order of an epoch's examples lies in memory, eight bytes each.
void check_epoch(const Dataset& dataset) {
  constexpr int64_t kMaxExamples = int64_t{1} << 30;
  if (examples_per_epoch(dataset) > kMaxExamples) {
    throw bad_input(fmt::format(
        "data.train_file: its weights make an epoch of {} examples, out of {}; {} are possible. Lower the "
        "weights, and set training.num_train_epochs for how often all of it is seen",
        format_count(examples_per_epoch(dataset)), format_count(dataset.size()), format_count(kMaxExamples)));
  }
}

Dataset assemble(TokenStore& store, const std::vector<DataFile>& files, const Recipe& recipe,
                 const DataModel& model) {
  Dataset dataset;
  for (const DataFile& file : files) {
    std::shared_ptr<const TokenTable> table = store.get(file.path);
    check_table(*table, model);
    dataset.add(std::move(table), length_limits(recipe.data), file.weight);
  }
  check_not_empty(dataset, recipe.data);
  check_epoch(dataset);
  return dataset;
}

void add_count(std::string& text, int64_t count, const std::string& what) {
  if (count > 0) {
    text += fmt::format("; {} {}", format_count(count), what);
  }
}

bool has_bad_rows(const Dataset& dataset) {
  return std::any_of(dataset.parts().begin(), dataset.parts().end(),
                     [](const Dataset::Part& part) { return part.table->facts().bad_rows > 0; });
}

}  // namespace

std::vector<const Dataset*> RunData::evaluated() const {
  std::vector<const Dataset*> all;
  if (eval) {
    all.push_back(&*eval);
  }
  for (const EvalSet& set : earlier) {
    all.push_back(&set.data);
  }
  return all;
}

std::vector<const Dataset*> RunData::read_in_evaluations() const {
  std::vector<const Dataset*> all = evaluated();
  if (sample_prompts) {
    all.push_back(&*sample_prompts);
  }
  return all;
}

bool has_bad_rows(const RunData& data) {
  return has_bad_rows(data.train) || (data.eval && has_bad_rows(*data.eval));
}

TokenizeOptions tokenize_options(const DataSection& data, const DataModel& model) {
  return {.format = data.format,
          .columns = {.prompt_template = data.prompt_template,
                      .completion = data.completion_column,
                      .system = data.system_column},
          .encoding = {.train_on = data.train_on, .decoder_start_id = model.decoder_start_id},
          .chat_template = data.chat_template,
          .model_folder = model.folder,
          .on_bad_row = data.on_bad_row,
          .max_rows = data.max_samples};
}

LengthLimits length_limits(const DataSection& data) {
  return {.truncation = data.truncation,
          .side = data.truncation_side,
          .max_length_tokens = data.max_length,
          .max_target_tokens = data.max_target_length};
}

RunData load_run_data(const Recipe& recipe, const DataModel& model, const DataObserver& observer) {
  const DataSection& data = recipe.data;
  TokenStore store(tokenize_options(data, model), data.cache_dir, observer);
  RunData run{.train = assemble(store, data.train_file, recipe, model), .eval = std::nullopt};
  if (!data.eval_file.empty()) {
    std::vector<DataFile> files;
    for (const std::string& path : data.eval_file) {
      files.push_back({path});
    }
    run.eval = assemble(store, files, recipe, model);
    for (size_t i = 0; i < data.eval_sets.size(); ++i) {
      bool is_new = run.eval_sets.empty() || run.eval_sets.back().name != data.eval_sets[i];
      if (is_new) {
        run.eval_sets.push_back({data.eval_sets[i], {}});
      }
      run.eval_sets.back().data.add(store.get(files[i].path), length_limits(data), 1);
    }
    for (const EvalSet& set : run.eval_sets) {
      check_not_empty(set.data, data);
    }
  } else if (data.eval_split > 0) {
    run.eval = run.train.split_off(data.eval_split, static_cast<uint64_t>(data.split_seed));
    if (run.train.size() == 0 || run.eval->size() == 0) {
      throw bad_input(
          fmt::format("data.eval_split is {}, which leaves {} examples to train on and {} to evaluate with: "
                      "neither may be "
                      "0",
                      data.eval_split, run.train.size(), run.eval->size()));
    }
  }
  if (run.eval && run.eval_sets.empty() && !recipe.stage.name.empty()) {
    run.eval_sets.push_back({recipe.stage.name, *run.eval});
  }
  if (run.eval && recipe.training.eval_max_new_tokens > 0) {
    check_questions(*run.eval, recipe);
  }
  if (has_validation_prompts(recipe.training)) {
    run.samples = load_samples(recipe, model, store.tokenizer(),
                               run.train.parts().front().table->facts().chat_template);
    run.sample_prompts = prompts_of(run.samples);
  }
  return run;
}

std::string describe(const Dataset& dataset) {
  std::string text;
  for (const Dataset::Part& part : dataset.parts()) {
    const TableFacts& facts = part.table->facts();
    text += fmt::format("{}{}: {}{}{}", text.empty() ? "" : "; ", facts.files, facts.format,
                        facts.chat_template.empty() ? "" : ", by the chat template " + facts.chat_template,
                        part.weight == 1 ? "" : fmt::format(", {:g} times an epoch", part.weight));
    add_count(text, facts.nothing_learned.count, "rows left out, nothing to learn in them");
    add_count(text, facts.bad_rows,
              "bad rows skipped, the first at " + (facts.bad.empty() ? "" : facts.bad.front()));
  }
  TokenCounts tokens = dataset.count_tokens();
  text += fmt::format("; {} examples, {} tokens, {} of them learned", format_count(dataset.size()),
                      format_count(tokens.with_sources()), format_count(tokens.learned));
  const TruncationCounts& counts = dataset.truncation();
  const LengthLimits& limits = dataset.parts().front().limits;
  auto add_cut = [&](const CutCounts& cut, const char* what, int64_t max_tokens) {
    add_count(text, cut.examples,
              fmt::format("{}cut to {} tokens ({} tokens lost)", what, format_count(max_tokens),
                          format_count(cut.tokens)));
  };
  if (dataset.has_sources()) {
    add_cut(counts.sources, "sources ", limits.max_length_tokens);
    add_cut(counts.targets, "targets ", limits.target_tokens());
  } else {
    add_cut(counts.targets, "", limits.max_length_tokens);
  }
  add_count(text, counts.split_rows, "split, being too long");
  add_count(text, counts.dropped_long, "dropped, being too long");
  add_count(text, counts.nothing_learned, "dropped, all that was to be learned being cut away");
  return text;
}

}  // namespace snug
