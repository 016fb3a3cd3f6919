// The sentences. Figures are exact where the text says so, and "about" where the log leaves a choice.
#include "explain/story.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "backend/cuda_plan/context.h"
#include "base/bytes.h"
#include "explain/allocation.h"
#include "explain/counts.h"
#include "explain/fitting.h"
#include "model/locate.h"

namespace snug {
namespace {

// PEFT keeps adapters in fp32, and so their gradients and AdamW's two states.
constexpr int64_t kPeftBytesPerParameter = 16;
constexpr size_t kMostGuesses = 3;
// What a driver, a desktop and rounding explain.
constexpr int64_t kWorthTelling = int64_t{512} << 20;

std::string gigabytes(int64_t bytes) {
  return fmt::format("{:.2f} GB", static_cast<double>(bytes) / 1e9);
}

std::string percent(double value) {
  return fmt::format("{:.2f}%", value);
}

// Several names have one shape.
std::string as_the_log_calls_it(const CountedRun& run, const LogFacts& facts) {
  for (const std::string& model : facts.models) {
    if (count_run(model, {"all-linear"}, 1).parameters == run.parameters) {
      return model;
    }
  }
  return run.model;
}

LogFinding tell_count(const TrainableCount& count, const std::vector<CountedRun>& runs,
                      const LogFacts& facts) {
  LogFinding finding{count.line, {}, {}};
  std::string counted = format_count(count.trainable);
  if (runs.empty()) {
    finding.title = fmt::format("{} trainable parameters are LoRA on no model that snug knows", counted);
    finding.sentences.push_back(
        "No model of the catalogue has that many at any rank, on the layers that people usually adapt. "
        "'snug inspect FOLDER --rank N' counts for a model of your own.");
    return finding;
  }
  const CountedRun& run = runs.front();
  finding.title = fmt::format("{} trainable parameters are {} at r={}", counted, run.model, run.r);
  finding.sentences.push_back(
      fmt::format("LoRA r={} on {} of {} trains {} of {} parameters, {}.", run.r, run.layers(), run.model,
                  counted, format_count(run.parameters + run.trainable), percent(run.percent())));
  std::set<std::string> others;
  for (const std::string& size : facts.sizes) {
    others.insert(sibling_of_size(run.model, size));
  }
  for (const std::string& model : facts.models) {
    others.insert(model);
  }
  for (const std::string& other : others) {
    if (other.empty()) {
      continue;
    }
    CountedRun there = count_run(other, run.targets, run.r);
    if (there.parameters != run.parameters) {
      finding.sentences.push_back(fmt::format(
          "It was not {}, which the log also names: there the same adapters have {} of {} parameters, {}.",
          other, format_count(there.trainable), format_count(there.parameters + there.trainable),
          percent(there.percent())));
    }
  }
  int64_t training_bytes = run.trainable * kPeftBytesPerParameter;
  finding.sentences.push_back(
      fmt::format("In PEFT each of them takes 16 bytes (fp32, its gradient, two states): {}, beside {} of "
                  "weights in 16 bits; {} "
                  "before the first activation.",
                  gigabytes(training_bytes), gigabytes(2 * run.parameters),
                  gigabytes(training_bytes + 2 * run.parameters)));
  if (runs.size() > 1) {
    std::vector<std::string> guesses;
    for (size_t i = 1; i < std::min(runs.size(), kMostGuesses + 1); ++i) {
      guesses.push_back(fmt::format("{} r={} on {}", runs[i].model, runs[i].r, runs[i].layers()));
    }
    finding.sentences.push_back(fmt::format("The same count have: {}.", fmt::join(guesses, "; ")));
  }
  return finding;
}

std::string shape_text(const std::vector<int64_t>& shape) {
  return fmt::format("{}", fmt::join(shape, " x "));
}

void tell_loading(const LoadingStory& story, const FailedAllocation& failure, LogFinding& finding) {
  std::string where = story.layer > 0 && failure.taken_bytes()
                          ? fmt::format(", about layer {} of {}", story.layer, story.layers)
                          : "";
  finding.sentences.push_back(
      fmt::format("{} is one {} matrix in {} ({}){}: this happened while weights were loaded, and they were "
                  "loaded in {}.",
                  format_bytes(*failure.wanted_bytes), shape_text(story.shape), name_of(story.dtype),
                  fmt::join(story.names, ", "), where, name_of(story.dtype)));
  int64_t needed = story.model_bytes + cuda::kTypicalContextBytes;
  std::string total = fmt::format("All weights in {} are {} ({} bytes)", name_of(story.dtype),
                                  format_bytes(story.model_bytes), format_count(story.model_bytes));
  if (failure.total_bytes && needed > *failure.total_bytes) {
    finding.sentences.push_back(fmt::format(
        "{}, and the driver takes about {} more: on this card {} are missing, not {}.", total,
        format_bytes(cuda::kTypicalContextBytes), format_bytes(needed - *failure.total_bytes),
        format_bytes(std::max<int64_t>(*failure.wanted_bytes - failure.free_bytes.value_or(0), 0))));
    finding.sentences.push_back(
        "No rank, alpha, batch size or allocator flag changes that: none of them exists yet while weights "
        "are loaded.");
  } else {
    finding.sentences.push_back(total + ".");
  }
  if (story.dtype == DType::f32) {
    finding.sentences.push_back(fmt::format(
        "In 16 bits they are {}: set a dtype (torch_dtype=torch.bfloat16 in transformers, model.dtype: bf16 "
        "in snug).",
        format_bytes(story.model_bytes / 2)));
  }
}

void tell_logits(const LogitsStory& story, const FailedAllocation& failure, const ModelSpec& spec,
                 LogFinding& finding) {
  finding.sentences.push_back(
      fmt::format("{} is what the logits of {} tokens take in {} (a vocabulary of {}). transformers holds "
                  "several such copies at "
                  "once; snug computes the loss in chunks and holds none.",
                  format_bytes(*failure.wanted_bytes), format_count(story.tokens), name_of(story.dtype),
                  format_count(spec.vocabulary)));
}

void tell_allocator(const FailedAllocation& failure, LogFinding& finding) {
  if (!failure.unused_bytes) {
    return;
  }
  if (*failure.unused_bytes >= failure.wanted_bytes.value_or(0)) {
    finding.sentences.push_back(
        fmt::format("PyTorch held {} that no tensor used, in pieces: here PYTORCH_CUDA_ALLOC_CONF="
                    "expandable_segments:True can help.",
                    format_bytes(*failure.unused_bytes)));
  } else {
    finding.sentences.push_back(fmt::format(
        "PyTorch held only {} that no tensor used: allocator flags and empty_cache() could not have helped.",
        format_bytes(*failure.unused_bytes)));
  }
}

LogFinding tell_failure(const FailedAllocation& failure, bool trained, const ModelSpec* spec) {
  LogFinding finding{failure.line, {}, {}};
  std::string wanted = failure.wanted_bytes ? format_bytes(*failure.wanted_bytes) : "An allocation";
  finding.title = failure.total_bytes ? fmt::format("{} did not fit on a card of {}", wanted,
                                                    format_bytes(*failure.total_bytes))
                                      : fmt::format("{} did not fit", wanted);
  if (failure.total_bytes && failure.free_bytes) {
    int64_t taken = *failure.total_bytes - *failure.free_bytes;
    finding.sentences.push_back(fmt::format("{} of {} were taken, {} were free.", format_bytes(taken),
                                            format_bytes(*failure.total_bytes),
                                            format_bytes(*failure.free_bytes)));
    int64_t others = taken - failure.in_use_bytes.value_or(taken);
    if (others > kWorthTelling) {
      finding.sentences.push_back(fmt::format(
          "{} of them belong to other processes on the card; nvidia-smi names them.", format_bytes(others)));
    }
  }
  if (spec != nullptr) {
    if (auto loading = find_loading(failure, *spec); loading && !trained) {
      tell_loading(*loading, failure, finding);
    } else if (auto logits = find_logits(failure, *spec)) {
      tell_logits(*logits, failure, *spec, finding);
    }
  }
  tell_allocator(failure, finding);
  return finding;
}

void tell_cards(const LogFacts& facts, std::vector<LogFinding>& findings) {
  if (facts.cards.empty()) {
    return;
  }
  const CardUse& card = facts.cards.front();
  LogFinding finding{card.line,
                     fmt::format("{} of {} on the card were in use", format_bytes(card.used_bytes),
                                 format_bytes(card.total_bytes)),
                     {}};
  int64_t known = 0;
  for (const CardProcess& process : facts.processes) {
    known += process.bytes;
    finding.sentences.push_back(
        fmt::format("{} by process {} ({}).", format_bytes(process.bytes), process.pid, process.name));
  }
  if (facts.cards.size() == 1 && card.used_bytes - known > kWorthTelling) {
    finding.sentences.push_back(fmt::format(
        "{} by processes that the table does not show: those of other users or containers, or one that is "
        "ending.",
        format_bytes(card.used_bytes - known)));
  }
  findings.push_back(std::move(finding));
}

}  // namespace

Story tell_story(const LogFacts& facts, const Recipe* recipe) {
  Story story;
  std::vector<CountedRun> counted;
  std::set<int64_t> told;
  for (const TrainableCount& count : facts.counts) {
    if (!told.insert(count.trainable).second) {
      continue;
    }
    std::vector<CountedRun> runs = runs_with_counts(count);
    for (CountedRun& run : runs) {
      run.model = as_the_log_calls_it(run, facts);
    }
    story.findings.push_back(tell_count(count, runs, facts));
    if (counted.empty()) {
      counted = std::move(runs);
    }
  }
  if (recipe != nullptr) {
    story.model = recipe->model.path;
  } else if (!counted.empty()) {
    story.model = counted.front().model;
  } else if (!facts.models.empty()) {
    story.model = facts.models.front();
  }
  std::optional<ModelSpec> spec;
  if (!story.model.empty()) {
    spec = locate_model(story.model).spec;
  }
  if (!facts.failures.empty()) {
    story.findings.push_back(tell_failure(facts.failures.front(), facts.trained, spec ? &*spec : nullptr));
    if (facts.failures.size() > 1) {
      story.findings.back().sentences.push_back(
          fmt::format("The log has {} such failures; this is the first.", facts.failures.size()));
    }
  }
  tell_cards(facts, story.findings);
  for (const Symptom& symptom : facts.symptoms) {
    story.findings.push_back({symptom.line,
                              fmt::format("\"{}\"", symptom.said),
                              {std::string(symptom.means), std::string(symptom.remedy)}});
  }
  std::stable_sort(story.findings.begin(), story.findings.end(),
                   [](const LogFinding& a, const LogFinding& b) { return a.line < b.line; });
  std::optional<int64_t> limit_bytes;
  if (!facts.failures.empty()) {
    limit_bytes = facts.failures.front().total_bytes;
  }
  if (!limit_bytes && !facts.cards.empty()) {
    limit_bytes = facts.cards.front().total_bytes;
  }
  if (spec && limit_bytes) {
    story.fitting = recipe != nullptr ? fit_recipe(*recipe, *spec, *limit_bytes)
                                      : fit_model(story.model, *spec,
                                                  counted.empty() ? nullptr : &counted.front(), *limit_bytes);
  }
  return story;
}

}  // namespace snug
