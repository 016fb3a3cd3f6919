// Writing a first recipe.
#include "report/first_recipe.h"

#include <fmt/format.h>

#include "base/bytes.h"
#include "io/json.h"
#include "recipe/write.h"
#include "report/layout.h"

namespace snug {
namespace {

constexpr size_t kCommentColumns = 96;

std::string comment(const std::string& text) {
  std::string lines;
  std::string broken = broken_lines(text, kCommentColumns);
  for (size_t begin = 0; begin < broken.size();) {
    size_t end = std::min(broken.find('\n', begin), broken.size());
    lines += fmt::format("# {}\n", broken.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

std::string text_value(const std::string& text) {
  return yaml_value(Json(text));
}

}  // namespace

std::string first_recipe_text(const FirstRecipe& recipe, const std::string& fitting) {
  bool with_adapters = recipe.method != Method::full;
  std::string text = comment("A first recipe, by snug init. Every key: docs/recipe.md, or snug docs recipe.");
  text += comment(fitting);
  text += fmt::format("model:\n  path: {}\n  dtype: {}\n", text_value(recipe.model), recipe.dtype);
  if (recipe.method == Method::qlora) {
    text +=
        "  quantization: nf4_double   # the model's linear layers in 4 bits; adapters are trained beside "
        "them\n";
  }
  if (with_adapters) {
    text +=
        "\nlora:                        # without this section all weights are trained\n"
        "  r: 16\n  lora_alpha: 32\n  lora_dropout: 0.05\n  target_modules: all-linear\n";
  }
  text += fmt::format("\ndata:\n  train_file: {}\n", text_value(recipe.data));
  if (recipe.has_evaluation) {
    text += "  eval_split: 0.05           # this share of the rows is kept to evaluate with\n";
  }
  text += fmt::format("  max_length: {}  # {}\n", recipe.max_length, recipe.length_reason);
  text += fmt::format(
      "\ntraining:\n  num_train_epochs: 3\n  effective_batch_size: 16   # sequences a step; how many go "
      "through the model "
      "at once follows from the memory\n  learning_rate: {}\n  lr_scheduler_type: cosine\n  warmup_ratio: "
      "0.03\n",
      with_adapters ? "2e-4" : "2e-5");
  if (recipe.limit_bytes) {
    text += fmt::format("\nmemory:\n  limit: {}MiB          # {}\n", *recipe.limit_bytes >> 20, recipe.card);
  }
  return text + fmt::format("\noutput_dir: {}\n", text_value(recipe.output_dir));
}

}  // namespace snug
