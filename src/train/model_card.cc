// The model card, with the settings of transformers' BitsAndBytesConfig where the base was quantised.
#include "train/model_card.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/bytes.h"
#include "compile/coded_weights.h"
#include "compile/phases.h"
#include "io/json.h"
#include "recipe/keys.h"
#include "recipe/write.h"
#include "train/curve_svg.h"

namespace snug {
namespace {

std::string compute_dtype(DType dtype) {
  return dtype == DType::bf16 ? "bfloat16" : dtype == DType::f16 ? "float16" : "float32";
}

Json bitsandbytes_settings(const Format& format, DType dtype) {
  bool four = format.coding != Coding::int8;
  Json settings = {{"quant_method", "bitsandbytes"}, {"load_in_4bit", four}, {"load_in_8bit", !four}};
  if (four) {
    settings["bnb_4bit_quant_type"] = format.coding == Coding::nf4 ? "nf4" : "fp4";
    settings["bnb_4bit_use_double_quant"] = format.nested;
    settings["bnb_4bit_compute_dtype"] = compute_dtype(dtype);
  }
  return settings;
}

// As JSON quotes it, which YAML and Python read too.
std::string quoted(const std::string& text) {
  return Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
}

// Somebody's words as words: no markup, no line that begins something else.
std::string plain(std::string_view text) {
  std::string escaped;
  for (char c : text) {
    bool is_control = static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
    if (std::string_view("\\`*_{}[]<>#!|~&$").find(c) != std::string_view::npos) {
      escaped += '\\';
    }
    escaped += is_control ? ' ' : c;
  }
  return escaped;
}

std::string shell_quoted(const std::string& text) {
  std::string quoted_text = "'";
  for (char c : text) {
    quoted_text += c == '\'' ? "'\\''" : std::string(1, c);
  }
  return quoted_text + "'";
}

// Lines of code, whatever they hold.
std::string code_block(std::string_view language, const std::string& code) {
  std::string fence = "```";
  while (code.find(fence) != std::string::npos) {
    fence += '`';
  }
  return fmt::format("{}{}\n{}\n{}\n", fence, language, code, fence);
}

std::string header(const Recipe& recipe) {
  return fmt::format("---\nbase_model: {}\nlibrary_name: {}\n---\n\n", quoted(recipe.model.path),
                     recipe.lora ? "peft" : "transformers");
}

std::string base_section(const Recipe& recipe, const ModelSpec& spec) {
  Format format = weight_format(recipe.model, spec);
  if (!format.is_coded()) {
    return "";
  }
  if (format.coding == Coding::fp8) {
    return "## Base model\n\nThe adapter was trained on MLPs, but the last layer's, in 8-bit floating-point "
           "numbers (weights and activations E4M3, gradients E5M2, a scale a row); load the base as it is.\n";
  }
  std::string text =
      "## Base model\n\nThe adapter was trained on linear layers in bitsandbytes' formats:\n\n";
  Json settings = bitsandbytes_settings(format, run_dtype(recipe, spec));
  for (const auto& [key, value] : settings.items()) {
    text += fmt::format("- {}: {}\n", key, value.is_string() ? value.get<std::string>() : value.dump());
  }
  text += spec.stored_codes
              ? "\nThe base's own files are so; transformers loads them as they are.\n"
              : "\nGive them to transformers' BitsAndBytesConfig to load the base in the same way.\n";
  if (format.coding == Coding::int8) {
    text += "Activations were not quantised in training.\n";
  }
  return text;
}

// A model of the hub by its name, a folder by its last part.
std::string base_name(const Recipe& recipe) {
  std::filesystem::path path = recipe.model.path;
  return path.is_absolute() ? path.filename().string() : recipe.model.path;
}

std::string introduction(const CardFacts& facts) {
  const Recipe& recipe = facts.recipe;
  std::string what =
      recipe.lora ? fmt::format("A LoRA adapter of rank {} for {}", recipe.lora->r, plain(base_name(recipe)))
      : recipe.model.from_scratch
          ? fmt::format("A model of the shape of {}", plain(base_name(recipe)))
          : fmt::format("{} with all weights trained further", plain(base_name(recipe)));
  std::string text =
      fmt::format("# {}\n\n{}, made by snug {}.\n\n", plain(facts.name), what, facts.origin.version);
  return facts.has_curve ? text + fmt::format("![loss by step]({})\n\n", kCurveFile) : text;
}

std::string row(std::string_view name, const std::string& value) {
  return fmt::format("| {} | {} |\n", name, value);
}

std::string figures(const CardFacts& facts) {
  const TrainSummary& summary = facts.summary;
  std::string text = "## Figures\n\n| | |\n|---|---|\n";
  text +=
      row("steps", fmt::format("{} of {}", format_count(summary.steps), format_count(summary.total_steps)));
  text += row("tokens", format_count(summary.tokens));
  text += row("training loss", fmt::format("{:.4f} → {:.4f}", summary.first_loss, summary.last_loss));
  if (!summary.evaluations.empty()) {
    const EvaluationMetrics& last = summary.evaluations.back();
    text += row("evaluation loss", fmt::format("{:.4f} over {} targets, {:.1f}% right", last.loss,
                                               format_count(last.targets), 100 * last.token_accuracy()));
    for (const SetMetrics& set : last.sets) {
      text += row("evaluation loss, " + plain(set.name), fmt::format("{:.4f}", set.loss));
    }
  }
  text += row("trained parameters", fmt::format("{} {} {}", format_count(facts.plan.trainable_parameters),
                                                facts.recipe.lora ? "beside the model's" : "of",
                                                format_count(facts.plan.parameters)));
  text += row("memory", fmt::format("{} planned, {} used", format_bytes(summary.planned_bytes),
                                    format_bytes(summary.peak_used_bytes)));
  std::string model_of_device = facts.origin.model_of_device;
  text += row("device", plain(model_of_device.empty() ? facts.origin.device : model_of_device));
  return text + "\n";
}

// Paths say where things lay on one machine; their names are enough.
Json without_folders(const Json& value) {
  if (value.is_string()) {
    std::filesystem::path path = value.get<std::string>();
    return path.is_absolute() ? Json(path.filename().string()) : value;
  }
  Json found = value;
  if (value.is_structured()) {
    for (auto& [key, inner] : found.items()) {
      inner = without_folders(inner);
    }
  }
  return found;
}

// What is not the default, but for where and how the run was logged.
std::string settings(const Recipe& recipe) {
  Recipe usual;
  if (recipe.lora) {
    usual.lora.emplace();
  }
  std::string text =
      "## Recipe\n\nWhat differs from the defaults; `recipe.yml` has every key.\n\n| key | value "
      "|\n|---|---|\n";
  for (const RecipeKey& key : recipe_keys()) {
    const RecipeSection* section = find_recipe_section(key.section());
    bool is_absent = section != nullptr && section->is_present != nullptr && !section->is_present(recipe);
    bool is_beside = key.name == "output_dir" || key.name == "data.cache_dir" || key.section() == "logging";
    if (!is_absent && !is_beside && key.print(recipe) != key.print(usual)) {
      text += row(plain(key.name), plain(yaml_value(without_folders(key.print(recipe)))));
    }
  }
  return text + "\n";
}

std::string data(const RunOrigin& origin) {
  std::string text = "## Data\n\nFingerprints of what was learned from, as tokens:\n\n| | |\n|---|---|\n";
  text += row("training", "`" + origin.identity.train_data + "`");
  if (!origin.identity.eval_data.empty()) {
    text += row("evaluation", "`" + origin.identity.eval_data + "`");
  }
  return text + row("base model", "`" + origin.identity.model + "`") + "\n";
}

std::string loading(const CardFacts& facts) {
  const Recipe& recipe = facts.recipe;
  std::string kind = facts.spec.has_encoder() ? "AutoModelForSeq2SeqLM" : "AutoModelForCausalLM";
  std::string text = "## Loading it\n\n";
  if (recipe.lora) {
    text +=
        code_block("python", fmt::format("from peft import PeftModel\n"
                                         "from transformers import AutoTokenizer, {0}\n\n"
                                         "base = {1}\n"
                                         "model = PeftModel.from_pretrained({0}.from_pretrained(base), {2})\n"
                                         "tokenizer = AutoTokenizer.from_pretrained(base)",
                                         kind, quoted(recipe.model.path), quoted(facts.name)));
    return text + "\n" +
           code_block("sh", fmt::format("snug generate {} --adapter {} --prompt '...'",
                                        shell_quoted(recipe.model.path), shell_quoted(facts.name)));
  }
  text += code_block("python", fmt::format("from transformers import AutoTokenizer, {0}\n\n"
                                           "model = {0}.from_pretrained({1})\n"
                                           "tokenizer = AutoTokenizer.from_pretrained({1})",
                                           kind, quoted(facts.name)));
  return text + "\n" +
         code_block("sh", fmt::format("snug generate {} --prompt '...'", shell_quoted(facts.name)));
}

}  // namespace

std::string base_card(const Recipe& recipe, const ModelSpec& spec) {
  std::string section = base_section(recipe, spec);
  return section.empty() ? "" : header(recipe) + section;
}

std::string model_card(const CardFacts& facts) {
  std::string base = base_section(facts.recipe, facts.spec);
  return header(facts.recipe) + introduction(facts) + figures(facts) + settings(facts.recipe) +
         data(facts.origin) + (base.empty() ? "" : base + "\n") + loading(facts);
}

}  // namespace snug
