// How fast data becomes tokens, and how fast an epoch comes out of the cache; and in how much memory.
//
//   build/release/data RECIPE
//
// Prints one line of JSON. The first run on new data tokenizes; later ones find the cache.
#include <fmt/format.h>
#include <sys/resource.h>

#include <chrono>
#include <vector>

#include "data/batches/limits.h"
#include "data/batches/sequence.h"
#include "data/run_data.h"
#include "io/json.h"
#include "model/locate.h"
#include "recipe/parse.h"
#include "train/trainer.h"

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

double peak_resident_mb() {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1000;
}

// Each example once: what a shuffled epoch must be.
bool is_permutation(const snug::EpochPieces& epoch, int64_t count) {
  std::vector<bool> seen(static_cast<size_t>(count), false);
  for (int64_t example : epoch.examples) {
    if (seen[static_cast<size_t>(example)]) {
      return false;
    }
    seen[static_cast<size_t>(example)] = true;
  }
  return static_cast<int64_t>(epoch.examples.size()) == count;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    fmt::print(stderr, "usage: data RECIPE\n");
    return 2;
  }
  snug::Recipe recipe = snug::read_recipe(argv[1], {});
  recipe.training.num_train_epochs = 1;
  recipe.training.max_steps = -1;
  snug::LocatedModel model = snug::locate_model(recipe.model.path);
  Clock::time_point start = Clock::now();
  snug::RunData data = snug::load_run_data(recipe, snug::data_model(model), [](const snug::DataProgress&) {});
  double load_seconds = seconds_since(start);
  double load_peak_mb = peak_resident_mb();
  int64_t rows = data.train.parts().front().table->facts().rows;

  snug::BatchOptions options = snug::training_batches(recipe, data.train);
  bool permutation = is_permutation(snug::make_epoch(data.train, options, 0), data.train.size());
  snug::BatchSequence batches(data.train, options);
  int64_t tokens = 0;
  start = Clock::now();
  for (auto step = batches.next_step(); !step.empty(); step = batches.next_step()) {
    for (const snug::Batch& batch : step) {
      tokens += batch.tokens() + batch.source_tokens();
    }
  }
  double epoch_seconds = seconds_since(start);
  snug::Json report = {{"rows", rows},
                       {"load_seconds", load_seconds},
                       {"rows_per_second", static_cast<double>(rows) / load_seconds},
                       {"load_peak_resident_mb", load_peak_mb},
                       {"examples", data.train.size()},
                       {"each_example_once", permutation},
                       {"epoch_steps", batches.total_steps()},
                       {"epoch_tokens", tokens},
                       {"epoch_seconds", epoch_seconds},
                       {"epoch_tokens_per_second", static_cast<double>(tokens) / epoch_seconds},
                       {"peak_resident_mb", peak_resident_mb()}};
  fmt::print("{}\n", report.dump());
  return 0;
}
