// From the stages' evaluations.
#include "train/forgetting.h"

#include <fmt/format.h>

#include <algorithm>

#include "recipe/stages.h"

namespace snug {
namespace {

std::optional<double> loss_of(const Json& evaluation, const std::string& set) {
  auto found = evaluation.find(fmt::format("eval_{}_loss", set));
  return found != evaluation.end() && found->is_number() ? std::optional(found->get<double>()) : std::nullopt;
}

// That of the stage's result: the last one, or the best where that was taken.
Json result_evaluation(const Json& summary, const Recipe& stage) {
  const Json& evaluations = summary.at("evaluations");
  if (stage.training.load_best_model_at_end) {
    for (const Json& one : evaluations) {
      if (one.at("step") == summary.at("best_step")) {
        return one;
      }
    }
  }
  return evaluations.empty() ? Json::object() : evaluations.back();
}

Json first_evaluation(const Json& summary) {
  const Json& evaluations = summary.at("evaluations");
  bool is_first = !evaluations.empty() && evaluations.front().at("step") == 0;
  return is_first ? evaluations.front() : Json::object();
}

Json number_or_null(const std::optional<double>& value) {
  return value ? Json(*value) : Json();
}

}  // namespace

std::optional<double> SetHistory::learned() const {
  return before && after[stage] ? std::optional(*before - *after[stage]) : std::nullopt;
}

std::optional<double> SetHistory::forgotten() const {
  bool has_later = stage + 1 < after.size() && after[stage] && after.back();
  return has_later ? std::optional(*after.back() - *after[stage]) : std::nullopt;
}

Forgetting make_forgetting(const std::vector<Recipe>& stages, const std::vector<Json>& summaries) {
  Forgetting result;
  for (size_t i = 0; i < summaries.size(); ++i) {
    result.stages.push_back(stages[i].stage.name);
  }
  for (size_t i = 0; i < summaries.size(); ++i) {
    for (const std::string& set : own_set_names(stages[i].stage.name, stages[i].data)) {
      bool is_known = std::any_of(result.sets.begin(), result.sets.end(),
                                  [&](const SetHistory& one) { return one.set == set; });
      if (is_known) {
        continue;  // of a stage that evaluates with the files of an earlier one
      }
      SetHistory history{
          .set = set, .stage = i, .before = loss_of(first_evaluation(summaries[i]), set), .after = {}};
      for (size_t k = 0; k < summaries.size(); ++k) {
        history.after.push_back(k < i ? std::nullopt
                                      : loss_of(result_evaluation(summaries[k], stages[k]), set));
      }
      result.sets.push_back(std::move(history));
    }
  }
  return result;
}

Json forgetting_to_json(const Forgetting& forgetting) {
  Json sets = Json::array();
  for (const SetHistory& one : forgetting.sets) {
    Json after = Json::object();
    for (size_t i = 0; i < one.after.size(); ++i) {
      after[forgetting.stages[i]] = number_or_null(one.after[i]);
    }
    sets.push_back({{"set", one.set},
                    {"stage", forgetting.stages[one.stage]},
                    {"loss_before", number_or_null(one.before)},
                    {"loss_after", after},
                    {"learned", number_or_null(one.learned())},
                    {"forgotten", number_or_null(one.forgotten())}});
  }
  return {{"stages", forgetting.stages}, {"sets", sets}};
}

}  // namespace snug
