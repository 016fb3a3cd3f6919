// snug init
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <memory>
#include <string>

#include "backend/cuda_plan/catalogue.h"
#include "base/bytes.h"
#include "base/error.h"
#include "cli/argument_checks.h"
#include "cli/commands.h"
#include "cli/make_backend.h"
#include "fit/choice.h"
#include "io/atomic_file.h"
#include "io/printable.h"
#include "io/scratch_folder.h"
#include "io/shell_word.h"
#include "model/locate.h"
#include "recipe/parse.h"
#include "report/first_recipe.h"
#include "report/plan_report.h"
#include "train/trainer.h"

namespace snug {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kLookedAtRows = 1000;
constexpr int64_t kUsualLength = 2048;
constexpr int64_t kLengthStep = 64;
constexpr int64_t kEnoughToSplit = 100;
constexpr int kBf16Capability = 80;  // Ampere

struct InitOptions {
  std::string model;
  std::string data;
  std::string gpu;
  std::string method;
  std::string output = "recipe.yml";
};

// Asks where somebody is there to answer; "" is the answer of who only presses return.
std::string ask(const std::string& question) {
  fmt::print("  {} ", question);
  std::fflush(stdout);
  std::string answer;
  std::getline(std::cin, answer);
  return answer;
}

void ask_for_missing(InitOptions& options) {
  bool is_asked = isatty(STDIN_FILENO) != 0;
  if (is_asked && options.model.empty()) {
    options.model = ask("Model (a folder, or a hub id):");
  }
  if (is_asked && options.data.empty()) {
    options.data = ask("Data (JSONL, JSON, CSV, TSV or text):");
  }
  if (is_asked && options.gpu.empty()) {
    options.gpu = ask("Card (3090, A10G ...; return: this machine):");
  }
  if (is_asked && options.method.empty()) {
    options.method = ask("Method (lora, qlora, full; return: what fits):");
  }
  for (const auto& [value, flag] :
       {std::pair(&options.model, "--model"), std::pair(&options.data, "--data")}) {
    if (value->empty()) {
      throw bad_input(
          fmt::format("{} is missing: snug init --model FOLDER --data FILE [--gpu NAME] [-o FILE]", flag));
    }
  }
}

// A path as the recipe is to have it, which reads paths from its own folder.
std::string seen_from(const fs::path& folder, const std::string& path) {
  fs::path whole = fs::absolute(path).lexically_normal();
  return whole.lexically_proximate(folder.lexically_normal()).string();
}

Method parse_method(const std::string& text) {
  for (const auto& [name, method] : {std::pair("lora", Method::lora), std::pair("qlora", Method::qlora),
                                     std::pair("full", Method::full)}) {
    if (text == name) {
      return method;
    }
  }
  throw bad_input(fmt::format("--method is {}: expected lora, qlora or full", in_quotes(text)));
}

class Init {
 public:
  explicit Init(const InitOptions& options)
      : options_(options),
        located_(locate_model(options.model)),
        folder_(fs::absolute(options.output).parent_path()) {
    if (!fs::exists(options.data)) {
      throw bad_input(fmt::format("--data is {}: there is no such file", in_quotes(options.data)));
    }
    if (fs::exists(options.output)) {
      throw bad_input(
          fmt::format("{} is there already: give another name with -o", in_quotes(options.output)));
    }
    bool is_folder = fs::is_directory(options.model);
    recipe_.model = is_folder ? seen_from(folder_, options.model) : options.model;
    recipe_.data = seen_from(folder_, options.data);
    recipe_.output_dir = "runs/" + fs::path(options.output).stem().string();
    if (!options.gpu.empty()) {
      const CatalogueCard& card = find_catalogue_card(options.gpu);
      recipe_.card = card.name;
      recipe_.limit_bytes = card.memory_bytes;
      recipe_.dtype = card.shape.capability < kBf16Capability ? "fp16" : "bf16";
    }
    device_ = make_planning_device({.device = "", .tf32 = false, .gpu = options.gpu});
    look_at_data();
  }

  int run() {
    std::vector<Method> methods = {Method::lora, Method::qlora};
    if (!options_.method.empty()) {
      methods = {parse_method(options_.method)};
    }
    std::optional<FittedRecipe> fitted;
    for (Method method : methods) {
      recipe_.method = method;
      fitted = fit();
      if (fitted->plan.fits()) {
        break;
      }
    }
    write_file_atomically(options_.output, first_recipe_text(recipe_, describe(*fitted)));
    fmt::print("  {}\n\n{}", printable(options_.output), read_text_file(options_.output));
    fmt::print("\n  next: snug plan {0}, snug doctor {0}, snug train {0}\n",
               shell_word(printable(options_.output)));
    return fitted->plan.fits() ? kExitOk : kExitDoesNotFit;
  }

 private:
  FittedRecipe fit() const {
    Recipe asked = parse_recipe(first_recipe_text(recipe_, ""), (folder_ / "recipe.yml").string());
    return choose_plan(asked, located_.spec, *device_);
  }

  // How long the rows are, if the model's tokenizer is here.
  void look_at_data() {
    int64_t most =
        located_.spec.max_positions > 0 ? std::min(kUsualLength, located_.spec.max_positions) : kUsualLength;
    recipe_.max_length = most;
    recipe_.length_reason = "tokens a row; longer ones are cut";
    if (located_.folder.empty()) {
      return;
    }
    Recipe sample = parse_recipe(first_recipe_text(recipe_, ""), (folder_ / "recipe.yml").string());
    ScratchFolder scratch;
    sample.data.cache_dir = scratch.path().string();
    sample.data.max_samples = kLookedAtRows;
    TrainInputs inputs = read_train_inputs(sample, located_, [](const DataProgress&) {});
    const Dataset& rows = inputs.data.train;
    int64_t longest = 1;
    for (int64_t i = 0; i < rows.size(); ++i) {
      longest = std::max({longest, rows.length_tokens(i), rows.source_length_tokens(i)});
    }
    bool all_seen = rows.size() < kLookedAtRows;
    if (all_seen && longest < most) {
      recipe_.max_length = std::min(most, (longest + kLengthStep - 1) / kLengthStep * kLengthStep);
      recipe_.length_reason = fmt::format("the longest of {} rows has {} tokens", rows.size(), longest);
    }
    recipe_.has_evaluation = rows.size() >= kEnoughToSplit;
  }

  std::string describe(const FittedRecipe& fitted) const {
    const Plan& plan = fitted.plan;
    std::string where = recipe_.card.empty() ? std::string("this machine") : "a " + recipe_.card;
    std::string text = fmt::format("It trains {} of {} parameters and needs {} on {}",
                                   format_count(plan.trainable_parameters), format_count(plan.parameters),
                                   format_bytes(plan.peak_bytes()), where);
    if (plan.limit_bytes) {
      text += fmt::format(", which has {}{}", format_bytes(*plan.limit_bytes),
                          plan.fits() ? "" : ": it does not fit");
    }
    text += ".";
    if (recipe_.method == Method::qlora && options_.method.empty()) {
      text += " In 16 bits the model did not fit, so its linear layers are stored in 4.";
    }
    std::string chosen = choice_report(fitted, Style(false));
    if (size_t begin = chosen.find("up to"); begin != std::string::npos) {
      text += "\nChosen to fit: " + chosen.substr(begin);
    }
    return text;
  }

  const InitOptions& options_;
  LocatedModel located_;
  fs::path folder_;
  FirstRecipe recipe_;
  std::unique_ptr<Device> device_;
};

int init_command(InitOptions options) {
  ask_for_missing(options);
  return Init(options).run();
}

}  // namespace

void add_init_command(CLI::App& app, Action& action) {
  auto options = std::make_shared<InitOptions>();
  CLI::App* command = app.add_subcommand("init", "A first recipe, from a model, a data file and a card");
  command->add_option("--model", options->model, "The model: a folder, or a hub id");
  command->add_option("--data", options->data, "The rows to train on: JSONL, JSON, CSV, TSV or text");
  command
      ->add_option("--gpu", options->gpu,
                   "The card to fit it to, by its name (snug docs cards); else this machine")
      ->check(find_emptiness);
  command->add_option("--method", options->method, "lora, qlora (a base in 4 bits) or full; else what fits");
  command->add_option("-o,--output", options->output, "The recipe to write");
  command->footer(
      "\nOn a terminal it asks for what is not given. The recipe is fitted, and its comments\n"
      "say what was chosen. Exit code 3: it does not fit; it is written all the same.\n"
      "\nExample:\n  snug init --model models/tiny-story --data recipes/data/ship_log_train.jsonl \\\n"
      "      --gpu 3090 -o first.yml");
  command->callback([options, &action] { action = [options] { return init_command(*options); }; });
}

}  // namespace snug
