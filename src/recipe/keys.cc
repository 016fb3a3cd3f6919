// The rows: one for each recipe key, in the order in which recipes and the reference list them.
#include "recipe/keys.h"

#include <algorithm>
#include <array>

#include "recipe/choices.h"
#include "recipe/foreign_names.h"
#include "recipe/key_types.h"
#include "recipe/recompute_key.h"
#include "recipe/scheduler_kwargs.h"
#include "recipe/validation_prompts_key.h"
#include "recipe/webhooks_key.h"

namespace snug {
namespace {

// Writing a key of the section switches the section on.
LoraSection& lora_of(Recipe& recipe) {
  if (!recipe.lora) {
    recipe.lora.emplace();
  }
  return *recipe.lora;
}
const LoraSection& lora_of(const Recipe& recipe) {
  return *recipe.lora;
}

constexpr std::array<RecipeSection, 6> kSections = {{
    {"model", "Which model is trained, and in which number format."},
    {"lora",
     "Low-rank adapters (PEFT's LoraConfig). With the section, even an empty `lora: {}`, only the adapters "
     "are trained; without it, or with `lora: null`, all weights are.",
     [](Recipe& recipe, bool present) {
       if (present) {
         lora_of(recipe);
       } else {
         recipe.lora.reset();
       }
     },
     [](const Recipe& recipe) { return recipe.lora.has_value(); }},
    {"data", "What the model is trained on."},
    {"training", "How it is trained (Hugging Face's TrainingArguments; the optimizer is AdamW)."},
    {"memory",
     "What the run may take. None of these keys changes the experiment; [what stays the "
     "same](same_result.md) "
     "says how exactly."},
    {"logging", "What is reported while it runs."},
}};

// Upper ends are far above any real run; they keep products of sizes within 64 bits.
constexpr int64_t kMaxTokens = int64_t{1} << 24;
constexpr int64_t kMaxSequences = int64_t{1} << 16;
constexpr IntegerRange kRanks = {1, 65536};
constexpr int64_t kMaxSteps = 1'000'000'000;
constexpr int64_t kMaxSeed = (int64_t{1} << 32) - 1;  // Hugging Face's too

void add_model_and_lora(std::vector<RecipeKey>& keys) {
  keys.push_back(required_path_key(
      "model.path", "a folder with config.json, or a hub id",
      [](auto& recipe) -> auto& { return recipe.model.path; },
      "The model: a folder, relative to the recipe's folder; a name that is no folder there is kept as it "
      "stands."));
  keys.push_back(dtype_key(
      "model.dtype", [](auto& recipe) -> auto& { return recipe.model.dtype; },
      "Format of the weights and of the computation. `auto` is what config.json says."));
  keys.push_back(choice_key(
      "model.quantization", kQuantizations, [](auto& recipe) -> auto& { return recipe.model.quantization; },
      "none: as the checkpoint has them, which may be quantised by bitsandbytes already; else "
      "store the weights of the linear layers in 4 bits (nf4, fp4; nf4_double stores the scales in 8 bits as "
      "well) or in 8 (int8), in bitsandbytes' formats; they are made while the weights are read. Needs the "
      "section lora. Embeddings, the output head, norms and biases keep model.dtype, and so does T5's wo, as "
      "in Hugging Face; all computation is in model.dtype."));
  keys.push_back(choice_key(
      "model.compute", kComputes, [](auto& recipe) -> auto& { return recipe.model.compute; },
      "What the frozen linear layers of MLPs, but the last layer's, are multiplied in. dtype: model.dtype. "
      "fp8: 8-bit floating-point numbers, weights and their inputs as E4M3, gradients as E5M2, each row with "
      "a scale of its own; the weights are kept so, made while they are read. Faster on cards of compute "
      "capability 8.9 and newer (Ada, Hopper, Blackwell; measured on Hopper), which it needs, or the CPU, "
      "where it is slower; results differ, by 0.2 to 0.9% of the loss in a small model "
      "(docs/decisions/0037-fp8.md). Needs the section lora; adapters, attention with its linear layers, the "
      "last layer, norms, embeddings and the output head stay in model.dtype."));
  keys.push_back(optional_number_key(
      "model.dropout", kZeroToBelowOne, [](auto& recipe) -> auto& { return recipe.model.dropout; }, "0",
      "Share that is dropped while training, wherever the model's family has dropout (T5: dropout_rate; "
      "Llama, Mistral, Qwen: attention_dropout; Phi-3: that and resid_pdrop). null: config.json's rates, as "
      "in "
      "Hugging Face; 0: none."));
  keys.push_back(bool_key(
      "model.from_scratch", [](auto& recipe) -> auto& { return recipe.model.from_scratch; },
      "Start from random weights in config.json's shapes instead of reading the weights."));
  keys.push_back(optional_integer_key(
      "model.max_positions", {1, kMaxTokens}, Absent::null,
      [](auto& recipe) -> auto& { return recipe.model.max_positions; },
      "Allows sequences (data.max_length) that are longer than config.json's max_position_embeddings; what a "
      "model makes of positions that it has never seen is not known."));
  keys.push_back(integer_key(
      "lora.r", kRanks, [](auto& recipe) -> auto& { return lora_of(recipe).r; }, "Rank of the adapters."));
  keys.push_back(number_key(
      "lora.lora_alpha", kAboveZero, [](auto& recipe) -> auto& { return lora_of(recipe).lora_alpha; }, "16",
      "The adapters' product is scaled by lora_alpha / r."));
  keys.push_back(number_key(
      "lora.lora_dropout", kZeroToBelowOne,
      [](auto& recipe) -> auto& { return lora_of(recipe).lora_dropout; }, "0.05",
      "Share of the adapters' inputs dropped while training."));
  keys.push_back(names_key(
      "lora.target_modules", "all-linear, a module's name, or a list of names",
      [](auto& recipe) -> auto& { return lora_of(recipe).target_modules; },
      "Which linear layers get an adapter: full names or suffixes such as q_proj; one text with more than a "
      "name in it is a regular expression for full names."));
  keys.push_back(optional_names_key(
      "lora.exclude_modules", "a module's name, or a list of names",
      [](auto& recipe) -> auto& { return lora_of(recipe).exclude_modules; },
      "Which of them get none, named in the same way."));
  keys.push_back(patterns_key(
      "lora.rank_pattern", kRanks, [](auto& recipe) -> auto& { return lora_of(recipe).rank_pattern; },
      "{down_proj: 64}",
      "Another r for some layers: names, suffixes, or regular expressions for them; the first that matches "
      "counts."));
  keys.push_back(patterns_key(
      "lora.alpha_pattern", kAboveZero, [](auto& recipe) -> auto& { return lora_of(recipe).alpha_pattern; },
      "{down_proj: 128}", "Another lora_alpha, likewise."));
  keys.push_back(choice_key(
      "lora.bias", kLoraBiases, [](auto& recipe) -> auto& { return lora_of(recipe).bias; },
      "Train the model's biases as well, where it has any: all, or those of the adapted layers."));
  keys.push_back(bool_key(
      "lora.use_rslora", [](auto& recipe) -> auto& { return lora_of(recipe).use_rslora; },
      "Scale by lora_alpha / sqrt(r) instead."));
  keys.push_back(optional_path_key(
      "lora.start", "a PEFT folder", [](auto& recipe) -> auto& { return lora_of(recipe).start; },
      "Train these adapters on instead of fresh ones. r, lora_alpha and the modules must be theirs."));
}

RecipeKey eval_files_key() {
  RecipeKey key{.name = "data.eval_file",
                .allowed = "a file, a list of files, a map from names of sets to these, or null",
                .example = "{chat: chat.jsonl, code: [a.jsonl, b.jsonl]}",
                .help =
                    "The same for evaluation; null for none. Named sets have their own losses "
                    "(`eval_chat_loss`) beside that of all (`eval_loss`)."};
  key.read = [](const YamlNode& node, Recipe& recipe) {
    return read_eval_files(node, recipe.data.eval_file, recipe.data.eval_sets);
  };
  key.print = [](const Recipe& recipe) {
    return eval_files_json(recipe.data.eval_file, recipe.data.eval_sets);
  };
  return key;
}

void add_data(std::vector<RecipeKey>& keys) {
  keys.push_back(required_files_key(
      "data.train_file", [](auto& recipe) -> auto& { return recipe.data.train_file; },
      "What to train on: JSONL, JSON, CSV, TSV or plain text, also .gz and .zst; files or patterns, relative "
      "to the recipe's folder. A weight of 2 shows a file's rows twice an epoch, 0.5 a half of them."));
  keys.push_back(eval_files_key());
  keys.push_back(number_key(
      "data.eval_split", kAtLeastZero, [](auto& recipe) -> auto& { return recipe.data.eval_split; }, "0.02",
      "Rows of train_file that are kept for evaluation instead: a share of them if below 1, else so many; 0 "
      "for none."));
  keys.push_back(integer_key(
      "data.split_seed", {0, kMaxSeed}, [](auto& recipe) -> auto& { return recipe.data.split_seed; },
      "Which rows these are. Not training.seed, so that runs with different seeds are evaluated alike."));
  keys.push_back(choice_key(
      "data.format", kDataFormats, [](auto& recipe) -> auto& { return recipe.data.format; },
      "What a row holds. `auto` looks at the columns of the first rows."));
  keys.push_back(optional_lines_key(
      "data.prompt_template", "text with columns in braces",
      [](auto& recipe) -> auto& { return recipe.data.prompt_template; },
      "For columns of your own: what the prompt is made of, such as \"Question: {question}\"; {{ and }} are "
      "braces. Numbers are written as they are, lists of strings a line each."));
  keys.push_back(optional_path_key(
      "data.completion_column", "a column's name",
      [](auto& recipe) -> auto& { return recipe.data.completion_column; },
      "With prompt_template: the column that is learned."));
  keys.push_back(optional_path_key(
      "data.system_column", "a column's name",
      [](auto& recipe) -> auto& { return recipe.data.system_column; },
      "With prompt_template: the column of the system message."));
  keys.push_back(optional_path_key(
      "data.chat_template",
      "model, a template's name (chatml, alpaca, llama-2, llama-3, mistral, zephyr), a file, or none",
      [](auto& recipe) -> auto& { return recipe.data.chat_template; },
      "How rows become text. `model`: by the model's own template. null: by that for messages and "
      "instructions, and plain pairs are laid end to end."));
  keys.push_back(choice_key(
      "data.train_on", kTrainOn, [](auto& recipe) -> auto& { return recipe.data.train_on; },
      "What is learned: every completion (every turn of the assistant), the last one, or everything."));
  keys.push_back(choice_key(
      "data.truncation", kTruncations, [](auto& recipe) -> auto& { return recipe.data.truncation; },
      "What becomes of examples longer than max_length; each kind is counted and reported."));
  keys.push_back(choice_key(
      "data.truncation_side", kTruncationSides,
      [](auto& recipe) -> auto& { return recipe.data.truncation_side; }, "The end that is cut off."));
  keys.push_back(choice_key(
      "data.on_bad_row", kOnBadRow, [](auto& recipe) -> auto& { return recipe.data.on_bad_row; },
      "A row that cannot be used stops the run before it trains, or is skipped and counted."));
  keys.push_back(integer_key(
      "data.max_samples", {0, int64_t{1} << 40},
      [](auto& recipe) -> auto& { return recipe.data.max_samples; },
      "Rows used of each entry of train_file and eval_file, from its start; 0 for all."));
  keys.push_back(integer_key(
      "data.max_length", {2, kMaxTokens}, [](auto& recipe) -> auto& { return recipe.data.max_length; },
      "Tokens a sequence; longer ones are cut, and the cut is reported. With an encoder: of what it reads."));
  keys.push_back(integer_key(
      "data.max_target_length", {0, kMaxTokens},
      [](auto& recipe) -> auto& { return recipe.data.max_target_length; },
      "With an encoder: tokens of the answer, which the decoder writes; 0 for as many as max_length."));
  keys.push_back(bool_key(
      "data.packing", [](auto& recipe) -> auto& { return recipe.data.packing; },
      "Lay several sequences into one pack of up to max_length tokens (with an encoder: max_length and "
      "max_target_length); batch sizes then count packs. Sequences never see each other."));
  keys.push_back(optional_path_key(
      "data.cache_dir", "the path of a folder", [](auto& recipe) -> auto& { return recipe.data.cache_dir; },
      "Where the tokens of the data are kept; null for the folder .snug beside it. It may be deleted at any "
      "time; `snug cache` shows what is in it."));
}

void add_training_length(std::vector<RecipeKey>& keys) {
  keys.push_back(number_key(
      "training.num_train_epochs", kUpToAMillion,
      [](auto& recipe) -> auto& { return recipe.training.num_train_epochs; }, "3",
      "Passes over the training file."));
  keys.push_back(integer_key(
      "training.max_steps", {-1, kMaxSteps}, [](auto& recipe) -> auto& { return recipe.training.max_steps; },
      "Optimizer steps; more than 0 overrides num_train_epochs."));
  keys.push_back(optional_integer_key(
      "training.effective_batch_size", {1, kMaxTokens}, Absent::automatic,
      [](auto& recipe) -> auto& { return recipe.training.effective_batch_size; },
      "Sequences a step (with packing: packs). `auto`: per_device_train_batch_size × "
      "gradient_accumulation_steps."));
  keys.push_back(optional_integer_key(
      "training.per_device_train_batch_size", {1, kMaxSequences}, Absent::automatic,
      [](auto& recipe) -> auto& { return recipe.training.per_device_train_batch_size; },
      "Bounds what goes through the model at once: to the tokens of so many sequences of max_length. Shorter "
      "ones come in larger numbers. `auto`: 8 sequences a step where nothing else says how many, and no "
      "bound but the memory."));
  keys.push_back(optional_integer_key(
      "training.per_device_eval_batch_size", {1, kMaxSequences}, Absent::automatic,
      [](auto& recipe) -> auto& { return recipe.training.per_device_eval_batch_size; },
      "Bounds a batch while evaluating: to the tokens of so many of the longest sequences. `auto`: as many "
      "as need no more memory than training does, up to 64."));
  keys.push_back(optional_integer_key(
      "training.gradient_accumulation_steps", {1, kMaxSequences}, Absent::automatic,
      [](auto& recipe) -> auto& { return recipe.training.gradient_accumulation_steps; },
      "Times per_device_train_batch_size: the sequences a step. They go through the model in as few "
      "micro-batches as their tokens allow; the loss is averaged over all target tokens of the step, so that "
      "another cut gives the same result to rounding. `auto`: 1."));
}

// Other tools name the format of the states with the optimizer.
RecipeKey optimizer_key() {
  RecipeKey key = choice_key(
      "training.optim", kOptimizers, [](auto& recipe) -> auto& { return recipe.training.optim; },
      "The optimizer. `adafactor` is Hugging Face's as Trainer runs it, at the learning rate of the "
      "schedule: it "
      "keeps mean squares of rows and columns alone, and neither adam_beta1, adam_beta2 nor adam_epsilon. "
      "The "
      "format of what AdamW keeps is `optimizer_states`.");
  key.read = [read = key.read](const YamlNode& node, Recipe& recipe) {
    std::optional<BadValue> bad = read(node, recipe);
    if (bad && node.value->kind == YamlValue::Kind::scalar) {
      bad->remedy = foreign_optimizer_advice(node.value->text);
    }
    return bad;
  };
  return key;
}

void add_evaluation_and_saving(std::vector<RecipeKey>& keys) {
  keys.push_back(integer_key(
      "training.eval_steps", {0, kMaxSteps}, [](auto& recipe) -> auto& { return recipe.training.eval_steps; },
      "Steps between evaluations; 0 to evaluate at the end only."));
  keys.push_back(integer_key(
      "training.eval_max_new_tokens", {0, kMaxTokens},
      [](auto& recipe) -> auto& { return recipe.training.eval_max_new_tokens; },
      "Evaluations also generate the last answer of their rows, greedily and with so many tokens at most. "
      "eval_exact_match is how many are the data's, white space around them aside. 0: they do not."));
  keys.push_back(integer_key(
      "training.eval_generated_rows", {1, kMaxSteps},
      [](auto& recipe) -> auto& { return recipe.training.eval_generated_rows; },
      "For how many rows of each set, from its start, answers are generated."));
  keys.push_back(validation_prompts_key());
  keys.push_back(integer_key(
      "training.validation_max_new_tokens", {1, kMaxTokens},
      [](auto& recipe) -> auto& { return recipe.training.validation_max_new_tokens; },
      "Tokens that an answer to one of validation_prompts may have."));
  keys.push_back(number_key(
      "training.validation_temperature", kAtLeastZero,
      [](auto& recipe) -> auto& { return recipe.training.validation_temperature; }, "0.7",
      "0: greedily, the likeliest token each time. Above it tokens are drawn, by training.seed."));
  keys.push_back(choice_key(
      "training.save_strategy", kSaveStrategies,
      [](auto& recipe) -> auto& { return recipe.training.save_strategy; },
      "When a checkpoint is written, from which `--resume` goes on: every save_steps steps, after each "
      "epoch, "
      "when an evaluation is the best so far, or every save_minutes minutes; with steps, epoch and minutes "
      "also at the end. `no`: only when the run is stopped."));
  keys.push_back(integer_key(
      "training.save_steps", {1, kMaxSteps}, [](auto& recipe) -> auto& { return recipe.training.save_steps; },
      "Steps between checkpoints, with save_strategy steps."));
  keys.push_back(number_key(
      "training.save_minutes", kAboveZero, [](auto& recipe) -> auto& { return recipe.training.save_minutes; },
      "10", "Minutes between checkpoints, with save_strategy minutes."));
  keys.push_back(integer_key(
      "training.save_total_limit", {1, kMaxSteps},
      [](auto& recipe) -> auto& { return recipe.training.save_total_limit; },
      "Checkpoints that are kept: the newest, and beside them the best one where it is asked for. Their disk "
      "space is asked for before the first step."));
  keys.push_back(bool_key(
      "training.load_best_model_at_end",
      [](auto& recipe) -> auto& { return recipe.training.load_best_model_at_end; },
      "The result is the checkpoint whose evaluation was the best, instead of the last step's."));
  keys.push_back(path_key(
      "training.metric_for_best_model",
      "eval_loss, eval_token_accuracy or eval_exact_match; of a set of data.eval_file, eval_NAME_loss and so "
      "on",
      [](auto& recipe) -> auto& { return recipe.training.metric_for_best_model; },
      "What says which evaluation is the best."));
  keys.push_back(optional_bool_key(
      "training.greater_is_better", [](auto& recipe) -> auto& { return recipe.training.greater_is_better; },
      "Whether more of it is better. `auto`: not of a loss, and of anything else."));
  keys.push_back(integer_key(
      "training.early_stopping_patience", {0, kMaxSteps},
      [](auto& recipe) -> auto& { return recipe.training.early_stopping_patience; },
      "End the run after so many evaluations in a row that are no better than the best before; 0: never."));
  keys.push_back(number_key(
      "training.early_stopping_threshold", kAtLeastZero,
      [](auto& recipe) -> auto& { return recipe.training.early_stopping_threshold; }, "0.001",
      "By how much an evaluation must be better to count as such, for early stopping."));
}

void add_training(std::vector<RecipeKey>& keys) {
  add_training_length(keys);
  keys.push_back(number_key(
      "training.learning_rate", kAboveZero,
      [](auto& recipe) -> auto& { return recipe.training.learning_rate; }, "2e-4",
      "Learning rate after the warm-up."));
  keys.push_back(choice_key(
      "training.lr_scheduler_type", kSchedules,
      [](auto& recipe) -> auto& { return recipe.training.lr_scheduler_type; },
      "How the learning rate goes down after the warm-up, as transformers' schedulers of these names do it. "
      "Counted are the updates that were made: an update that is skipped does not advance it."));
  keys.push_back(numbers_key(
      "training.lr_scheduler_kwargs", kSchedulerKwargs,
      [](auto& recipe) -> auto& { return recipe.training.lr_scheduler_kwargs; }, "{min_lr: 1e-6}",
      "Further numbers of the schedule: num_cycles (cosine: 0.5, with restarts: 1), min_lr or min_lr_rate "
      "(cosine_with_min_lr, which needs one of them), power and lr_end (polynomial: 1 and 1e-7), timescale "
      "(inverse_sqrt: the warm-up's steps, or 10000)."));
  keys.push_back(integer_key(
      "training.warmup_steps", {0, kMaxSteps},
      [](auto& recipe) -> auto& { return recipe.training.warmup_steps; },
      "Steps over which the learning rate rises from 0; no more than the run has."));
  keys.push_back(number_key(
      "training.warmup_ratio", kZeroToOne, [](auto& recipe) -> auto& { return recipe.training.warmup_ratio; },
      "0.03", "The same as a share of all steps; used where warmup_steps is 0."));
  keys.push_back(optimizer_key());
  keys.push_back(number_key(
      "training.weight_decay", kAtLeastZero,
      [](auto& recipe) -> auto& { return recipe.training.weight_decay; }, "0.01", "Decoupled weight decay."));
  keys.push_back(number_key(
      "training.adam_beta1", kZeroToBelowOne,
      [](auto& recipe) -> auto& { return recipe.training.adam_beta1; }, "0.9",
      "Decay of the gradients' running mean."));
  keys.push_back(number_key(
      "training.adam_beta2", kZeroToBelowOne,
      [](auto& recipe) -> auto& { return recipe.training.adam_beta2; }, "0.999",
      "Decay of the squared gradients' running mean."));
  keys.push_back(number_key(
      "training.adam_epsilon", kAboveZero, [](auto& recipe) -> auto& { return recipe.training.adam_epsilon; },
      "1e-8", "Added to the denominator of the update."));
  keys.push_back(number_key(
      "training.max_grad_norm", kAtLeastZero,
      [](auto& recipe) -> auto& { return recipe.training.max_grad_norm; }, "1.0",
      "Gradients are scaled down to this norm; 0 for no clipping."));
  keys.push_back(integer_key(
      "training.seed", {0, kMaxSeed}, [](auto& recipe) -> auto& { return recipe.training.seed; },
      "Seed of the adapters' start, the order of the data, dropout and stochastic rounding."));
  keys.push_back(bool_key(
      "training.group_by_length", [](auto& recipe) -> auto& { return recipe.training.group_by_length; },
      "Put sequences of about the same length into a step."));
  add_evaluation_and_saving(keys);
  keys.push_back(choice_key(
      "training.optimizer_states", kOptimizerStates,
      [](auto& recipe) -> auto& { return recipe.training.optimizer_states; },
      "Format of AdamW's two moments. With `fp32`, weights that are bf16 have the 16 bits beside them that "
      "make "
      "them exact fp32 masters; `bf16` leaves those out, too, and rounds stochastically: 6 bytes a trained "
      "parameter beside the gradient instead of 12. `8bit` is bitsandbytes' block-wise 8-bit AdamW, also "
      "without "
      "those bits: 4 bytes; tensors of less than 4096 elements keep fp32 moments."));
  keys.push_back(choice_key(
      "training.gradient_dtype", kGradientDtypes,
      [](auto& recipe) -> auto& { return recipe.training.gradient_dtype; },
      "Format of the matrices' gradients where all weights of a bf16 model are trained. `bf16` takes 2 bytes "
      "a "
      "parameter instead of 4: each micro-batch is added in fp32 and the sum rounded to nearest, the output "
      "head's once a chunk of tokens. Gradients of vectors stay fp32."));
  keys.push_back(choice_key(
      "training.on_trouble", kOnTrouble, [](auto& recipe) -> auto& { return recipe.training.on_trouble; },
      "Where the rest of a run would be worth nothing ([which troubles](runs.md#trouble)): `stop` ends it "
      "and "
      "names the last good checkpoint; `warn` goes on. Of what is merely suspicious both warn."));
}

// Followed before any other key is read (parse.cc), and written out when a recipe is saved.
RecipeKey extends_key() {
  RecipeKey key{.name = "extends",
                .allowed = "a recipe, or null",
                .help =
                    "Another recipe that this one changes: its keys count where this one has none. Its paths "
                    "are relative to its own folder."};
  key.read = [](const YamlNode& node, Recipe&) -> std::optional<BadValue> {
    std::string ignored;
    return is_null(node) ? std::nullopt : read_text(node, ignored);
  };
  key.print = [](const Recipe&) { return Json(); };
  return key;
}

// What stands in it is read when the rest of the recipe is known (recipe/stages.h).
RecipeKey stages_key() {
  RecipeKey key{.name = "stages",
                .allowed = "a list of stages, or null",
                .example = "[{name: it}, {name: security, start: stack, lora: {r: 16}}]",
                .help = "Trainings one behind the other, [each with changes of the one before it](#stages)."};
  key.read = [](const YamlNode& node, Recipe&) -> std::optional<BadValue> {
    return is_null(node) ? std::nullopt : std::optional(BadValue{node, std::nullopt, ""});
  };
  key.print = [](const Recipe&) { return Json(); };
  return key;
}

void add_memory_logging_and_output(std::vector<RecipeKey>& keys) {
  keys.push_back(size_key(
      "memory.limit", [](auto& recipe) -> auto& { return recipe.memory.limit_bytes; },
      "Device memory that the run may take; null for what the device has."));
  keys.push_back(recompute_key());
  keys.push_back(zero_is_auto_key(
      "memory.loss_chunk_tokens", {1, kMaxTokens},
      [](auto& recipe) -> auto& { return recipe.memory.loss_chunk_tokens; },
      "Rows of logits held at once. `auto`: as many as are fast, and fewer where only that fits. The result "
      "is "
      "the same to rounding."));
  keys.push_back(optional_integer_key(
      "memory.micro_batch_tokens", {1, kMaxTokens * kMaxSequences}, Absent::automatic,
      [](auto& recipe) -> auto& { return recipe.memory.micro_batch_tokens; },
      "Tokens that go through the model at once, at most (with an encoder: that it reads; of answers in "
      "proportion). A step's sequences, in order, fill micro-batches up to it; one that is longer goes "
      "alone. `auto`: as many as per_device_train_batch_size bounds and the memory has room for. The result "
      "is the same to rounding."));
  keys.push_back(integer_key(
      "logging.logging_steps", {1, kMaxSteps},
      [](auto& recipe) -> auto& { return recipe.logging.logging_steps; }, "Steps between lines of metrics."));
  keys.push_back(choice_key(
      "logging.report_to", kReportTo, [](auto& recipe) -> auto& { return recipe.logging.report_to; },
      "Who shall read the curves beside metrics.jsonl: `tensorboard` writes event files to output_dir."));
  keys.push_back(webhooks_key());
  keys.push_back(number_key(
      "logging.webhook_minutes", kAtLeastZero,
      [](auto& recipe) -> auto& { return recipe.logging.webhook_minutes; }, "60",
      "Minutes between messages of how far the run is; 0: one for each step that is logged."));
  keys.push_back(extends_key());
  keys.push_back(stages_key());
  keys.push_back(path_key(
      "output_dir", "the path of a folder", [](auto& recipe) -> auto& { return recipe.output_dir; },
      "Where the run writes, relative to the current folder."));
}

std::vector<RecipeKey> make_keys() {
  std::vector<RecipeKey> keys;
  add_model_and_lora(keys);
  add_data(keys);
  add_training(keys);
  add_memory_logging_and_output(keys);
  return keys;
}

}  // namespace

std::string_view RecipeKey::section() const {
  size_t dot = name.find('.');
  return dot == std::string_view::npos ? std::string_view() : name.substr(0, dot);
}

std::string_view RecipeKey::leaf() const {
  return name.substr(name.find('.') + 1);  // npos + 1 is 0
}

const std::vector<RecipeKey>& recipe_keys() {
  static const std::vector<RecipeKey> keys = make_keys();
  return keys;
}

std::span<const RecipeSection> recipe_sections() {
  return kSections;
}

const RecipeKey* find_recipe_key(std::string_view dotted_name) {
  const std::vector<RecipeKey>& keys = recipe_keys();
  auto found =
      std::find_if(keys.begin(), keys.end(), [&](const RecipeKey& key) { return key.name == dotted_name; });
  return found == keys.end() ? nullptr : &*found;
}

const RecipeSection* find_recipe_section(std::string_view name) {
  auto found = std::find_if(kSections.begin(), kSections.end(),
                            [&](const RecipeSection& section) { return section.name == name; });
  return found == kSections.end() ? nullptr : &*found;
}

}  // namespace snug
