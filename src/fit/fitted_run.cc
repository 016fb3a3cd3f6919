// Changes are settings, as people type them, and the recipe is read again with them: so stages that follow
// from others do so here, too.
#include "fit/fitted_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/error.h"
#include "compile/phases.h"
#include "fit/choice.h"
#include "plan/training.h"
#include "recipe/choices.h"
#include "recipe/keys.h"
#include "recipe/stages.h"
#include "recipe/write.h"

namespace snug {
namespace {

std::string key_of(const std::string& setting) {
  return setting.substr(0, setting.find('='));
}

bool is_knob(std::string_view key) {
  return std::any_of(knobs().begin(), knobs().end(), [&](const Knob& knob) { return knob.key == key; });
}

// Stages that train one adapter on keep its shape: all from the one where it began.
std::vector<size_t> stages_of_adapter(const std::vector<Recipe>& stages, size_t stage) {
  auto goes_on = [&](size_t i) { return stages[i].stage.start == StageStart::go_on; };
  size_t first = stage;
  while (first > 0 && goes_on(first)) {
    --first;
  }
  std::vector<size_t> all = {first};
  while (all.back() + 1 < stages.size() && goes_on(all.back() + 1)) {
    all.push_back(all.back() + 1);
  }
  return all;
}

// A setting of one stage, as it is said of the whole recipe.
std::vector<std::string> settings_of_run(const std::vector<Recipe>& stages, size_t stage,
                                         const std::string& setting) {
  std::string key = key_of(setting);
  if (stages[stage].stage.name.empty() || is_run_key(key)) {
    return {setting};
  }
  std::vector<std::string> settings;
  for (size_t one : key.starts_with("lora.") ? stages_of_adapter(stages, stage) : std::vector{stage}) {
    settings.push_back(fmt::format("{}.{}.{}", kStagesKey, stages[one].stage.name, setting));
  }
  return settings;
}

// Lists that say the same of all layers are one word, where there is one.
std::vector<Recompute> shortened(const std::vector<Recompute>& policies) {
  bool is_uniform = std::all_of(policies.begin(), policies.end(),
                                [&](Recompute policy) { return policy == policies.front(); });
  bool is_one_word = is_uniform && !policies.empty() && !name_of(policies.front()).empty();
  return is_one_word ? std::vector{policies.front()} : policies;
}

// What was chosen, written down where it is not what the recipe does anyway.
Recipe pinned(const Recipe& asked, const Recipe& chosen) {
  Recipe recipe = chosen;
  MemorySection& memory = recipe.memory;
  memory.recompute = shortened(memory.recompute);
  if (asked.memory.recompute.empty() && memory.recompute == std::vector{Recompute::none}) {
    memory.recompute.clear();
  }
  if (!asked.memory.micro_batch_tokens && memory.micro_batch_tokens == micro_batch_tokens(asked)) {
    memory.micro_batch_tokens.reset();
  }
  return recipe;
}

// In which order changes are told: what costs least first.
std::vector<std::string_view> keys_in_order() {
  std::vector<std::string_view> keys;
  for (const Knob& knob : knobs()) {
    keys.insert(keys.begin(), knob.key);
  }
  std::vector<std::string_view> others = keys_to_allow();
  keys.insert(keys.end(), others.begin(), others.end());
  return keys;
}

std::string_view reason_of(std::string_view key, const Recipe& before, const Recipe& after,
                           const ModelSpec& spec) {
  for (const Knob& knob : knobs()) {
    if (knob.key == key) {
      return knob.reason;
    }
  }
  for (const OptIn& one : opt_ins()) {
    Recipe changed = before;
    if (one.key == key && one.applies(before, spec)) {
      one.apply(changed);
      const RecipeKey& recipe_key = *find_recipe_key(key);
      if (recipe_key.print(changed) == recipe_key.print(after)) {
        return one.changes;
      }
    }
  }
  for (const Reduction& one : reductions()) {
    if (one.key == key) {
      return one.changes;
    }
  }
  return "";
}

class Prices {
 public:
  Prices(FittedStage& stage, const ModelSpec& spec, const Device& device, const LimitsOf& limits)
      : stage_(stage), spec_(spec), device_(device), limits_(limits), now_(stage.before) {
    Plan plan = plan_training(now_, spec_, device_, limits_);
    stage_.before_bytes = bytes_ = plan.peak_bytes();
    first_seconds_ = seconds_ = expected_step_seconds(plan, device_, run_dtype(now_, spec_));
  }

  void tell() {
    for (std::string_view key : keys_in_order()) {
      if (key == "lora") {
        tell_new_adapters();
      } else {
        tell_key(*find_recipe_key(key));
      }
    }
    if (stage_.plan.peak_bytes() != bytes_) {
      price({.key = "stages before",
             .before = "",
             .after = "",
             .sameness = Sameness::experiment,
             .reason = "they change, too"},
            stage_.plan, stage_.after);
    }
    stage_.slower = seconds_ / first_seconds_ - 1;
  }

 private:
  void tell_key(const RecipeKey& key) {
    bool is_absent = key.section() == "lora" && !now_.lora;
    if (is_absent || key.print(now_) == key.print(stage_.after)) {
      return;
    }
    std::string before = yaml_value(key.print(now_));
    std::string after = yaml_value(key.print(stage_.after));
    std::string_view reason = reason_of(key.name, now_, stage_.after, spec_);
    YamlDocument value(after, {.name = std::string(key.name), .has_lines = false});
    SNUG_CHECK(!key.read(value.root(), now_).has_value(), "what a key prints is what it reads");
    price({.key = std::string(key.name),
           .before = std::move(before),
           .after = std::move(after),
           .sameness = sameness_of(key.name),
           .reason = reason});
  }

  void tell_new_adapters() {
    if (!now_.lora && stage_.after.lora) {
      now_.lora = stage_.after.lora;
      price({.key = "lora",
             .before = "null",
             .after = fmt::format("{{r: {}, lora_alpha: {:g}}}", now_.lora->r, now_.lora->lora_alpha),
             .sameness = Sameness::experiment,
             .reason = reason_of("lora", stage_.before, stage_.after, spec_)});
    }
  }

  void price(FitChange change) {
    price(std::move(change), plan_training(now_, spec_, device_, limits_), now_);
  }
  void price(FitChange change, const Plan& plan, const Recipe& recipe) {
    double seconds = expected_step_seconds(plan, device_, run_dtype(recipe, spec_));
    change.saved_bytes = bytes_ - plan.peak_bytes();
    change.slower = (seconds - seconds_) / first_seconds_;
    bytes_ = plan.peak_bytes();
    seconds_ = seconds;
    stage_.changes.push_back(std::move(change));
  }

  FittedStage& stage_;
  const ModelSpec& spec_;
  const Device& device_;
  const LimitsOf& limits_;
  Recipe now_;
  int64_t bytes_ = 0;
  double seconds_ = 0;
  double first_seconds_ = 0;
};

class Fitting {
 public:
  Fitting(const FitRequest& request, const ModelSpec& spec, const Device& device)
      : request_(request), spec_(spec), device_(device) {}

  FittedRun make() {
    const std::vector<Recipe> asked = request_.read({});
    read_again();
    allowed_ = request_.allowed;
    if (std::any_of(asked.begin(), asked.end(),
                    [](const Recipe& one) { return one.stage.start == StageStart::merge_first; })) {
      allowed_.erase("model.quantization");  // what is merged into must be weights
    }
    // Each round but the last changes a key of a stage, or of all of them.
    while (change_what_is_allowed()) {
      read_again();
    }
    FittedRun run;
    for (size_t i = 0; i < stages_.size(); ++i) {
      for (const std::string& one : settings_between(stages_[i], pinned(stages_[i], chosen_[i]))) {
        std::vector<std::string> of_run = settings_of_run(stages_, i, one);
        settings_.insert(settings_.end(), of_run.begin(), of_run.end());
      }
    }
    run.settings = settings_;
    std::vector<Recipe> after = request_.read(settings_);
    for (size_t i = 0; i < asked.size(); ++i) {
      run.stages.push_back({.before = asked[i],
                            .after = after[i],
                            .plan = std::move(plans_[i]),
                            .changes = {},
                            .offers = std::move(offers_[i])});
      FittedStage& stage = run.stages.back();
      Prices prices(stage, spec_, device_, limits_[i]);
      if (!stage.offers) {
        stage.plan = choose_plan(after[i], spec_, device_, limits_[i]).plan;
        prices.tell();
      }
    }
    return run;
  }

 private:
  void read_again() {
    stages_ = request_.read(settings_);
    limits_ = request_.limits(stages_);
    chosen_.assign(stages_.size(), {});
    plans_.assign(stages_.size(), {});
    offers_.assign(stages_.size(), std::nullopt);
  }

  // Chooses for every stage. True if one does not fit and an allowed change to it was made.
  bool change_what_is_allowed() {
    for (size_t i = 0; i < stages_.size(); ++i) {
      FittedRecipe fitted = choose_plan(stages_[i], spec_, device_, limits_[i]);
      plans_[i] = std::move(fitted.plan);
      chosen_[i] = stages_[i];
      if (plans_[i].fits()) {
        chosen_[i] = std::move(fitted.recipe);
        continue;
      }
      Alternatives others = find_alternatives(stages_[i], spec_, device_, limits_[i],
                                              allowed_.empty() ? AllowedKeys() : allowed_);
      if (!others.same.empty()) {
        chosen_[i] =
            std::min_element(others.same.begin(), others.same.end(), [](const auto& a, const auto& b) {
              return a.seconds < b.seconds;
            })->recipe;
        continue;
      }
      if (!allowed_.empty()) {
        for (const std::vector<Alternative>* found : {&others.opt_in, &others.experiment}) {
          if (!found->empty()) {
            add_settings(i, found->front());
            return true;
          }
        }
        others = find_alternatives(stages_[i], spec_, device_, limits_[i]);
      }
      offers_[i] = std::move(others);
      name_stage(*offers_[i], stages_, i);
    }
    return false;
  }

  // What is free is chosen anew.
  void add_settings(size_t stage, const Alternative& alternative) {
    for (const std::string& one : alternative.settings) {
      if (!is_knob(key_of(one))) {
        std::vector<std::string> of_run = settings_of_run(stages_, stage, one);
        settings_.insert(settings_.end(), of_run.begin(), of_run.end());
      }
    }
  }

  const FitRequest& request_;
  const ModelSpec& spec_;
  const Device& device_;
  std::set<std::string, std::less<>> allowed_;
  std::vector<std::string> settings_;
  std::vector<Recipe> stages_;  // with these
  std::vector<LimitsOf> limits_;
  std::vector<Recipe> chosen_;
  std::vector<Plan> plans_;  // as they are
  std::vector<std::optional<Alternatives>> offers_;
};

}  // namespace

bool FittedRun::fits() const {
  return std::all_of(stages.begin(), stages.end(),
                     [](const FittedStage& stage) { return stage.plan.fits(); });
}

void name_stage(Alternatives& found, const std::vector<Recipe>& stages, size_t stage) {
  for (std::vector<Alternative>* list : {&found.same, &found.opt_in, &found.experiment}) {
    for (Alternative& alternative : *list) {
      std::vector<std::string> settings;
      for (const std::string& one : alternative.settings) {
        std::vector<std::string> of_run = settings_of_run(stages, stage, one);
        settings.insert(settings.end(), of_run.begin(), of_run.end());
      }
      alternative.settings = std::move(settings);
    }
  }
}

FittedRun fit_run(const FitRequest& request, const ModelSpec& spec, const Device& device) {
  return Fitting(request, spec, device).make();
}

}  // namespace snug
