// Trains a 15M-parameter Llama (dim 288, 6 layers, vocabulary 32000, length 256) on random tokens and prints
// one JSON line: tokens a second, and the most memory that was ever resident.
// usage: train_cpu [threads] [steps] [batch]
#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>

#include "backend/cpu/cpu_backend.h"
#include "base/threads.h"
#include "compile/phases.h"
#include "data/batches/synthetic.h"
#include "model/decoder.h"
#include "plan/training.h"
#include "train/trainer.h"
#include "train/weights.h"

namespace {

snug::ModelSpec fifteen_million() {
  snug::ModelSpec spec;
  spec.family = "llama";
  spec.architecture = "LlamaForCausalLM";
  spec.vocabulary = 32000;
  spec.width = 288;
  spec.decoder = snug::repeat(snug::usual_layer(6, 6, 48, 768), 6);
  spec.max_positions = 256;
  spec.tied_embeddings = true;
  return spec;
}

int64_t argument(int argc, char** argv, int index, int64_t fallback) {
  return argc > index ? std::atoll(argv[index]) : fallback;
}

}  // namespace

int main(int argc, char** argv) {
  using Clock = std::chrono::steady_clock;
  snug::set_thread_count(static_cast<int>(argument(argc, argv, 1, 0)));
  int64_t steps = argument(argc, argv, 2, 8);
  snug::Recipe recipe;
  recipe.model.dtype = snug::DType::f32;
  recipe.data.max_length = 256;
  recipe.training.per_device_train_batch_size = argument(argc, argv, 3, 8);
  recipe.training.learning_rate = 1e-3;
  recipe.training.lr_scheduler_type = snug::Schedule::constant;

  snug::ModelSpec spec = fifteen_million();
  snug::CpuBackend backend;
  snug::Plan plan = snug::plan_training(recipe, spec, backend);
  snug::Executor executor(plan, backend);
  snug::load_constants(executor);
  snug::initialize_weights(executor, spec, 1);
  snug::StepRunner runner(executor, recipe.training);

  std::vector<double> seconds;
  double loss = 0;
  int64_t tokens = recipe.training.per_device_train_batch_size.value() * recipe.data.max_length;
  for (int64_t step = 0; step < steps; ++step) {
    snug::Batch batch = snug::random_batch(
        {recipe.training.per_device_train_batch_size.value(), recipe.data.max_length, spec.vocabulary},
        static_cast<uint64_t>(step));
    Clock::time_point start = Clock::now();
    loss = runner.run_step({batch}, step, steps).loss;
    seconds.push_back(std::chrono::duration<double>(Clock::now() - start).count());
  }
  seconds.erase(seconds.begin(), seconds.begin() + std::min<std::ptrdiff_t>(2, std::ssize(seconds) - 1));
  std::sort(seconds.begin(), seconds.end());
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  fmt::print(
      "{{\"stack\": \"snug\", \"threads\": {}, \"tokens_per_second\": {:.0f}, \"peak_resident_mib\": {:.0f}, "
      "\"planned_mib\": {:.1f}, \"parameters\": {}, \"loss\": {:.4f}}}\n",
      snug::thread_count(), static_cast<double>(tokens) / seconds[seconds.size() / 2],
      static_cast<double>(usage.ru_maxrss) / 1024.0, static_cast<double>(plan.device_bytes()) / 0x1p20,
      plan.parameters, loss);
  return 0;
}
