// Looking for it, and saying what it changes.
#include "train/other_split.h"

#include <fmt/format.h>

#include "base/bytes.h"
#include "fit/choice.h"
#include "fit/recompute_search.h"

namespace snug {

std::optional<OtherSplit> find_other_split(const Recipe& recipe, const ModelSpec& spec, const Device& device,
                                           const LimitsOf& limits) {
  Recipe open = recipe;
  open.memory.recompute.clear();
  FittedRecipe fitted = choose_plan(open, spec, device, limits);
  // Recomputed is computed again, by the same ops on the same numbers; another cut adds in another order.
  bool same_sums =
      fitted.plan.fits() && fitted.recipe.memory.loss_chunk_tokens == recipe.memory.loss_chunk_tokens;
  if (!fitted.plan.fits()) {
    open.memory.micro_batch_tokens.reset();
    open.training.per_device_eval_batch_size.reset();
    open.memory.loss_chunk_tokens = 0;
    fitted = choose_plan(open, spec, device, limits);
  }
  if (!fitted.plan.fits()) {
    return std::nullopt;
  }
  OtherSplit other{.recipe = std::move(fitted.recipe), .plan = std::move(fitted.plan), .warning = ""};
  other.warning = fmt::format(
      "the plan of the checkpoint does not fit here, so the run goes on with {} tokens at once, {}: {}",
      format_count(micro_batch_tokens(other.recipe)), describe_recompute(other.recipe, other.plan),
      same_sums
          ? "its bits are those of a run that never stopped"
          : "the experiment is the same, but its bits will differ from those of a run that never stopped");
  return other;
}

}  // namespace snug
