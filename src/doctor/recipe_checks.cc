// The checks of a recipe, in the order in which a run would meet what they look for.
#include "doctor/recipe_checks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/bytes.h"
#include "base/error.h"
#include "compile/phases.h"
#include "data/data_statistics.h"
#include "data/source/files.h"
#include "doctor/dry_step.h"
#include "doctor/machine_checks.h"
#include "fit/choice.h"
#include "io/printable.h"
#include "io/scratch_folder.h"
#include "io/tensor_source.h"
#include "model/locate.h"
#include "train/run_output.h"
#include "train/trainer.h"
#include "train/weights.h"

namespace snug {
namespace {

constexpr int64_t kReadBytes = int64_t{64} << 20;

bool is_finite(const std::vector<float>& values) {
  return std::all_of(values.begin(), values.end(), [](float value) { return std::isfinite(value); });
}

// Names and shapes of all tensors, and the values of the first.
Check check_weights(const Recipe& recipe, const LocatedModel& model, const Plan& plan) {
  if (recipe.model.from_scratch) {
    return {.subject = "weights", .text = "fresh ones: none are read"};
  }
  TensorSource source = open_tensors(model.folder);
  require_tensors(plan, Role::base_weights, source, model.folder);
  int64_t tensors = 0;
  int64_t bytes = 0;
  std::vector<float> values;
  for (const std::string& name : source.names()) {
    const SourceTensor& tensor = source.find(name);
    if (!is_floating(tensor.dtype())) {
      continue;
    }
    if (tensors > 0 && bytes + tensor.stored_bytes() > kReadBytes) {
      break;
    }
    int64_t count = std::min<int64_t>(tensor.elements(), kReadBytes / int64_t{sizeof(float)});
    values.resize(static_cast<size_t>(count));
    tensor.read(0, count, DType::f32, values.data());
    tensor.release();
    if (!is_finite(values)) {
      return {.subject = "weights",
              .status = CheckStatus::problem,
              .text = fmt::format("{} in {} has values that are not finite", printable(name),
                                  printable(tensor.file())),
              .remedy = "the file is damaged, or what wrote it was: download it again",
              .kind = ProblemKind::bad_input};
    }
    ++tensors;
    bytes += tensor.stored_bytes();
  }
  return {.subject = "weights",
          .text = fmt::format(
              "{} tensors of {}, with the shapes that config.json says; {} of them ({}) were read",
              format_count(static_cast<int64_t>(source.names().size())), format_bytes(source.stored_bytes()),
              tensors, format_bytes(bytes))};
}

void add_data_checks(const TrainInputs& inputs, std::vector<Check>& checks) {
  checks.push_back({.subject = "data",
                    .text = fmt::format("of the first {} rows a file: {}", kCheckedRows,
                                        printable_lines(describe(inputs.data.train)))});
  if (inputs.data.eval) {
    checks.push_back({.subject = "data", .text = printable_lines(describe(*inputs.data.eval))});
  }
  for (const DataWarning& warning : data_warnings(inputs.data, inputs.recipe.data)) {
    checks.push_back({.subject = "data",
                      .status = CheckStatus::warning,
                      .text = fmt::format("{} rows {}{}", warning.rows, warning.text,
                                          warning.first.empty() ? "" : "; the first: " + warning.first)});
  }
}

// Without the model's tokenizer no row can be looked at, but whether the files are there.
Check check_files(const Recipe& recipe) {
  std::vector<std::string> patterns = recipe.data.eval_file;
  for (const DataFile& file : recipe.data.train_file) {
    patterns.push_back(file.path);
  }
  std::vector<std::filesystem::path> files = find_data_files(patterns, {});
  for (const std::filesystem::path& file : files) {
    if (!std::filesystem::exists(file)) {
      throw bad_input(fmt::format("{}: no such file", printable(file.string())));
    }
  }
  return {.subject = "data",
          .text = fmt::format("{} of {}; their rows are looked at when the model is there",
                              files.size() == 1 ? "a file" : fmt::format("{} files", files.size()),
                              format_bytes(total_file_bytes(files)))};
}

// Against the limit that applies; beside it, what is free now is told with the card or the memory.
Check check_plan(const FittedRecipe& fitted, const Recipe& recipe, const ModelSpec& spec,
                 const Device& device) {
  const Plan& plan = fitted.plan;
  std::string need =
      fmt::format("{} on {}, {} parameters of {} trained", format_bytes(plan.peak_bytes()), device.label(),
                  format_count(plan.trainable_parameters), format_count(plan.parameters));
  if (!plan.limit_bytes) {
    return {.subject = "plan",
            .status = CheckStatus::warning,
            .text = need + "; how much there is, is not known",
            .remedy = "say it with --memory, or memory.limit"};
  }
  need += fmt::format("; the limit is {}", format_bytes(*plan.limit_bytes));
  if (plan.fits()) {
    return {.subject = "plan", .text = need};
  }
  LimitsOf least = [&](const Recipe& one) { return smallest_limits(one, spec); };
  if (choose_plan(recipe, spec, device, least).plan.fits()) {
    return {.subject = "plan",
            .status = CheckStatus::warning,
            .text = need + ": too much for rows of data.max_length, and shorter ones may fit",
            .remedy = "snug plan RECIPE --data plans for the rows that there are"};
  }
  return {.subject = "plan",
          .status = CheckStatus::problem,
          .text = need + ": it does not fit",
          .remedy = "snug plan RECIPE says what would",
          .kind = ProblemKind::does_not_fit};
}

void add_output_checks(const Plan& plan, const TrainInputs& inputs, std::vector<Check>& checks) {
  RunFiles files = planned_files(plan, inputs);
  int64_t bytes = 0;
  int64_t largest = 0;
  for (const PlannedFile& file : files.files) {
    bytes += file.bytes;
    largest = std::max(largest, file.bytes);
  }
  for (const PlannedFile& file : files.checkpoint) {
    bytes += files.checkpoints * file.bytes;
    largest = std::max(largest, file.bytes);
  }
  checks.push_back(check_output(inputs.recipe.output_dir, bytes));
  for (Check& one : check_limits(read_process_limits(), largest)) {
    if (one.status == CheckStatus::problem) {  // the rest is told once
      checks.push_back(std::move(one));
    }
  }
}

Check check_step(const Plan& plan, const Recipe& recipe, const ModelSpec& spec, Backend& backend) {
  bool on_processor = backend.name() == "cpu";
  if (on_processor && !is_small(plan)) {
    return {.subject = "step", .text = "not tried: on the processor it would take a while"};
  }
  DryStep done = take_dry_step(plan, recipe, spec, backend);
  return {.subject = "step",
          .text = fmt::format(
              "one of {} tokens ran on {}, as large as they come, in {:.2f} s; {} were allocated, as "
              "planned",
              format_count(done.tokens), backend.label(), done.seconds, format_bytes(done.allocated_bytes))};
}

class RecipeDoctor {
 public:
  RecipeDoctor(const Device& device, std::vector<Check>& checks) : device_(device), checks_(checks) {}

  // Where only its shape is known, or not even that, the rest is looked at as far as that goes.
  void find_model(const Recipe& recipe) {
    has_files_ = look("model", [&] {
      model_ = locate_model_files(recipe.model.path);
      checks_.push_back(
          {.subject = "model",
           .text = fmt::format("{} ({}), computed in {}", printable(model_->folder), model_->spec.family,
                               snug::name_of(run_dtype(recipe, model_->spec)))});
    });
    if (!has_files_) {
      try {
        model_ = locate_model(recipe.model.path);
      } catch (const Error&) {
        // The line above says it.
      }
    }
  }

  void look_at(const Recipe& recipe) {
    std::optional<FittedRecipe> fitted;
    if (model_) {
      look("plan", [&] {
        fitted = choose_plan(recipe, model_->spec, device_);
        checks_.push_back(check_plan(*fitted, recipe, model_->spec, device_));
      });
    }
    if (!has_files_) {
      look("data", [&] { checks_.push_back(check_files(recipe)); });
      look("output", [&] { checks_.push_back(check_output(recipe.output_dir, std::nullopt)); });
      return;
    }
    if (fitted && !weights_done_) {
      weights_done_ = true;
      look("weights", [&] { checks_.push_back(check_weights(recipe, *model_, fitted->plan)); });
    }
    look("data", [&] {
      ScratchFolder scratch;  // the tokens of a few rows are no cache of a run's
      Recipe sample = recipe;
      sample.data.cache_dir = scratch.path().string();
      int64_t rows = recipe.data.max_samples;
      sample.data.max_samples = rows > 0 ? std::min(rows, kCheckedRows) : kCheckedRows;
      TrainInputs inputs = read_train_inputs(sample, *model_, [](const DataProgress&) {});
      add_data_checks(inputs, checks_);
      if (fitted) {
        add_output_checks(fitted->plan, inputs, checks_);
      }
    });
    bool is_largest = fitted && fitted->plan.fits() &&
                      (!largest_ || fitted->plan.peak_bytes() > largest_->plan.peak_bytes());
    if (is_largest) {
      largest_ = std::move(fitted);
    }
  }

  void try_step(Backend& backend) {
    if (largest_) {
      look("step",
           [&] { checks_.push_back(check_step(largest_->plan, largest_->recipe, model_->spec, backend)); });
    }
  }

 private:
  // True if it came to its end; else there is a line about why.
  bool look(const char* subject, const std::function<void()>& look_at_it) {
    bool done = false;
    Check failed = check(subject, [&] {
      look_at_it();
      done = true;
      return Check{};
    });
    if (!done) {
      checks_.push_back(failed);
    }
    return done;
  }

  const Device& device_;
  std::vector<Check>& checks_;
  std::optional<LocatedModel> model_;
  bool has_files_ = false;
  bool weights_done_ = false;
  std::optional<FittedRecipe> largest_;
};

}  // namespace

std::vector<Check> check_recipes(const std::vector<Recipe>& stages, const Device& device, Backend* backend) {
  std::vector<Check> checks;
  RecipeDoctor doctor(device, checks);
  doctor.find_model(stages.front());
  for (const Recipe& recipe : stages) {
    size_t first = checks.size();
    doctor.look_at(recipe);
    for (size_t i = first; i < checks.size() && !recipe.stage.name.empty(); ++i) {
      checks[i].subject += " of " + recipe.stage.name;
    }
  }
  if (backend != nullptr) {
    doctor.try_step(*backend);
  }
  return checks;
}

}  // namespace snug
