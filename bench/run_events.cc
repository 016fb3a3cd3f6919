// What telling of a step costs: a row to metrics.jsonl and to TensorBoard's file, run.log, a message to a
// webhook if there is a URL, and the watch over the run. Prints one JSON line: microseconds a step that is
// logged, and one that is not. usage: run_events FOLDER [steps] [URL]
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>

#include "report/run_log.h"
#include "report/webhooks.h"
#include "train/metrics_log.h"
#include "train/metrics_rows.h"
#include "train/run_watch.h"
#include "train/tensorboard_log.h"

namespace {

double microseconds_a_step(const snug::RunEvents& events, int64_t steps, bool logged) {
  auto start = std::chrono::steady_clock::now();
  for (int64_t step = 1; step <= steps; ++step) {
    snug::StepMetrics metrics;
    metrics.step = logged ? 10 * step : 10 * step + 1;
    metrics.loss = 2;
    metrics.gradient_norm = 1;
    metrics.learning_rate = 1e-4;
    metrics.tokens = 4096;
    metrics.seconds = 0.5;
    if (logged) {
      snug::Json row = snug::step_row(metrics, step * metrics.tokens);
      row["time"] = 1e9;
      events.row(row);
    }
    events.step(metrics);
  }
  auto taken = std::chrono::steady_clock::now() - start;
  return std::chrono::duration<double, std::micro>(taken).count() / static_cast<double>(steps);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    fmt::print(stderr, "usage: run_events FOLDER [steps] [URL]\n");
    return 2;
  }
  std::filesystem::path folder = argv[1];
  int64_t steps = argc > 2 ? std::atoll(argv[2]) : 20'000;
  snug::RunEvents events;
  snug::MetricsLog metrics(folder / "metrics.jsonl", "", events);
  snug::TensorboardLog tensorboard(folder / snug::new_event_file_name(), {}, "", events);
  snug::RunWatch watch({.vocabulary = 32000}, events);
  snug::RunLog log("", 10);
  snug::Recipe recipe;
  recipe.logging.webhook_minutes = 0;
  recipe.logging.webhooks.assign(argc > 3 ? 1 : 0, {});
  std::vector<std::string> urls(argv + std::min(argc, 3), argv + argc);
  snug::Webhooks webhooks(recipe, urls, events);
  events.listen(log);
  events.listen(webhooks);
  events.begin({.folder = folder, .total_steps = 10 * steps});
  events.listen(metrics);
  events.listen(tensorboard);
  events.listen(watch);
  double logged = microseconds_a_step(events, steps, true);
  double others = microseconds_a_step(events, steps, false);
  fmt::print("{{\"steps\": {}, \"logged_us\": {:.2f}, \"other_us\": {:.2f}}}\n", steps, logged, others);
}
