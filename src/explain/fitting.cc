// Planned as 'snug plan --device cuda' does, with the nearest plan that fits where the recipe itself does
// not.
#include "explain/fitting.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <utility>
#include <vector>

#include "backend/cuda_plan/planned_card.h"
#include "base/bytes.h"
#include "fit/alternatives.h"
#include "fit/choice.h"
#include "plan/plan.h"
#include "recipe/parse.h"

namespace snug {
namespace {

// A recipe's text, section by section.
class RecipeText {
 public:
  void set(const std::string& section, const std::string& key, const std::string& value) {
    for (auto& [name, keys] : sections_) {
      if (name == section) {
        for (auto& [known, old] : keys) {
          if (known == key) {
            old = value;
            return;
          }
        }
        keys.emplace_back(key, value);
        return;
      }
    }
    sections_.push_back({section, {{key, value}}});
  }
  // "section.key=value"
  void set(const std::string& setting) {
    size_t dot = setting.find('.');
    size_t equals = setting.find('=');
    set(setting.substr(0, dot), setting.substr(dot + 1, equals - dot - 1), setting.substr(equals + 1));
  }
  std::string text() const {
    std::string text;
    for (const auto& [name, keys] : sections_) {
      text += name + ":\n";
      for (const auto& [key, value] : keys) {
        text += fmt::format("  {}: {}\n", key, value);
      }
    }
    return text;
  }

 private:
  std::vector<std::pair<std::string, std::vector<std::pair<std::string, std::string>>>> sections_;
};

}  // namespace

std::optional<FittingRun> fit_recipe(const Recipe& recipe, const ModelSpec& spec, int64_t limit_bytes) {
  Recipe limited = recipe;
  limited.memory.limit_bytes = limit_bytes;
  PlannedCard card;
  Plan plan = choose_plan(limited, spec, card).plan;
  std::vector<PythonStackUse> elsewhere = usual_python_stacks(recipe, spec, plan);
  if (plan.fits()) {
    return FittingRun{"", {}, {}, plan.peak_bytes(), limit_bytes, std::move(elsewhere)};
  }
  Alternatives others = find_alternatives(limited, spec, card);
  for (const std::vector<Alternative>* kind : {&others.same, &others.opt_in}) {
    if (!kind->empty()) {
      const Alternative& first = kind->front();
      return FittingRun{"",          first.settings,      first.changes, first.peak_bytes,
                        limit_bytes, std::move(elsewhere)};
    }
  }
  return std::nullopt;
}

std::optional<FittingRun> fit_model(const std::string& model, const ModelSpec& spec,
                                    const CountedRun* counted, int64_t limit_bytes) {
  RecipeText text;
  text.set("model", "path", model);
  text.set("model", "dtype", "bf16");
  int64_t r = counted == nullptr ? 16 : counted->r;
  text.set("lora", "r", std::to_string(r));
  text.set("lora", "lora_alpha", std::to_string(2 * r));
  if (counted != nullptr) {
    text.set("lora", "target_modules", fmt::format("[{}]", fmt::join(counted->targets, ", ")));
  }
  text.set("data", "train_file", "train.jsonl");
  text.set("data", "max_length", "2048");
  text.set("training", "per_device_train_batch_size", "1");
  text.set("training", "gradient_accumulation_steps", "16");
  auto fitting = fit_recipe(parse_recipe(text.text(), "recipe.yml"), spec, limit_bytes);
  if (fitting) {
    for (const std::string& setting : fitting->settings) {
      text.set(setting);
    }
    text.set("memory", "limit", fmt::format("{}MiB", limit_bytes >> 20));
    fitting->recipe = text.text();
    fitting->settings.clear();
  }
  return fitting;
}

}  // namespace snug
