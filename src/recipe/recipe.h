// The recipe: what the user wants, as plain data. Names follow Hugging Face's TrainingArguments and
// PEFT's LoraConfig, so that people find what they know.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/dtype.h"
#include "program/layer_values.h"

namespace snug {

// What the weights of linear layers are stored as where adapters alone are trained.
enum class Quantization { none, nf4, nf4_double, fp4, int8 };

// What the frozen linear layers are multiplied in where adapters alone are trained.
enum class Compute { dtype, fp8 };

struct ModelSection {
  std::string path;               // folder with config.json, or a hub id
  std::optional<DType> dtype;     // storage and compute; absent: what config.json says
  std::optional<double> dropout;  // while training, wherever the model has dropout; absent: config.json's
  Quantization quantization = Quantization::none;
  Compute compute = Compute::dtype;
  bool from_scratch = false;             // random weights from config.json's shapes instead of safetensors
  std::optional<int64_t> max_positions;  // longer sequences than config.json says; absent: as it says
};

// Which biases of the model are trained beside the adapters.
enum class LoraBias { none, all, lora_only };

struct LoraSection {
  int64_t r = 8;
  double lora_alpha = 16;
  double lora_dropout = 0;
  // Names, ends of names, "all-linear", or one regular expression (compile/module_names.h).
  std::vector<std::string> target_modules = {"all-linear"};
  std::vector<std::string> exclude_modules = {};  // likewise
  // Expressions for modules whose r or lora_alpha differ; the first that matches counts.
  std::vector<std::pair<std::string, int64_t>> rank_pattern = {};
  std::vector<std::pair<std::string, double>> alpha_pattern = {};
  LoraBias bias = LoraBias::none;
  bool use_rslora = false;  // scale by alpha / sqrt(r) instead of alpha / r
  std::string start = {};   // a PEFT folder whose adapters are trained on; "": fresh ones
};

enum class DataFormat {
  automatic,
  text,
  prompt_completion,
  instruction,
  input_output,
  messages,
  conversations,
};

// Which tokens are learned; the others are only read.
enum class TrainOn {
  completions,      // every completion or assistant's turn
  last_completion,  // of a conversation the last one alone
  everything,
};

// What becomes of an example that is longer than max_length.
enum class Truncation { cut, drop, split };
enum class TruncationSide { right, left };

enum class OnBadRow { stop, skip };

struct DataFile {
  std::string path;   // a file or a pattern, relative to the recipe's folder
  double weight = 1;  // how often its rows come in an epoch

  bool operator==(const DataFile&) const = default;
};

struct DataSection {
  std::vector<DataFile> train_file;
  std::vector<std::string> eval_file;  // likewise; empty for none
  std::vector<std::string> eval_sets;  // the name of the set that each of them is in; empty: one set, unnamed
  double eval_split = 0;               // rows of train_file kept for evaluation: a share below 1, or a number
  int64_t split_seed = 42;
  DataFormat format = DataFormat::automatic;
  std::string prompt_template;    // with columns in braces; "" unless the columns are the user's own
  std::string completion_column;  // what is learned, then
  std::string system_column;      // "" for none
  std::string chat_template;      // a name, a file, "none"; "": the model's own where rows are conversations
  TrainOn train_on = TrainOn::completions;
  Truncation truncation = Truncation::cut;
  TruncationSide truncation_side = TruncationSide::right;
  OnBadRow on_bad_row = OnBadRow::stop;
  int64_t max_samples = 0;        // rows used of each file, from its start; 0: all
  int64_t max_length = 2048;      // tokens a sequence; longer ones are cut, and the cut is reported
  int64_t max_target_length = 0;  // of an encoder-decoder model's answers; 0: as max_length
  bool packing = false;           // lay sequences into packs of up to max_length tokens
  std::string cache_dir;          // of the tokens; "": beside the data
};

// Transformers' schedulers, under its names.
enum class Schedule {
  linear,
  cosine,
  cosine_with_restarts,
  cosine_with_min_lr,
  polynomial,
  inverse_sqrt,
  constant,
  constant_with_warmup,
};

// When a run leaves a checkpoint behind.
enum class SaveStrategy { no, steps, epoch, best, minutes };

enum class Optimizer { adamw, adafactor };

// The format of the optimizer's moments. Without fp32 ones, bf16 parameters have no rest of fp32 and are
// rounded stochastically.
enum class OptimizerStates {
  fp32,
  bf16,        // rounded stochastically
  eight_bits,  // codes in blocks (backend/adamw_8bit_formula.h)
};

// What becomes of a run of which the rest is worth nothing (train/run_watch.h).
enum class OnTrouble { stop, warn };

// What the model is asked at every evaluation, for people to read.
inline constexpr size_t kMostValidationPrompts = 256;
inline constexpr size_t kMostPromptMessages = 256;
struct PromptMessage {
  std::string role;
  std::string content;

  bool operator==(const PromptMessage&) const = default;
};
struct ValidationPrompt {
  std::string prompt = {};                   // or
  std::vector<PromptMessage> messages = {};  // a conversation; the last one's answer is asked for
  std::string reference = {};                // what is wished for; "" if nobody says

  bool operator==(const ValidationPrompt&) const = default;
};

struct TrainingSection {
  double num_train_epochs = 3;
  int64_t max_steps = -1;  // more than 0 overrides num_train_epochs
  // Together they say how many sequences a step has (recipe/effective_batch.h).
  std::optional<int64_t> effective_batch_size;
  std::optional<int64_t> per_device_train_batch_size;  // bounds a micro-batch, in tokens; absent: auto
  std::optional<int64_t> gradient_accumulation_steps;
  std::optional<int64_t> per_device_eval_batch_size;  // absent: auto, what training leaves room for
  double learning_rate = 5e-5;
  Schedule lr_scheduler_type = Schedule::linear;
  std::map<std::string, double, std::less<>> lr_scheduler_kwargs;  // recipe/scheduler_kwargs.h
  int64_t warmup_steps = 0;
  double warmup_ratio = 0;  // used where warmup_steps is 0
  Optimizer optim = Optimizer::adamw;
  double weight_decay = 0;
  double adam_beta1 = 0.9;
  double adam_beta2 = 0.999;
  double adam_epsilon = 1e-8;
  double max_grad_norm = 1.0;  // 0: no clipping
  int64_t seed = 42;
  bool group_by_length = false;      // batches of sequences of about the same length
  int64_t eval_steps = 0;            // 0: evaluate at the end only
  int64_t eval_max_new_tokens = 0;   // of an answer that an evaluation generates; 0: it generates none
  int64_t eval_generated_rows = 64;  // of each set, from its start
  std::vector<ValidationPrompt> validation_prompts;
  std::string validation_prompts_file;     // or a file that has them
  int64_t validation_max_new_tokens = 64;  // of what they are answered with
  double validation_temperature = 0;       // 0: greedily
  SaveStrategy save_strategy = SaveStrategy::steps;
  int64_t save_steps = 500;
  double save_minutes = 30;
  int64_t save_total_limit = 2;         // checkpoints kept, the newest ones and the best
  bool load_best_model_at_end = false;  // the result is that of the best evaluation
  std::string metric_for_best_model = "eval_loss";
  std::optional<bool> greater_is_better;  // absent: auto, as the metric has it
  int64_t early_stopping_patience = 0;    // evaluations in a row that are no better; 0: no limit
  double early_stopping_threshold = 0;    // what counts as better
  OptimizerStates optimizer_states = OptimizerStates::fp32;
  DType gradient_dtype = DType::f32;  // of matrices, where all weights are trained
  OnTrouble on_trouble = OnTrouble::stop;
};

// What a layer keeps for its backward pass. The rest is computed again, and its input is kept always.
struct Recompute {
  LayerValues kept;

  // The words of recipes. NOLINTBEGIN(readability-identifier-naming)
  static const Recompute none;       // everything is kept
  static const Recompute selective;  // all but what one pass over memory makes again
  static const Recompute full;       // nothing is kept
  // NOLINTEND(readability-identifier-naming)

  bool operator==(const Recompute&) const = default;
};
inline constexpr Recompute Recompute::none = {kAllLayerValues};
inline constexpr Recompute Recompute::selective = {
    kAllLayerValues.without(LayerValue::norms).without(LayerValue::gated).without(LayerValue::dropout)};
inline constexpr Recompute Recompute::full = {LayerValues{}};

struct MemorySection {
  std::optional<int64_t> limit_bytes;  // key "limit", e.g. 24GB; absent: what the device has
  // One for all layers, or one per layer, where layers behind a last `none` do the same; empty: chosen.
  std::vector<Recompute> recompute;
  int64_t loss_chunk_tokens = 0;  // rows of logits held at once; 0: chosen to be small and fast
  // That go through the model at once, at most (of an encoder: that it reads); absent: chosen.
  std::optional<int64_t> micro_batch_tokens;
};

// For whom a run writes its curves, beside metrics.jsonl.
enum class ReportTo { none, tensorboard };

// Where a message about a run goes, and of what.
enum class WebhookKind { discord, slack, json };
enum class WebhookEvent { start, progress, best, trouble, end, failure };

// The URL is a secret, so it stands where one of the two says, and is in no recipe.
struct Webhook {
  WebhookKind kind = WebhookKind::json;
  std::string url_env = {};   // an environment variable
  std::string url_file = {};  // relative to the recipe's folder
  std::vector<WebhookEvent> events = {WebhookEvent::start,   WebhookEvent::progress, WebhookEvent::best,
                                      WebhookEvent::trouble, WebhookEvent::end,      WebhookEvent::failure};

  bool operator==(const Webhook&) const = default;
};

struct LoggingSection {
  int64_t logging_steps = 10;
  ReportTo report_to = ReportTo::tensorboard;
  std::vector<Webhook> webhooks;
  double webhook_minutes = 60;  // between messages of progress
};

// What a stage begins with: the recipe's own start, or what the stage before it made.
enum class StageStart {
  fresh,        // the first one's: as the recipe says
  go_on,        // "continue": the same adapter (or model) is trained on
  stack,        // the adapters before stay as they are, and a new one is trained on top
  merge_first,  // "merge": the adapters before become part of the weights
};

// What another stage is evaluated with.
struct EarlierStage {
  std::string name;
  DataSection data;
};

// A stage's place in its run (recipe/stages.h).
struct StageSection {
  std::string name;  // "" for a run without stages
  StageStart start = StageStart::fresh;
  std::vector<LoraSection> stacked;   // adapters below the one that is trained, frozen, the lowest first
  std::vector<EarlierStage> earlier;  // those whose sets are evaluated here too
};

struct Recipe {
  std::string source_path;  // where it was read from; "" for text in memory
  ModelSection model;
  std::optional<LoraSection> lora;  // absent: full fine-tuning
  DataSection data;
  TrainingSection training;
  MemorySection memory;
  LoggingSection logging;
  std::string output_dir = "runs/out";
  StageSection stage;  // of a recipe with stages each is a recipe of its own
};

}  // namespace snug
