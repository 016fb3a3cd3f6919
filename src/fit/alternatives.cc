// Opening what was written, then computing otherwise, then training otherwise.
#include "fit/alternatives.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "backend/cuda_plan/planned_card.h"
#include "compile/phases.h"
#include "fit/choice.h"
#include "fit/remedies.h"
#include "plan/training.h"
#include "recipe/keys.h"
#include "recipe/write.h"

namespace snug {
namespace {

using OptIns = std::vector<OptIn>;

// A change to the recipe, in itself and in words.
struct Changed {
  Recipe recipe;
  std::vector<std::string> changes;
};

Changed changed_by(const Recipe& recipe, const OptIns& chosen) {
  Changed changed{recipe, {}};
  for (const OptIn& one : chosen) {
    one.apply(changed.recipe);
    changed.changes.emplace_back(one.changes);
  }
  return changed;
}

class Search {
 public:
  Search(const Recipe& recipe, const ModelSpec& spec, const Device& device, const LimitsOf& limits,
         const AllowedKeys& allowed, const ChosenRecipe* chosen)
      : recipe_(recipe),
        spec_(spec),
        device_(device),
        limits_(limits),
        chosen_(chosen),
        seconds_(chosen != nullptr ? chosen->kept_seconds
                                   : expected_step_seconds(plan_training(recipe, spec, device, limits),
                                                           device, run_dtype(recipe, spec))) {
    auto is_allowed = [&](std::string_view key) { return !allowed || allowed->contains(key); };
    for (const OptIn& one : snug::opt_ins()) {
      if (is_allowed(one.key) && one.applies(recipe_, spec_)) {
        opt_ins_.push_back(one);
      }
    }
    for (const Reduction& one : reductions()) {
      if (is_allowed(one.key)) {
        reductions_.push_back(one);
      }
    }
  }

  // One of the keys that are written left open; all of them where that alone fits, or is faster.
  std::vector<Alternative> same() const {
    std::vector<Alternative> found;
    std::vector<Recipe> candidates;
    Recipe all_open = recipe_;
    for (const Knob& knob : knobs()) {
      if (knob.is_written(recipe_)) {
        candidates.push_back(recipe_);
        knob.open(candidates.back());
        knob.open(all_open);
      }
    }
    for (const Recipe& candidate : candidates) {
      append_if_it_fits({candidate, {}}, found);
    }
    if (candidates.size() > 1 && append_if_it_fits({all_open, {}}, found)) {
      bool is_faster = std::all_of(found.begin(), found.end() - 1, [&](const Alternative& one) {
        return found.back().seconds < one.seconds;
      });
      if (!is_faster) {
        found.pop_back();
      }
    }
    return found;
  }

  // Of the same experiment.
  int64_t least_bytes() const {
    bool is_all_open = std::none_of(knobs().begin(), knobs().end(),
                                    [&](const Knob& knob) { return knob.is_written(recipe_); });
    // Where nothing is written and nothing fits, what takes least is what was chosen.
    return chosen_ != nullptr && is_all_open ? chosen_->peak_bytes
                                             : least_peak_bytes(recipe_, spec_, device_, limits_);
  }

  // Of as few keys as suffice.
  std::vector<Alternative> opt_ins() const {
    std::vector<Alternative> found;
    for (size_t keys = 1; found.empty() && keys <= opt_ins_.size(); ++keys) {
      for (const OptIns& chosen : combinations(keys)) {
        Changed changed = changed_by(recipe_, chosen);
        if (can_fit(changed.recipe)) {
          append_with(std::move(changed), found);
        }
      }
    }
    return found;
  }

  // One key each, and if that is not enough, each beside all opt-ins.
  std::vector<Alternative> experiments() const {
    std::vector<Alternative> found;
    append_reductions({recipe_, {}}, found);
    if (found.empty() && !opt_ins_.empty()) {
      append_reductions(changed_by(recipe_, strongest()), found);
    }
    return found;
  }

 private:
  // Every choice of so many keys, in the order of the list.
  std::vector<OptIns> combinations(size_t keys) const {
    std::vector<OptIns> all = {{}};
    for (const OptIn& one : opt_ins_) {
      for (size_t i = 0, count = all.size(); i < count; ++i) {
        bool is_taken = std::any_of(all[i].begin(), all[i].end(),
                                    [&](const OptIn& other) { return other.key == one.key; });
        if (!is_taken) {
          all.push_back(all[i]);
          all.back().push_back(one);
        }
      }
    }
    std::erase_if(all, [&](const OptIns& chosen) { return chosen.size() != keys; });
    return all;
  }

  // Of each key the last.
  OptIns strongest() const {
    OptIns last;
    for (const OptIn& one : opt_ins_) {
      std::erase_if(last, [&](const OptIn& other) { return other.key == one.key; });
      last.push_back(one);
    }
    return last;
  }

  // Whether anything that may be left open makes it fit. One plan tells most: what fits with everything
  // recomputed does, and what an update takes is there whatever is recomputed.
  bool can_fit(Recipe recipe) const {
    std::optional<int64_t> limit = memory_limit(recipe_, device_);
    int64_t& weight_bytes = weight_bytes_[weights_of(recipe)];
    if (limit && weight_bytes > *limit) {
      return false;
    }
    open_all(recipe);
    recipe.memory.micro_batch_tokens = micro_batch_sizes(recipe, spec_, limits_).back();
    Recipe full = recipe;
    full.memory.recompute = {Recompute::full};
    Plan plan = plan_for_peak(full, spec_, device_, limits_);
    weight_bytes =
        plan.context_bytes + plan.largest_phase().role_bytes[static_cast<size_t>(Role::base_weights)];
    if (!limit || plan.peak_bytes() <= *limit) {
      return true;
    }
    int64_t update_bytes = plan.phase(kUpdatePhase).device().peak_bytes + plan.context_bytes;
    return update_bytes <= *limit && least_peak_bytes(recipe, spec_, device_, limits_) <= *limit;
  }

  // Models of equal text have weights of the same bytes, whatever else is trained how.
  static std::string weights_of(const Recipe& recipe) {
    std::string text;
    for (const char* key : {"model.path", "model.dtype", "model.quantization", "model.compute"}) {
      text += find_recipe_key(key)->print(recipe).dump() + "\n";
    }
    return text;
  }

  bool append_if_it_fits(const Changed& changed, std::vector<Alternative>& found) const {
    ChosenRecipe chosen = choose_recipe(changed.recipe, spec_, device_, limits_);
    if (chosen.fits) {
      found.push_back({settings_between(recipe_, changed.recipe), chosen.peak_bytes, changed.changes,
                       std::move(chosen.recipe), chosen.seconds, slower(chosen.seconds)});
    }
    return chosen.fits;
  }

  std::optional<double> slower(double seconds) const {
    bool is_known = device_.rates(run_dtype(recipe_, spec_)).product_flops > 0;
    return is_known ? std::optional(seconds / seconds_ - 1) : std::nullopt;
  }

  // What can fit: as the recipe is otherwise, or else with all that may be left open.
  void append_with(Changed changed, std::vector<Alternative>& found) const {
    if (!append_if_it_fits(changed, found)) {
      open_all(changed.recipe);
      append_if_it_fits(changed, found);
    }
  }

  // The nearest value of each key that fits.
  void append_reductions(const Changed& before, std::vector<Alternative>& found) const {
    for (const Reduction& one : reductions_) {
      std::vector<int64_t> values = one.values(before.recipe, spec_);
      auto with = [&](int64_t value) {
        Changed changed = before;
        one.set(changed.recipe, value);
        changed.changes.emplace_back(one.changes);
        return changed;
      };
      if (values.empty() || !can_fit(with(values.back()).recipe)) {
        continue;
      }
      auto nearest = std::partition_point(values.begin(), values.end() - 1,  // of which it is known
                                          [&](int64_t value) { return !can_fit(with(value).recipe); });
      append_with(with(*nearest), found);
    }
  }

  const Recipe& recipe_;
  const ModelSpec& spec_;
  const Device& device_;
  const LimitsOf& limits_;
  const ChosenRecipe* chosen_;
  double seconds_;  // of a step as the recipe is
  OptIns opt_ins_;
  std::vector<Reduction> reductions_;
  // By what weights_of tells: they and the driver's context, of what was planned so far.
  mutable std::map<std::string, int64_t> weight_bytes_;
};

}  // namespace

std::vector<std::string> settings_between(const Recipe& from, const Recipe& to) {
  Recipe before = from;
  if (to.lora && !before.lora) {
    before.lora = LoraSection{};
  }
  std::vector<std::string> settings;
  for (const RecipeKey& key : recipe_keys()) {
    bool is_absent = key.section() == "lora" && !to.lora;
    if (!is_absent && key.print(before) != key.print(to)) {
      settings.push_back(fmt::format("{}={}", key.name, yaml_value(key.print(to))));
    }
  }
  return settings;
}

Alternatives find_alternatives(const Recipe& recipe, const ModelSpec& spec, const Device& device,
                               const LimitsOf& limits, const AllowedKeys& allowed,
                               const ChosenRecipe* chosen) {
  Search search(recipe, spec, device, limits, allowed, chosen);
  Alternatives found;
  found.same = search.same();
  found.opt_in = search.opt_ins();
  if (!found.same.empty()) {
    return found;
  }
  if (found.opt_in.empty()) {
    found.experiment = search.experiments();
  }
  found.least_bytes = search.least_bytes();
  if (device.name() == PlannedCard().name()) {
    for (const CatalogueCard& card : card_catalogue()) {
      if (found.card == nullptr && card.memory_bytes >= found.least_bytes) {
        found.card = &card;
      }
    }
  }
  return found;
}

}  // namespace snug
