// Which passes make which phase.
#include "compile/phases.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <unordered_set>

#include "base/error.h"
#include "compile/adapters.h"
#include "compile/backward.h"
#include "compile/coded_weights.h"
#include "compile/fuse.h"
#include "compile/gradient_dtype.h"
#include "compile/kv_cache.h"
#include "compile/optimizer.h"
#include "compile/recompute.h"
#include "compile/split_encoder.h"
#include "compile/sum_order.h"
#include "ops/table.h"
#include "program/builder.h"
#include "program/code_layout.h"
#include "program/names.h"
#include "recipe/choices.h"
#include "recipe/eval_metric.h"

namespace snug {
namespace {

// Files stream through this much memory, whatever their size.
constexpr int64_t kLargestStagingBytes = int64_t{16} << 20;

// Passes do not look at what they make; it is looked at once, when all of them have run.
Program verified(Program program) {
  verify_with_shapes(program);
  return program;
}

// Of programs without a backward pass.
Program fuse_forward(Program program) {
  return fuse_head_norms(fuse_additions(std::move(program)));
}

// Weights pass through staging as the file has them and as the arena wants them; fp32 is the widest of both.
int64_t staging_bytes(const std::vector<const Program*>& programs) {
  int64_t largest = 4096;
  int64_t widest = 4096;
  for (const Program* program : programs) {
    for (const Buffer& buffer : program->buffers) {
      if (buffer.origin == Origin::file) {
        largest = std::max(largest, bytes_of(DType::f32, buffer.max_elements()));
      }
      bool is_coded_weight = buffer.format.is_coded() && buffer.origin == Origin::file;
      if (is_coded_weight) {  // rows, and the scales of a tensor, become codes at once
        int64_t columns = buffer.dims[1].max;
        widest = std::max({widest, 4 * bytes_of(DType::f32, columns),
                           2 * scale_count(buffer.format, buffer.dims[0].max, columns)});
      }
    }
  }
  return std::max(std::min(largest, kLargestStagingBytes), widest);
}

BufferId add_staging(Builder& builder, int64_t bytes) {
  return builder.program().add_buffer({.name = kStaging,
                                       .format = DType::u8,
                                       .dims = {fixed(bytes)},
                                       .role = Role::staging,
                                       .lifetime = Lifetime::phase,
                                       .home = Home::pinned});
}

// Scales become codes when all of a tensor are known.
void add_scale_staging(Builder& builder, const std::vector<const Program*>& programs) {
  int64_t most = 0;
  for (const Program* program : programs) {
    for (const Buffer& buffer : program->buffers) {
      for (const TensorPart& part : buffer.parts) {
        most = std::max(most, buffer.format.nested ? scale_count(buffer.format, part.rows, buffer.dims[1].max)
                                                   : int64_t{0});
      }
    }
  }
  if (most > 0) {
    builder.program().add_buffer({.name = kScaleStaging,
                                  .format = DType::f32,
                                  .dims = {fixed(most)},
                                  .role = Role::staging,
                                  .lifetime = Lifetime::phase,
                                  .home = Home::pinned});
  }
}

// Weights are streamed in by the host; what training adds to them starts at zero.
Program build_load(const std::vector<const Program*>& programs) {
  Builder builder(kLoadPhase);
  add_staging(builder, staging_bytes(programs));
  add_scale_staging(builder, programs);
  std::vector<BufferId> zeroed;
  std::unordered_set<std::string_view> known;
  for (const Program* program : programs) {
    for (const Buffer& buffer : program->buffers) {
      if (buffer.lifetime != Lifetime::persistent || !known.insert(buffer.name).second) {
        continue;
      }
      BufferId id = builder.program().add_buffer(buffer);
      if (buffer.origin == Origin::zero) {
        zeroed.push_back(id);
      }
    }
  }
  if (!zeroed.empty()) {
    builder.append(OpKind::fill, "zero", {}, std::move(zeroed), FillAttributes{});
  }
  return builder.finish();
}

Program build_save(const std::vector<const Program*>& programs) {
  Builder builder(kSavePhase);
  add_staging(builder, staging_bytes(programs));
  return builder.finish();
}

struct MicroBatch {
  const char* name;
  BatchLimits limits;
  bool training;
};

// The model as this run has it: its weights in their format, with the adapters.
Program build_run_program(const Recipe& recipe, const ModelSpec& spec, const ForwardOptions& options,
                          bool training) {
  Program program = code_weights(build_forward(spec, options), weight_format(recipe.model, spec), spec);
  if (!recipe.stage.stacked.empty()) {
    program = add_frozen_adapters(std::move(program), recipe.stage.stacked);
  }
  if (recipe.lora) {
    return add_adapters(std::move(program), *recipe.lora, training);
  }
  for (Buffer& buffer : program.buffers) {
    buffer.trainable = is_model_parameter(buffer);
  }
  return program;
}

Program build_loss_program(const Recipe& recipe, const ModelSpec& spec, const MicroBatch& batch) {
  ForwardOptions options{.program_name = batch.name,
                         .goal = Goal::loss,
                         .dtype = run_dtype(recipe, spec),
                         .max_tokens = batch.limits.tokens,
                         .max_source_tokens = batch.limits.source_tokens,
                         .max_sequences = batch.limits.sequences,
                         .max_length_tokens = recipe.data.max_length,
                         .loss_chunk_tokens = recipe.memory.loss_chunk_tokens,
                         .counts_hits = !batch.training,
                         .dropout = batch.training ? run_dropout(recipe, spec) : DropoutRates{}};
  return build_run_program(recipe, spec, options, batch.training);
}

// encode, of a model with an encoder, and generate.
std::vector<Program> generation_phases(Program forward, const ModelSpec& spec, int64_t max_total_tokens) {
  std::vector<Program> programs;
  if (spec.has_encoder()) {
    SplitPrograms split = split_encoder(std::move(forward), kEncodePhase);
    programs.push_back(verified(put_adapters_first(fuse_forward(std::move(split.encode)))));
    forward = std::move(split.rest);
  }
  programs.push_back(
      verified(put_adapters_first(fuse_forward(add_kv_cache(std::move(forward), max_total_tokens)))));
  return programs;
}

void require_adapters(const Recipe& recipe, const ModelSpec& spec) {
  Format format = weight_format(recipe.model, spec);
  if (format == kFp8 && !recipe.lora) {
    throw bad_input(
        "model.compute is fp8, but without the section lora the weights themselves are trained, and 8 bits "
        "are too "
        "few to add small steps to: add lora: {}, or leave model.compute out");
  }
  if (format == kFp8 && spec.all_layers() == 1) {
    throw bad_input(
        fmt::format("model.compute is fp8, but the last layer's products stay in {}, and {} has one layer: "
                    "leave model.compute out",
                    name_of(run_dtype(recipe, spec)), spec.source));
  }
  if (format.is_coded() && !recipe.lora) {
    throw bad_input(fmt::format(
        "{} {}, but without the section lora the weights themselves are trained, and codes cannot be: add "
        "lora: {{}}, or {}",
        spec.stored_codes ? fmt::format("the weights of {} are", spec.source) : "model.quantization is",
        name_of(format),
        spec.stored_codes ? "take the original, unquantised model" : "write model.quantization: none"));
  }
}

// W + B A is no value that W's codes could stand for.
void require_plain_to_merge(const Recipe& recipe, const ModelSpec& spec) {
  Format format = weight_format(recipe.model, spec);
  if (recipe.stage.start == StageStart::merge_first && format.is_coded()) {
    throw bad_input(fmt::format(
        "stage {}: start is merge, but the weights are {}, and what an adapter adds to them would be rounded "
        "away with them: write start: stack or start: continue, or take weights that are not quantised",
        recipe.stage.name, name_of(format)));
  }
}

void require_states_of_optimizer(const TrainingSection& training) {
  if (training.optim == Optimizer::adafactor && training.optimizer_states == OptimizerStates::eight_bits) {
    throw bad_input(
        "training.optimizer_states is 8bit, but Adafactor keeps sums of rows and columns, which are small "
        "and stay "
        "fp32: write training.optimizer_states: bf16 to leave out the fp32 rest of bf16 weights, or fp32");
  }
}

void require_rounded_gradients(const Recipe& recipe, const ModelSpec& spec) {
  if (recipe.training.gradient_dtype == DType::f32) {
    return;
  }
  if (recipe.lora) {
    throw bad_input(
        "training.gradient_dtype is bf16, but with the section lora the weights themselves have no "
        "gradients, "
        "and those of adapters are small: write training.gradient_dtype: fp32, or leave out lora");
  }
  if (DType dtype = run_dtype(recipe, spec); dtype != DType::bf16) {
    throw bad_input(
        fmt::format("training.gradient_dtype is bf16, but the model is trained in {}, and a product is "
                    "rounded to fp32 or to "
                    "the dtype it multiplies: write model.dtype: bf16, or training.gradient_dtype: fp32",
                    name_of(dtype)));
  }
}

// A list says something of every layer, or ends in `none`, which goes for all that follow.
void require_layer_policies(const Recipe& recipe, const ModelSpec& spec) {
  const std::vector<Recompute>& policies = recipe.memory.recompute;
  auto layers = static_cast<size_t>(spec.all_layers());
  if (policies.size() <= 1 || policies.size() == layers) {
    return;
  }
  auto last = std::find_if(policies.rbegin(), policies.rend(),
                           [](Recompute policy) { return policy != Recompute::none; });
  auto named = static_cast<size_t>(policies.rend() - last);
  if (policies.back() != Recompute::none || named > layers) {
    throw bad_input(
        fmt::format("memory.recompute speaks of {} layers, but the model has {} layers: give one policy "
                    "for all, one a layer, or entries such as {{layers: 0-{}, keep: []}}",
                    named, layers, layers - 1));
  }
}

}  // namespace

DType run_dtype(const Recipe& recipe, const ModelSpec& spec) {
  return recipe.model.dtype.value_or(spec.dtype.value_or(DType::f32));
}

DropoutRates run_dropout(const Recipe& recipe, const ModelSpec& spec) {
  return with_rate(spec.dropout, recipe.model.dropout);
}

Program build_micro_batch(const Recipe& recipe, const ModelSpec& spec, const BatchLimits& limits) {
  Program train = add_backward(build_loss_program(recipe, spec, {kTrainPhase, limits, true}));
  if (recipe.training.gradient_dtype == DType::bf16) {
    train = round_gradients(std::move(train));
  }
  // Before recomputation: what lies between a norm of heads and its rotation is nothing to keep.
  return fuse_head_norms(std::move(train));
}

Program finish_micro_batch(Program built, const Recipe& recipe, const ModelSpec& spec) {
  Program train = apply_recompute(std::move(built), recipe.memory.recompute);
  train = fuse_adapter_gradients(fuse_gates_made_again(fuse_additions(std::move(train))));
  train = fuse_gated_products(fuse_adapted_products(put_adapters_first(std::move(train))));
  if (run_dtype(recipe, spec) == DType::f16) {
    train = add_loss_scale(std::move(train));
  }
  return train;
}

std::vector<Program> compile_training(const Recipe& recipe, const ModelSpec& spec, const RunLimits& limits) {
  require_positions(recipe, spec);
  require_adapters(recipe, spec);
  require_states_of_optimizer(recipe.training);
  require_plain_to_merge(recipe, spec);
  require_layer_policies(recipe, spec);
  require_rounded_gradients(recipe, spec);
  const TrainingSection& training = recipe.training;
  Program train = verified(finish_micro_batch(build_micro_batch(recipe, spec, limits.train), recipe, spec));
  Program update = verified(build_update(train, training));
  std::vector<const Program*> all = {&train, &update};
  Program load = verified(build_load(all));
  Program save = build_save(all);
  std::vector<Program> programs;  // not from a list, which would copy them
  programs.push_back(std::move(load));
  programs.push_back(std::move(train));
  programs.push_back(std::move(update));
  if (limits.evaluate) {
    programs.push_back(compile_evaluation(recipe, spec, *limits.evaluate));
  }
  programs.push_back(std::move(save));
  return programs;
}

Program compile_evaluation(const Recipe& recipe, const ModelSpec& spec, const BatchLimits& limits) {
  return verified(
      put_adapters_first(fuse_forward(build_loss_program(recipe, spec, {kEvaluatePhase, limits, false}))));
}

std::vector<Program> compile_generation(const ModelSpec& spec, const GenerationOptions& options) {
  ForwardOptions forward{.program_name = kGeneratePhase,
                         .goal = Goal::logits,
                         .dtype = options.dtype,
                         .max_tokens = options.max_prompt_tokens,
                         .max_source_tokens = options.max_source_tokens,
                         .max_sequences = 1,
                         .max_length_tokens = options.max_total_tokens};
  Program generate =
      code_weights(build_forward(spec, forward), weight_format(options.quantization, spec), spec);
  if (options.lora != nullptr) {
    generate = add_adapters(std::move(generate), *options.lora, false);
  }
  std::vector<Program> programs = generation_phases(std::move(generate), spec, options.max_total_tokens);
  std::vector<const Program*> all;
  for (const Program& program : programs) {
    all.push_back(&program);
  }
  programs.insert(programs.begin(), verified(build_load(all)));
  return programs;
}

std::vector<Program> compile_answers(const Recipe& recipe, const ModelSpec& spec,
                                     const BatchLimits& longest) {
  int64_t new_tokens = most_new_tokens(recipe.training);
  int64_t positions = std::max(spec.max_positions, recipe.model.max_positions.value_or(0));
  // Behind an encoder the decoder begins with one token, and counts no positions.
  int64_t prompt = spec.has_encoder() ? 1 : longest.tokens;
  int64_t total = prompt + new_tokens - 1;  // nothing is read behind the last one
  if (!spec.has_encoder()) {
    total = std::max(prompt, std::min(total, positions));
  }
  ForwardOptions options{.program_name = kGeneratePhase,
                         .goal = Goal::logits,
                         .dtype = run_dtype(recipe, spec),
                         .max_tokens = prompt,
                         .max_source_tokens = longest.source_tokens,
                         .max_sequences = 1,
                         .max_length_tokens = recipe.data.max_length};
  return generation_phases(build_run_program(recipe, spec, options, false), spec, total);
}

}  // namespace snug
