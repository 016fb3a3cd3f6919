// Tables of the plan.
#include "report/plan_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/bytes.h"
#include "compile/coded_weights.h"
#include "compile/phases.h"
#include "fit/recompute_search.h"
#include "plan/training.h"
#include "recipe/choices.h"
#include "recipe/effective_batch.h"
#include "report/layout.h"

namespace snug {
namespace {

constexpr size_t kShownBuffers = 5;
constexpr std::string_view kContinued = " \\";  // as shells have it

std::string cell(int64_t bytes) {
  return bytes == 0 ? "·" : format_bytes(bytes);
}

std::string tokens_of(const BatchLimits& batch) {
  return batch.source_tokens > 0
             ? fmt::format("{} + {}", format_count(batch.source_tokens), format_count(batch.tokens))
             : format_count(batch.tokens);
}

// How a step goes through the model.
std::string batch_line(const Plan& plan, const Recipe& recipe, const ModelSpec& spec, const Style& style) {
  std::string length = fmt::format("{}", recipe.data.max_length);
  if (spec.has_encoder()) {
    length += fmt::format(" + {}", decoder_length(recipe, spec.has_encoder()));
  }
  std::string cut = fmt::format("{} micro-batch{} of up to {} tokens",
                                plan.step.most > 1 ? "at most " + format_count(plan.step.most) : "one",
                                plan.step.most > 1 ? "es" : "", tokens_of(planned_batch(plan, kTrainPhase)));
  if (plan.step.expected && plan.step.most > 1) {
    cut += fmt::format(", {:.1f} on average with this data", *plan.step.expected);
  }
  std::string evaluation =
      plan.evaluated_sequences
          ? fmt::format("; to evaluate, {} at a time", tokens_of(planned_batch(plan, kEvaluatePhase)))
          : "";
  return fmt::format("  {}  {} {} of up to {} tokens a step, in {}{}\n", style.dim("batch "),
                     format_count(effective_batch(recipe.training)),
                     recipe.data.packing ? "packs" : "sequences", length, cut, evaluation);
}

std::string model_lines(const Plan& plan, const Recipe& recipe, const ModelSpec& spec, const Style& style) {
  double share = 100.0 * static_cast<double>(plan.trainable_parameters) /
                 static_cast<double>(plan.parameters + (recipe.lora ? plan.trainable_parameters : 0));
  std::string method =
      recipe.lora ? fmt::format("LoRA r={}, alpha={:g}, on {}", recipe.lora->r, recipe.lora->lora_alpha,
                                fmt::join(recipe.lora->target_modules, ", "))
                  : "full fine-tuning";
  Format format = weight_format(recipe.model, spec);
  std::string_view coded_layers = format.coding == Coding::fp8 ? "MLPs but the last" : "linear layers";
  std::string codes = format.is_coded() ? fmt::format(", {} in {}", coded_layers, name_of(format)) : "";
  std::string text;
  text += fmt::format("  {}  {} ({}), {} parameters, {}{}\n", style.dim("model "), recipe.model.path,
                      spec.family, format_count(plan.parameters), name_of(run_dtype(recipe, spec)), codes);
  text += fmt::format("  {}  {}: {} parameters ({:.2f}%)\n", style.dim("trains"), method,
                      format_count(plan.trainable_parameters), share);
  if (std::string dropout = describe(run_dropout(recipe, spec)); !dropout.empty()) {
    text += fmt::format("  {}  {}\n", style.dim("drops "), dropout);
  }
  return text + batch_line(plan, recipe, spec, style);
}

Table role_table(const Plan& plan) {
  Table table;
  table.header = {"memory on " + plan.backend};
  for (const PhasePlan& phase : plan.phases) {
    table.header.push_back(phase.name());
  }
  auto add_row = [&](std::string_view name, auto bytes_of) {
    std::vector<std::string> row = {std::string(name)};
    bool any = false;
    for (const PhasePlan& phase : plan.phases) {
      int64_t bytes = bytes_of(phase);
      any = any || bytes > 0;
      row.push_back(cell(bytes));
    }
    if (any) {
      table.rows.push_back(std::move(row));
    }
  };
  for (size_t role = 0; role < kRoleCount; ++role) {
    add_row(name_of(static_cast<Role>(role)), [&](const PhasePlan& phase) {
      return phase.role_bytes[role] +
             (static_cast<Role>(role) == Role::driver_context ? plan.context_bytes : int64_t{0});
    });
  }
  add_row("placement loss", [](const PhasePlan& phase) { return phase.placement_loss_bytes; });
  table.rules_before = {table.rows.size()};
  add_row("peak", [&](const PhasePlan& phase) { return phase.device().peak_bytes + plan.context_bytes; });
  return table;
}

std::string peak_lines(const Plan& plan, const Style& style) {
  const PhasePlan& phase = plan.largest_phase();
  std::string where = phase.peak_op.empty() ? "" : fmt::format(" at {}", phase.peak_op);
  std::string text =
      fmt::format("  {} {} ({} bytes), in {}{}\n", style.bold("peak"), format_bytes(plan.peak_bytes()),
                  format_count(plan.peak_bytes()), phase.name(), where);
  size_t shown = std::min(phase.live_at_peak.size(), kShownBuffers);
  for (size_t i = 0; i < shown; ++i) {
    const Buffer& buffer = phase.program.buffer(phase.live_at_peak[i]);
    text += style.dim(fmt::format("       {} {} ({})", pad_left(format_bytes(buffer.max_bytes()), 10),
                                  buffer.name, name_of(buffer.role))) +
            "\n";
  }
  return text;
}

// What is typed behind the command; where it takes several lines, they can be pasted together.
std::string settings_text(const std::vector<std::string>& settings, size_t indent, const Style& style) {
  std::string text;
  size_t used = indent;
  for (size_t i = 0; i < settings.size(); ++i) {
    std::string one = "--set " + settings[i];
    size_t behind = i + 1 < settings.size() ? kContinued.size() : 0;
    if (i > 0 && used + 1 + one.size() + behind > style.columns()) {
      text += fmt::format("{}\n{}", kContinued, std::string(indent, ' '));
      used = indent;
    } else if (i > 0) {
      text += " ";
      ++used;
    }
    text += style.accent(one);
    used += one.size();
  }
  return text;
}

std::string alternative_line(const Alternative& alternative, const Style& style) {
  constexpr size_t kNarrowIndent = 6;
  std::string peak = fmt::format("    {}  ", pad_left(format_bytes(alternative.peak_bytes), 10));
  size_t longest = 0;
  for (const std::string& setting : alternative.settings) {
    longest = std::max(longest, fmt::formatted_size("--set {}{}", setting, kContinued));
  }
  if (peak.size() + longest <= style.columns()) {
    return peak + settings_text(alternative.settings, peak.size(), style) + "\n";
  }
  return fmt::format("{}\n{}{}\n", peak, std::string(kNarrowIndent, ' '),
                     settings_text(alternative.settings, kNarrowIndent, style));
}

std::string time_text(const std::optional<double>& slower) {
  if (!slower) {
    return "";
  }
  double percent = 100 * std::abs(*slower);
  return percent < 0.5 ? "; a step takes as long"
                       : fmt::format("; a step takes {:.0f}% {}", percent, *slower < 0 ? "less" : "longer");
}

// Those that say what is computed otherwise.
std::string changed_alternatives(std::string_view heading, const std::vector<Alternative>& alternatives,
                                 const Style& style) {
  std::string text = alternatives.empty() ? "" : fmt::format("  {}\n", heading);
  for (const Alternative& alternative : alternatives) {
    text += alternative_line(alternative, style);
    text += style.dim(fmt::format("                {}{}", fmt::join(alternative.changes, "; "),
                                  time_text(alternative.slower))) +
            "\n";
  }
  return text;
}

// What the experiment cannot do without, and where that is.
std::string least_line(const Plan& plan, const Alternatives& alternatives) {
  std::string text =
      fmt::format("  As it is, the experiment takes {} at least", format_bytes(alternatives.least_bytes));
  if (alternatives.card != nullptr) {
    text += fmt::format(": the smallest card of the catalogue that has it is the {} ({})",
                        alternatives.card->name, format_bytes(alternatives.card->memory_bytes));
  } else if (plan.context_bytes > 0) {
    text += ", more than any card of the catalogue has";
  }
  return text + ".\n";
}

// Who waits while a checkpoint is written.
std::string waiting_text(const Saving& saving) {
  std::string bytes = format_bytes(saving.snapshot_bytes);
  if (saving.training_waits()) {
    return fmt::format(
        "training waits meanwhile: a copy of the state needs {} of host memory, and {} are left", bytes,
        format_bytes(std::max<int64_t>(*saving.host_bytes_left, 0)));
  }
  return saving.host_bytes_left
             ? fmt::format("training goes on meanwhile, with a copy of the state in {} of host memory", bytes)
             : fmt::format("training goes on meanwhile if {} of host memory are free for a copy of the state",
                           bytes);
}

std::string saving_lines(const Saving& saving, const Style& style) {
  std::string seconds = saving.seconds() < 1 ? "less than a second" : format_duration(saving.seconds());
  std::string time =
      fmt::format("at {:.0f} MB/s (assumed) one takes {}", Saving::kAssumedDiskBytesPerSecond / 1e6, seconds);
  std::string bytes = format_bytes(saving.checkpoint_bytes);
  if (!saving.while_training) {
    return fmt::format("  {} no checkpoint, unless it is stopped: {}; {}\n", style.bold("saves"), bytes,
                       time);
  }
  return fmt::format("  {} {} a checkpoint, up to {} on the disk ({}); {}\n        {}\n", style.bold("saves"),
                     bytes, saving.checkpoints, format_bytes(saving.disk_bytes()), time,
                     waiting_text(saving));
}

}  // namespace

std::string limit_line(const Plan& plan, const Style& style) {
  if (!plan.limit_bytes) {
    return fmt::format("  {} not known: --memory 24GB, or memory.limit, says what the card has\n",
                       style.bold("limit"));
  }
  int64_t headroom = *plan.limit_bytes - plan.peak_bytes();
  std::string verdict =
      plan.fits() ? style.good("fits") + fmt::format(", {} to spare", format_bytes(headroom))
                  : style.bad("does not fit") + fmt::format(", {} too much", format_bytes(-headroom));
  return fmt::format("  {} {}: {}\n", style.bold("limit"), format_bytes(*plan.limit_bytes), verdict);
}

std::string plan_report(const Plan& plan, const Recipe& recipe, const ModelSpec& spec,
                        const std::string& device, const Style& style) {
  std::string warning = positions_warning(recipe, spec);
  std::string text = fmt::format("  {}  {}\n", style.dim("device"), device) +
                     model_lines(plan, recipe, spec, style) + "\n" + role_table(plan).to_text(style) + "\n" +
                     peak_lines(plan, style) + limit_line(plan, style) +
                     (plan.saving && plan.fits() ? saving_lines(*plan.saving, style) : "") +
                     (warning.empty() ? "" : fmt::format("  {} {}\n", style.bad("!"), warning));
  return fit_lines(text, style);
}

std::string choice_report(const FittedRecipe& fitted, const Style& style) {
  if (!fitted.is_chosen || !fitted.plan.fits()) {
    return "";
  }
  const MemorySection& memory = fitted.recipe.memory;
  std::string text = fmt::format("  {}  up to {} tokens at once, {}", style.dim("chosen"),
                                 tokens_of(planned_batch(fitted.plan, kTrainPhase)),
                                 describe_recompute(fitted.recipe, fitted.plan));
  if (memory.loss_chunk_tokens > 0) {
    text += fmt::format(", {} rows of logits at once", memory.loss_chunk_tokens);
  }
  bool keeps_all = fitted.is_recompute_chosen || memory.recompute == std::vector{Recompute::none};
  if (!keeps_all) {
    text += ", as memory.recompute says";
  }
  if (fitted.plan.peak_bytes() == fitted.kept_peak_bytes) {
    std::string_view room = keeps_all ? ": there is room for everything" : ": there is room for so many";
    text += fmt::format("{}\n", fitted.plan.limit_bytes ? room : "");
  } else {
    text += fmt::format(": {} would take {}; a step takes about {:.0f}% longer\n",
                        keeps_all ? "keeping everything" : "larger micro-batches",
                        format_bytes(fitted.kept_peak_bytes), 100 * fitted.slower);
  }
  return fit_lines(text, style);
}

std::string speed_report(const SpeedEstimate& estimate, const RatesOrigin& origin, const Style& style) {
  if (!estimate.known()) {
    return "";
  }
  std::string text = fmt::format(
      "  {}  about {} tok/s expected where batches are full, {:.0f}% of this card's ceiling for these "
      "products ({}){}\n",
      style.dim("speed "), format_count(static_cast<int64_t>(estimate.tokens_per_second())),
      100 * estimate.share_of_ceiling(),
      format_count(static_cast<int64_t>(estimate.ceiling_tokens_per_second())),
      origin.text.empty() ? "" : "; rates " + origin.text);
  return fit_lines(text, style);
}

std::string does_not_fit_report(const Plan& plan, const Alternatives& alternatives, const Style& style) {
  int64_t limit_bytes = plan.limit_bytes.value();
  std::string text = fmt::format(
      "\n  {} The plan needs {} ({} bytes) and the limit is {}: {} bytes too much.\n",
      style.bad("It does not fit."), format_bytes(plan.peak_bytes()), format_count(plan.peak_bytes()),
      format_bytes(limit_bytes), format_count(plan.peak_bytes() - limit_bytes));
  if (alternatives.same.empty()) {
    int64_t fixed_bytes = 0;
    for (Role role :
         {Role::base_weights, Role::weight_scales, Role::weight_maps, Role::adapters, Role::frozen_adapters,
          Role::master_bits, Role::gradients, Role::optimizer_states, Role::state_scales, Role::state_maps}) {
      fixed_bytes += plan.largest_phase().role_bytes[static_cast<size_t>(role)];
    }
    text +=
        fmt::format("  No micro-batch and no recomputation makes it fit: {} alone take {}.\n",
                    plan.context_bytes > 0 ? "the driver's context, weights, gradients and optimizer states"
                                           : "weights, gradients and optimizer states",
                    format_bytes(fixed_bytes + plan.context_bytes));
  } else {
    text += "  The same experiment fits with:\n";
  }
  for (const Alternative& alternative : alternatives.same) {
    text += alternative_line(alternative, style);
  }
  text += changed_alternatives("With other numerics, if you choose so, it fits with:", alternatives.opt_in,
                               style);
  text += changed_alternatives("As another experiment, it fits with:", alternatives.experiment, style);
  if (alternatives.same.empty()) {
    text += least_line(plan, alternatives);
  }
  return fit_lines(text, style);
}

}  // namespace snug
