// snug generate MODEL_DIR
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>
#include <utility>

#include "base/bytes.h"
#include "base/error.h"
#include "cli/argument_checks.h"
#include "cli/commands.h"
#include "cli/make_backend.h"
#include "compile/batch_limits.h"
#include "compile/phases.h"
#include "io/atomic_file.h"
#include "io/json.h"
#include "io/printable.h"
#include "model/locate.h"
#include "recipe/choices.h"
#include "report/terminal.h"
#include "text/chat/chat_template.h"
#include "text/tokenizer/stream_decoder.h"
#include "train/adapter_files.h"
#include "train/generator.h"
#include "train/weights.h"

namespace snug {
namespace {

struct GenerateArguments {
  std::string model;
  std::string adapter;
  std::string prompt;
  bool chat = false;
  std::string system;
  std::string chat_template;
  std::string memory;
  std::string dtype;
  std::string quantization = "none";
  std::string logits_file;
  int64_t max_positions = 0;
  DeviceArguments device;
  SamplingOptions sampling;
  bool json = false;
};

DType chosen_dtype(const GenerateArguments& arguments, const ModelSpec& spec) {
  if (arguments.dtype.empty()) {
    return spec.dtype.value_or(DType::f32);
  }
  std::optional<DType> dtype = parse_dtype(arguments.dtype);
  if (dtype != DType::f32 && dtype != DType::bf16 && dtype != DType::f16) {
    throw bad_input(fmt::format("--dtype is \"{}\": expected fp32, bf16 or fp16", arguments.dtype));
  }
  return *dtype;
}

Quantization chosen_quantization(const GenerateArguments& arguments) {
  std::vector<std::string_view> names;
  for (const auto& [name, quantization] : kQuantizations) {
    if (name == arguments.quantization) {
      return quantization;
    }
    names.push_back(name);
  }
  throw bad_input(fmt::format("--quantization is \"{}\": expected one of {}", arguments.quantization,
                              fmt::join(names, ", ")));
}

std::optional<int64_t> chosen_limit(const GenerateArguments& arguments, const Backend& backend) {
  if (arguments.memory.empty()) {
    return backend.device_total_bytes();
  }
  std::optional<int64_t> bytes = parse_bytes(arguments.memory);
  if (!bytes) {
    throw bad_input(
        fmt::format("--memory is \"{}\": expected a size such as 24GB or 22.3GiB", arguments.memory));
  }
  return bytes;
}

// With an encoder: it reads the prompt, and the decoder begins with its start token.
Prompt prompt_for_encoder(const GenerateArguments& arguments, const Tokenizer& tokenizer,
                          const ModelSpec& spec) {
  Prompt prompt{{static_cast<int32_t>(spec.decoder_start_id)}, tokenizer.encode(arguments.prompt)};
  if (tokenizer.eos_id()) {
    prompt.source.push_back(*tokenizer.eos_id());
  }
  if (prompt.source.empty()) {
    throw bad_input("--prompt is empty: give the encoder something to read");
  }
  return prompt;
}

// The text that the model would have read before an answer while it was trained.
std::string chat_text(const GenerateArguments& arguments) {
  Json messages = Json::array();
  if (!arguments.system.empty()) {
    messages.push_back({{"role", "system"}, {"content", arguments.system}});
  }
  messages.push_back({{"role", "user"}, {"content", arguments.prompt}});
  ChatOptions options;
  options.add_generation_prompt = true;
  return load_chat_template(arguments.chat_template, arguments.model).render(messages, options);
}

// Without a template there is no place for a system message: it would be left out without a word.
void require_chat(const GenerateArguments& arguments) {
  if (arguments.chat) {
    return;
  }
  for (const auto& [option, value] :
       {std::pair("--system", &arguments.system), std::pair("--chat-template", &arguments.chat_template)}) {
    if (!value->empty()) {
      throw bad_input(fmt::format(
          "{} is \"{}\", but without --chat there is no conversation to put it in: add --chat, or write the "
          "text into --prompt",
          option, printable(*value, 60)));
    }
  }
}

// A tokenizer may know tokens that the model has no row for.
void require_known_tokens(const std::vector<int32_t>& tokens, const GenerateArguments& arguments,
                          const ModelSpec& spec) {
  for (int32_t token : tokens) {
    if (token >= spec.vocabulary) {
      throw bad_input(
          fmt::format("{}: the tokenizer makes token {} of the prompt, but the model's vocabulary is {}; "
                      "tokenizer and model do "
                      "not belong together",
                      arguments.model, token, spec.vocabulary));
    }
  }
}

// Says what train says where a recipe goes beyond what the model was made for.
void warn_of_positions(int64_t tokens, const ModelSpec& spec) {
  Recipe asked;
  asked.data.max_length = tokens;
  if (std::string warning = positions_warning(asked, spec); !warning.empty()) {
    fmt::print(stderr, "! {}\n", warning);
  }
}

Prompt make_prompt(const GenerateArguments& arguments, const Tokenizer& tokenizer, const ModelSpec& spec) {
  if (spec.has_encoder()) {
    if (arguments.chat) {
      throw bad_input("--chat is for models without an encoder: give the text itself with --prompt");
    }
    return prompt_for_encoder(arguments, tokenizer, spec);
  }
  // Templates write their own opening tokens.
  std::vector<int32_t> tokens = arguments.chat ? std::vector<int32_t>() : tokenizer.opening_ids();
  std::vector<int32_t> text = tokenizer.encode(arguments.chat ? chat_text(arguments) : arguments.prompt);
  tokens.insert(tokens.end(), text.begin(), text.end());
  if (tokens.empty()) {
    if (!tokenizer.bos_id()) {
      throw bad_input(
          "--prompt is empty, and this model has no token that begins a text: give it a word to go on from");
    }
    tokens.push_back(*tokenizer.bos_id());
  }
  auto total = static_cast<int64_t>(tokens.size()) + arguments.sampling.max_new_tokens;
  if (total > std::max(spec.max_positions, arguments.max_positions)) {
    throw bad_input(fmt::format(
        "{} prompt tokens and {} new ones are more than the model's {} positions: shorten the "
        "prompt, lower --max-new-tokens, or say --max-positions {} to go beyond them all the same",
        tokens.size(), arguments.sampling.max_new_tokens, spec.max_positions, total));
  }
  warn_of_positions(total, spec);
  return {std::move(tokens)};
}

void load_weights(Executor& executor, const GenerateArguments& arguments) {
  load_constants(executor);
  TensorSource weights = open_tensors(arguments.model);
  require_tensors(executor.plan(), Role::base_weights, weights, arguments.model);
  load_tensors(executor, Role::base_weights, weights);
  if (!arguments.adapter.empty()) {
    load_adapter(executor, arguments.adapter);
  }
}

// The logits at every position that the decoder reads: the prompt, and `made` behind it. For comparison with
// other tools (tools/check_adapter.py).
void write_logits(Executor& executor, const Prompt& prompt, const std::vector<int32_t>& made,
                  const std::string& file) {
  std::vector<int32_t> tokens = prompt.tokens;
  tokens.insert(tokens.end(), made.begin(), made.end());
  Decoding decoding(executor, prompt.source);
  Json rows = Json::array();
  for (int32_t token : tokens) {
    rows.push_back(decoding.step({&token, 1}));
  }
  Json report = {{"ids", tokens}, {"source", prompt.source}, {"logits", rows}};
  write_file_atomically(file, report.dump() + "\n");
}

int generate_command(GenerateArguments arguments) {
  require_chat(arguments);
  LocatedModel model = locate_model_files(arguments.model);
  const ModelSpec& spec = model.spec;
  arguments.model = model.folder;
  std::unique_ptr<Tokenizer> tokenizer = load_tokenizer(arguments.model);
  Prompt prompt = make_prompt(arguments, *tokenizer, spec);
  require_known_tokens(prompt.tokens, arguments, spec);
  require_known_tokens(prompt.source, arguments, spec);
  std::optional<LoraSection> lora;
  if (!arguments.adapter.empty()) {
    lora = read_adapter_config(arguments.adapter);
  }
  GenerationOptions options{
      .dtype = chosen_dtype(arguments, spec),
      .quantization = chosen_quantization(arguments),
      .max_source_tokens = static_cast<int64_t>(prompt.source.size()),
      .max_prompt_tokens = static_cast<int64_t>(prompt.tokens.size()),
      .max_total_tokens = static_cast<int64_t>(prompt.tokens.size()) + arguments.sampling.max_new_tokens,
      .lora = lora ? &*lora : nullptr};
  std::unique_ptr<Backend> chosen = make_backend(arguments.device);
  Backend& backend = *chosen;
  Plan plan = make_plan(compile_generation(spec, options), backend, chosen_limit(arguments, backend));
  if (!plan.fits()) {
    fmt::print(stderr, "It does not fit: generation needs {}, and the limit is {}.\n",
               format_bytes(plan.peak_bytes()), format_bytes(plan.limit_bytes.value()));
    return kExitDoesNotFit;
  }
  Executor executor(plan, backend);
  load_weights(executor, arguments);

  arguments.sampling.stop_ids = tokenizer->stop_ids();
  StreamDecoder decoder(*tokenizer);
  auto shown = [to_terminal = stdout_is_terminal()](const std::string& said) {
    return to_terminal ? printable_lines(said) : said;
  };
  std::string text;
  std::vector<int32_t> made = generate(executor, prompt, arguments.sampling, [&](int32_t token) {
    std::string piece = decoder.push(token);
    text += piece;
    if (!arguments.json) {
      fmt::print("{}", shown(piece));
      std::fflush(stdout);
    }
    return true;
  });
  if (!arguments.logits_file.empty()) {
    write_logits(executor, prompt, made, arguments.logits_file);
  }
  std::string rest = decoder.finish();
  text += rest;
  if (arguments.json) {
    Json report = {{"prompt", arguments.prompt},
                   {"text", text},
                   {"ids", made},
                   {"planned_bytes", plan.device_bytes()},
                   {"allocated_bytes", executor.allocated_bytes()}};
    fmt::print("{}\n", json_text(report));
  } else {
    fmt::print("{}\n", shown(rest));
  }
  return kExitOk;
}

}  // namespace

void add_generate_command(CLI::App& app, Action& action) {
  auto arguments = std::make_shared<GenerateArguments>();
  CLI::App* command = app.add_subcommand("generate", "Text from a model, with or without an adapter");
  command->add_option("model", arguments->model, "A model's folder")->required();
  command->add_option("--adapter", arguments->adapter, "A PEFT adapter folder, such as a run's output_dir");
  command->add_option("--prompt", arguments->prompt, "The text to go on from")->required();
  command->add_flag("--chat", arguments->chat,
                    "The prompt is a user's message: the model's chat template makes the text of it");
  command->add_option("--system", arguments->system, "With --chat: the system message");
  command->add_option("--chat-template", arguments->chat_template,
                      "With --chat: another template, as in data.chat_template");
  command->add_option("--max-new-tokens", arguments->sampling.max_new_tokens, "How many tokens at most")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 20));
  command
      ->add_option("--max-positions", arguments->max_positions,
                   "Allows more than config.json's max_position_embeddings, as model.max_positions does")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 24));
  command
      ->add_option("--temperature", arguments->sampling.temperature, "0: always the likeliest token (greedy)")
      ->check(CLI::Range(0.0, 100.0))
      ->check(find_no_number);
  command->add_option("--top-k", arguments->sampling.top_k, "Sample among the k likeliest; 0: all")
      ->check(CLI::NonNegativeNumber);
  command
      ->add_option("--top-p", arguments->sampling.top_p, "Sample among the likeliest that make up this share")
      ->check(CLI::Range(0.0, 1.0))
      ->check(find_no_number);
  command->add_option("--seed", arguments->sampling.seed, "Of the sampling");
  command->add_option("--dtype", arguments->dtype, "fp32, bf16 or fp16; default: as the model was saved");
  command->add_option(
      "--quantization", arguments->quantization,
      "store linear layers as nf4, nf4_double, fp4 or int8 (model.quantization); default: none");
  command->add_option("--logits", arguments->logits_file,
                      "Also write the logits of all positions, prompt and answer (JSON)");
  command->add_option("--memory", arguments->memory, "The memory limit, e.g. 2GB")->check(find_emptiness);
  add_device_arguments(*command, arguments->device);
  command->add_flag("--json", arguments->json, "Print JSON");
  command->footer(
      "\nExamples:\n  snug generate models/tiny-story --prompt \"Once upon a time\"\n"
      "  snug generate models/tiny-story --adapter runs/ship_log --chat \\\n"
      "      --prompt \"Log: fox, river, lantern\" --temperature 0.8 --top-p 0.95 --seed 7");
  command->callback([arguments, &action] { action = [arguments] { return generate_command(*arguments); }; });
}

}  // namespace snug
