// Training speed on the card at a model's real shape: random weights and tokens, the product's own plan,
// executor and step. Prints one line "SNUG {json}", and with profile=1 where the time goes.
//
//   train_gpu model=Qwen/Qwen2.5-7B-Instruct batch=4 length=2048 [target=256] [rank=128] [dtype=bf16]
//             [quantization=none|nf4|nf4_double|fp4|int8] [compute=dtype|fp8] [memory=23.6GiB] [chunk=1024]
//             [steps=6] [accumulate=1] [recompute=none|selective|full|fit|none:8,selective:24] [graphs=1]
//             [profile=0] [plan=0] [optim=adamw|adafactor] [states=fp32|bf16|8bit] [gradients=fp32|bf16]
//             [dropout=0.05] [model_dropout=0] [learned=1] [curve=FOLDER] [checkpoint=FOLDER]
//             [weights=FOLDER] [modules=all-linear]
// rank=0 is full fine-tuning; recompute=fit takes the least that fits `memory`, none:8,selective:24 says what
// each layer does; plan=1 needs no card. With curve, two batches come in turn, all losses are printed, and
// FOLDER gets what peer.py needs to do the same. With checkpoint, what saving one there costs is measured
// too. learned=0.4: sequences begin with prompts of random lengths, which on average leave that share of the
// tokens with a target. With weights, those of the model's folder are loaded, and how long that took is
// printed as load_s. modules=layers.0.mlp.down_proj leaves a step without adapters but for one, at the end of
// the backward pass: what the others cost is the difference.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <tuple>

#include "backend/cuda_plan/planned_card.h"
#include "base/bytes.h"
#include "base/error.h"
#include "base/rng.h"
#include "compile/phases.h"
#include "fit/choice.h"
#include "fit/recompute_search.h"
#include "gpu/checkpoint_cost.h"
#include "gpu/energy.h"
#include "gpu/profiling_backend.h"
#include "gpu/same_start.h"
#include "io/json.h"
#include "io/tensor_source.h"
#include "model/locate.h"
#include "plan/speed.h"
#include "plan/training.h"
#include "program/step_clock.h"
#include "recipe/choices.h"
#include "train/code_placer.h"
#include "train/trainer.h"
#include "train/weights.h"

namespace snug {
namespace {

using Arguments = std::map<std::string, std::string>;

// An H200, for plans that are made without a card.
constexpr cuda::CardShape kH200 = {
    .capability = 90, .multiprocessors = 132, .clock_hz = 1.98e9, .memory_bytes_hz = 4.9e12};

int64_t number(const Arguments& arguments, const std::string& key) {
  return std::stoll(arguments.at(key));
}

Arguments read_arguments(int argc, char** argv) {
  Arguments arguments = {{"model", "Qwen/Qwen2.5-7B-Instruct"},
                         {"batch", "4"},
                         {"length", "2048"},
                         {"target", "0"},
                         {"rank", "128"},
                         {"dtype", "bf16"},
                         {"quantization", "none"},
                         {"compute", "dtype"},
                         {"recompute", "none"},
                         {"memory", ""},
                         {"chunk", "1024"},
                         {"steps", "6"},
                         {"accumulate", "1"},
                         {"graphs", "1"},
                         {"optim", "adamw"},
                         {"states", "fp32"},
                         {"gradients", "fp32"},
                         {"modules", "all-linear"},
                         {"dropout", "0"},
                         {"model_dropout", "0"},
                         {"learned", "1"},
                         {"curve", ""},
                         {"checkpoint", ""},
                         {"weights", ""},
                         {"profile", "0"},
                         {"plan", "0"}};
  for (int i = 1; i < argc; ++i) {
    std::string text = argv[i];
    size_t equals = text.find('=');
    if (equals == std::string::npos || !arguments.contains(text.substr(0, equals))) {
      throw bad_input(fmt::format("\"{}\" is no argument of train_gpu", text));
    }
    arguments[text.substr(0, equals)] = text.substr(equals + 1);
  }
  return arguments;
}

// The value of a name in one of the tables that the recipe's keys have.
template <typename Choices>
auto choice_of(const Choices& choices, const std::string& name) {
  auto found =
      std::find_if(choices.begin(), choices.end(), [&](const auto& choice) { return choice.first == name; });
  if (found == choices.end()) {
    throw bad_input(fmt::format("\"{}\" is none of the choices", name));
  }
  return found->second;
}

Recipe make_recipe(const Arguments& arguments) {
  Recipe recipe;
  recipe.model.path = arguments.at("model");
  recipe.model.dtype = parse_dtype(arguments.at("dtype"));
  recipe.model.quantization = choice_of(kQuantizations, arguments.at("quantization"));
  recipe.model.compute = choice_of(kComputes, arguments.at("compute"));
  recipe.model.dropout = std::stod(arguments.at("model_dropout"));  // the peer's models have none
  recipe.data.max_length = number(arguments, "length");
  recipe.data.max_target_length = number(arguments, "target");
  recipe.training.per_device_train_batch_size = number(arguments, "batch");
  recipe.training.gradient_accumulation_steps = number(arguments, "accumulate");
  recipe.training.learning_rate = 1e-4;
  recipe.training.optim = choice_of(kOptimizers, arguments.at("optim"));
  recipe.training.optimizer_states = choice_of(kOptimizerStates, arguments.at("states"));
  recipe.training.gradient_dtype = choice_of(kGradientDtypes, arguments.at("gradients"));
  if (!arguments.at("curve").empty()) {  // as the peer's optimizer
    recipe.training.lr_scheduler_type = Schedule::constant;
    recipe.training.max_grad_norm = 0;
  }
  recipe.memory.loss_chunk_tokens = number(arguments, "chunk");
  if (number(arguments, "rank") > 0) {
    recipe.lora = LoraSection{.r = number(arguments, "rank"),
                              .lora_alpha = 2.0 * static_cast<double>(number(arguments, "rank")),
                              .lora_dropout = std::stod(arguments.at("dropout")),
                              .target_modules = {arguments.at("modules")}};
  }
  if (!arguments.at("memory").empty()) {
    recipe.memory.limit_bytes = parse_bytes(arguments.at("memory"));
  }
  return recipe;
}

// "full", or "none:8,selective:24".
std::vector<Recompute> policies_of(const std::string& text) {
  const std::map<std::string, Recompute> policies = {
      {"none", Recompute::none}, {"selective", Recompute::selective}, {"full", Recompute::full}};
  std::vector<Recompute> layers;
  std::stringstream list(text);
  for (std::string run; std::getline(list, run, ',');) {
    size_t colon = run.find(':');
    size_t count = colon == std::string::npos ? 1 : std::stoul(run.substr(colon + 1));
    layers.insert(layers.end(), count, policies.at(run.substr(0, colon)));
  }
  return layers;
}

Plan make_bench_plan(const Arguments& arguments, Recipe& recipe, const ModelSpec& spec, const Device& device,
                     std::string& chosen) {
  chosen = arguments.at("recompute");
  if (chosen == "fit") {
    recipe.memory.micro_batch_tokens = number(arguments, "batch") * recipe.data.max_length;
    FittedRecipe fitted = choose_plan(recipe, spec, device);
    chosen = describe_recompute(fitted.recipe, fitted.plan);
    return std::move(fitted.plan);
  }
  recipe.memory.recompute = policies_of(chosen);
  return plan_training(recipe, spec, device);
}

// One block of random numbers again and again: what matters for speed is that they are not zeros.
class WeightFiller {
 public:
  explicit WeightFiller(Executor& executor) : executor_(executor), values_(1 << 22) {
    Rng rng(1);
    for (float& value : values_) {
      value = rng.normal();
    }
  }

  const std::vector<float>& block() const { return values_; }

  // A weight of codes is made of the values that the others get.
  void fill_codes(const Buffer& buffer, float deviation) {
    DType dtype = buffer.format.dtype;
    const std::vector<std::byte>& raw = block_of(dtype, deviation, 0);
    auto block = static_cast<int64_t>(values_.size());
    Staging staging(executor_);
    for (const TensorPart& part : buffer.parts) {
      int64_t before = part.row_begin * buffer.dims[1].max;
      place_codes(executor_, staging, buffer, part, [&](int64_t first, int64_t count, void* to) {
        for (int64_t done = 0; done < count;) {
          int64_t from = (before + first + done) % block;
          int64_t now = std::min(block - from, count - done);
          std::copy_n(raw.data() + bytes_of(dtype, from), bytes_of(dtype, now),
                      static_cast<std::byte*>(to) + bytes_of(dtype, done));
          done += now;
        }
      });
    }
  }

  void fill(const std::string& name, float deviation, float mean) {
    if (!executor_.has(kLoadPhase, name)) {
      return;
    }
    Tensor tensor = executor_.tensor(kLoadPhase, name);
    const std::vector<std::byte>& raw = block_of(tensor.dtype, deviation, mean);
    auto block = static_cast<int64_t>(values_.size());
    for (int64_t done = 0; done < tensor.elements(); done += block) {
      int64_t now = std::min(block, tensor.elements() - done);
      executor_.backend().upload(tensor.as<std::byte>() + done * size_of(tensor.dtype), raw.data(),
                                 now * size_of(tensor.dtype));
    }
    executor_.backend().synchronize();
  }

 private:
  using Kind = std::tuple<DType, float, float>;

  const std::vector<std::byte>& block_of(DType dtype, float deviation, float mean) {
    std::vector<std::byte>& raw = blocks_[{dtype, deviation, mean}];
    if (raw.empty()) {
      std::vector<float> scaled(values_.size());
      std::transform(values_.begin(), values_.end(), scaled.begin(),
                     [&](float value) { return value * deviation + mean; });
      raw.resize(scaled.size() * static_cast<size_t>(size_of(dtype)));
      if (is_floating(dtype)) {  // the rests of bf16 numbers are integers, and begin as zeros
        convert(DType::f32, scaled.data(), dtype, raw.data(), static_cast<int64_t>(scaled.size()));
      }
    }
    return raw;
  }

  Executor& executor_;
  std::vector<float> values_;
  std::map<Kind, std::vector<std::byte>> blocks_;
};

StartValues start_values(const Buffer& buffer) {
  bool is_norm = buffer.dims.size() == 1 && !buffer.name.ends_with(".bias");
  bool is_up = buffer.name.ends_with(".lora_B");
  return {.deviation = is_norm || is_up ? 0.0F : 0.02F, .mean = is_norm ? 1.0F : 0.0F};
}

void fill_weights(Executor& executor, WeightFiller& filler) {
  load_constants(executor);
  for (const Buffer& buffer : executor.plan().phase(kLoadPhase).program.buffers) {
    if (buffer.origin != Origin::file) {
      continue;
    }
    StartValues start = start_values(buffer);
    if (buffer.format.is_coded()) {
      filler.fill_codes(buffer, start.deviation);
      continue;
    }
    filler.fill(buffer.name, start.deviation, start.mean);
    filler.fill(master_name(buffer.name), start.deviation, start.mean);
    filler.fill(rest_name(buffer.name), start.deviation, start.mean);
  }
}

// What batches are made of.
struct Drawing {
  const Recipe& recipe;
  const ModelSpec& spec;
  double learned = 1;  // the share of the tokens that have a target
};

// The beginning of each sequence has no target: as much as leaves the wished share on average, and at least
// one token.
void mask_prompts(Batch& batch, double learned, Rng& rng) {
  double spread = std::min(learned, 1 - learned);
  for (size_t s = 0; s + 1 < batch.offsets.size(); ++s) {
    auto begin = batch.targets.begin() + batch.offsets[s];
    auto length = static_cast<double>(batch.offsets[s + 1] - batch.offsets[s]);
    double share = 1 - learned + spread * (2 * static_cast<double>(rng.uniform()) - 1);
    auto prompt = static_cast<std::ptrdiff_t>(std::clamp(share * length, 0.0, length - 1));
    std::fill(begin, begin + prompt, kNoTarget);
    batch.target_count -= prompt;
  }
}

Batch random_batch(const Drawing& drawing, uint64_t seed) {
  const Recipe& recipe = drawing.recipe;
  const ModelSpec& spec = drawing.spec;
  Rng rng(seed);
  auto draw = [&] { return static_cast<int32_t>(rng.below(static_cast<uint64_t>(spec.vocabulary))); };
  Batch batch;
  batch.offsets.push_back(0);
  int64_t length = decoder_length(recipe, spec.has_encoder());
  for (int64_t s = 0; s < recipe.training.per_device_train_batch_size.value(); ++s) {
    for (int64_t i = 0; i < length; ++i) {
      batch.ids.push_back(draw());
      batch.targets.push_back(draw());
      batch.positions.push_back(static_cast<int32_t>(i));
    }
    batch.offsets.push_back(static_cast<int32_t>(batch.ids.size()));
  }
  if (spec.has_encoder()) {
    batch.source_offsets.push_back(0);
    for (int64_t s = 0; s < recipe.training.per_device_train_batch_size.value(); ++s) {
      for (int64_t i = 0; i < recipe.data.max_length; ++i) {
        batch.source_ids.push_back(draw());
      }
      batch.source_offsets.push_back(static_cast<int32_t>(batch.source_ids.size()));
    }
  }
  batch.target_count = batch.tokens();
  if (drawing.learned < 1) {
    mask_prompts(batch, drawing.learned, rng);
  }
  return batch;
}

constexpr int64_t kCurveBatches = 2;

Batch curve_batch(const Drawing& drawing, int64_t step) {
  Batch batch = random_batch(drawing, static_cast<uint64_t>(step % kCurveBatches));
  make_learnable(batch, drawing.spec);
  return batch;
}

void print_profile(ProfilingBackend& backend) {
  std::vector<std::pair<std::string, ProfilingBackend::Share>> rows;
  double total = 0;
  for (const auto& row : backend.take_profile()) {
    rows.push_back(row);
    total += row.second.seconds;
  }
  std::sort(rows.begin(), rows.end(),
            [](const auto& a, const auto& b) { return a.second.seconds > b.second.seconds; });
  for (const auto& [label, share] : rows) {
    fmt::print("PROFILE {:9.3f} ms {:5.1f}%, at the card's rates {:9.3f} ms, {:5} x {}\n",
               share.seconds * 1e3, 100 * share.seconds / total, share.least_seconds * 1e3, share.calls,
               label);
  }
}

struct Timing {
  double median_seconds = 0;
  std::vector<double> losses;
  double enqueue_seconds = 0;      // of the host, a step whose result is read later
  double ahead_seconds = 0;        // of such a step
  double ahead_watts = 0;          // that the card draws meanwhile; 0 where it does not tell
  double ahead_loss = 0;           // of the last one
  int64_t early_driver_bytes = 0;  // when everything has run once and the graphs are recorded
};

std::vector<Batch> step_batches(const Drawing& drawing) {
  std::vector<Batch> batches;
  for (int64_t i = 0; i < drawing.recipe.training.gradient_accumulation_steps.value(); ++i) {
    batches.push_back(random_batch(drawing, static_cast<uint64_t>(i)));
  }
  return batches;
}

// As the trainer takes steps between two that are logged: so many that they take a second or more, as the
// card counts its joules a few times a second.
void time_steps_ahead(const Drawing& drawing, StepRunner& runner, Timing& timing) {
  int64_t steps = std::clamp<int64_t>(static_cast<int64_t>(1.5 / timing.median_seconds), 4, kHistorySteps);
  std::vector<Batch> batches = step_batches(drawing);
  auto start = std::chrono::steady_clock::now();
  std::optional<double> joules = card_joules();
  auto seconds = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  for (int64_t step = 0; step < steps; ++step) {
    runner.enqueue_step(batches, step, steps);
  }
  timing.enqueue_seconds = seconds() / static_cast<double>(steps);
  timing.ahead_loss = runner.take_results().back().loss;
  timing.ahead_seconds = seconds() / static_cast<double>(steps);
  if (joules) {
    timing.ahead_watts = (*card_joules() - *joules) / seconds();
  }
}

Timing run_steps(const Arguments& arguments, const Drawing& drawing, StepRunner& runner,
                 ProfilingBackend& backend) {
  std::vector<double> seconds;
  Timing timing;
  int64_t steps = number(arguments, "steps");
  bool curve = !arguments.at("curve").empty();
  for (int64_t step = 0; step < steps; ++step) {
    std::vector<Batch> batches;
    for (int64_t i = 0; i < drawing.recipe.training.gradient_accumulation_steps.value(); ++i) {
      batches.push_back(curve ? curve_batch(drawing, step)
                              : random_batch(drawing, static_cast<uint64_t>(100 * step + i)));
    }
    backend.take_profile();
    auto start = std::chrono::steady_clock::now();
    timing.losses.push_back(runner.run_step(batches, step, steps).loss);
    seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    if (step == 2) {
      timing.early_driver_bytes = backend.driver_bytes();
    }
  }
  std::sort(seconds.begin() + 3, seconds.end());
  timing.median_seconds = seconds[3 + (seconds.size() - 3) / 2];
  time_steps_ahead(drawing, runner, timing);
  return timing;
}

int run(int argc, char** argv) {
  Arguments arguments = read_arguments(argc, argv);
  Recipe recipe = make_recipe(arguments);
  ModelSpec spec = locate_model(recipe.model.path).spec;
  bool plan_only = number(arguments, "plan") != 0;
  bool profile = number(arguments, "profile") != 0;
  std::optional<ProfilingBackend> card;
  if (!plan_only) {
    card.emplace(CudaOptions{.graphs = number(arguments, "graphs") != 0 && !profile}, profile);
  }
  std::string recompute;
  auto plan_start = std::chrono::steady_clock::now();
  PlannedCard planned;
  const Device& device = card ? static_cast<const Device&>(*card) : planned;
  Plan plan = make_bench_plan(arguments, recipe, spec, device, recompute);
  Drawing drawing{recipe, spec, std::stod(arguments.at("learned"))};
  plan.step.learned = drawing.learned;
  double plan_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - plan_start).count();
  DType dtype = run_dtype(recipe, spec);
  SpeedEstimate estimate =
      estimate_speed(plan, card ? card->rates(dtype) : cuda::rates_of(kH200, dtype, false));
  double tokens = estimate.tokens;
  double limit = estimate.ceiling_tokens_per_second();
  Json report = {{"model", recipe.model.path},
                 {"batch", arguments.at("batch")},
                 {"length", arguments.at("length")},
                 {"dtype", arguments.at("dtype")},
                 {"rank", arguments.at("rank")},
                 {"modules", arguments.at("modules")},
                 {"quantization", arguments.at("quantization")},
                 {"compute", arguments.at("compute")},
                 {"optim", arguments.at("optim")},
                 {"states", arguments.at("states")},
                 {"gradients", arguments.at("gradients")},
                 {"accumulate", arguments.at("accumulate")},
                 {"dropout", arguments.at("dropout")},
                 {"model_dropout", arguments.at("model_dropout")},
                 {"learned", arguments.at("learned")},
                 {"recompute", recompute},
                 {"planned_arena_bytes", plan.device_bytes()},
                 {"context_bytes", plan.context_bytes},
                 {"planned_GiB", static_cast<double>(plan.peak_bytes()) / (1 << 30)},
                 {"fits", plan.fits()},
                 {"plan_s", plan_seconds},
                 {"limit_tok_s", limit},
                 {"expected_tok_s", estimate.tokens_per_second()},
                 {"expected_share", estimate.share_of_ceiling()}};
  if (card) {
    ProfilingBackend& backend = *card;
    Executor executor(plan, backend);
    for (const PhasePlan& phase : executor.plan().phases) {
      backend.expect(phase.program);
    }
    WeightFiller filler(executor);
    fill_weights(executor, filler);
    if (std::string folder = arguments.at("weights"); !folder.empty()) {
      TensorSource source = open_tensors(folder);
      auto start = std::chrono::steady_clock::now();
      load_tensors(executor, Role::base_weights, source);
      report["load_s"] = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
      report["file_bytes"] = source.stored_bytes();
    }
    if (!arguments.at("curve").empty()) {
      write_same_start(arguments.at("curve"), plan, filler.block(),
                       {curve_batch(drawing, 0), curve_batch(drawing, 1)}, start_values);
      report["losses"] = Json::array();
    }
    StepRunner runner(executor, recipe.training);
    Timing timing = run_steps(arguments, drawing, runner, backend);
    if (profile) {
      print_profile(backend);
    }
    if (std::string folder = arguments.at("checkpoint"); !folder.empty()) {
      CheckpointCost cost(executor, runner, step_batches(drawing));
      report["checkpoint"] = cost.measure(recipe, spec, folder);
    }
    double speed = tokens / timing.median_seconds;
    report["tok_s"] = speed;
    report["step_s"] = timing.median_seconds;
    report["ahead_step_s"] = timing.ahead_seconds;
    report["ahead_tok_s"] = tokens / timing.ahead_seconds;
    report["ahead_watts"] = timing.ahead_watts;
    report["ahead_loss"] = timing.ahead_loss;
    report["enqueue_s"] = timing.enqueue_seconds;
    report["share_of_limit"] = speed / limit;
    report["loss_scale"] = runner.loss_scale();
    report["loss"] = timing.losses.back();
    if (report.contains("losses")) {
      report["losses"] = timing.losses;
    }
    report["allocated_bytes"] = backend.allocated_bytes(Home::device);
    report["driver_bytes"] = backend.driver_bytes();
    report["driver_growth_bytes"] = backend.driver_bytes() - timing.early_driver_bytes;
    report["driver_GiB"] = static_cast<double>(backend.driver_bytes()) / (1 << 30);
  }
  fmt::print("SNUG {}\n", report.dump());
  return 0;
}

}  // namespace
}  // namespace snug

int main(int argc, char** argv) {
  try {
    return snug::run(argc, argv);
  } catch (const snug::Error& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return 1;
  }
}
