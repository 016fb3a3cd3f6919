// Where a model's dropout is in its programs: in training, at the rate in force, and nowhere else.
#include <gtest/gtest.h>

#include <algorithm>

#include "compile/phases.h"
#include "model/catalogue.h"
#include "ops/table.h"
#include "support/small_llama.h"

namespace snug {
namespace {

ModelSpec spec_of(const char* hub_id) {
  return parse_model_config(catalogue_config(hub_id)->dump(), hub_id);
}

Program compiled(const char* hub_id, const char* phase, std::optional<double> dropout) {
  Recipe recipe = small_recipe();
  recipe.model.dropout = dropout;
  ModelSpec spec = spec_of(hub_id);
  for (Program& program : compile_training(recipe, spec, recipe_limits(recipe, spec))) {
    if (program.name == phase) {
      return std::move(program);
    }
  }
  return {};
}

struct Places {
  int64_t elementwise = 0;  // ops of their own
  int64_t attention = 0;    // within attention

  bool operator==(const Places&) const = default;
};

Places forward_places(const Program& program) {
  Places places;
  for (const Op& op : program.ops) {
    if (op.kind == OpKind::dropout && !op.is_backward) {
      ++places.elementwise;
    }
    if (op.kind == OpKind::attention && attributes_of<AttentionAttributes>(op).dropout.probability > 0) {
      ++places.attention;
    }
  }
  return places;
}

TEST(ModelDropout, IsWhereTheFamilyHasIt) {
  // Two residuals and the MLP in each of 8 encoder layers, three and the MLP in each of 8 decoder layers, the
  // embeddings and the ends of both stacks.
  EXPECT_EQ(forward_places(compiled("google/flan-t5-small", kTrainPhase, std::nullopt)),
            (Places{8 * 3 + 8 * 4 + 4, 8 + 2 * 8}));
  EXPECT_EQ(forward_places(compiled("Qwen/Qwen3-0.6B", kTrainPhase, 0.1)), (Places{0, 28}));
  EXPECT_EQ(forward_places(compiled("microsoft/Phi-3-mini-4k-instruct", kTrainPhase, 0.1)),
            (Places{2 * 32, 32}));
}

TEST(ModelDropout, NoTwoPlacesShareAMask) {
  Program program = compiled("google/flan-t5-small", kTrainPhase, 0.1);
  std::vector<uint64_t> streams;
  for (const Op& op : program.ops) {
    if (op.is_backward) {
      continue;
    }
    if (op.kind == OpKind::dropout) {
      streams.push_back(attributes_of<DropoutAttributes>(op).stream);
    } else if (op.kind == OpKind::attention) {
      streams.push_back(attributes_of<AttentionAttributes>(op).dropout.stream);
    }
  }
  std::sort(streams.begin(), streams.end());
  EXPECT_EQ(std::adjacent_find(streams.begin(), streams.end()), streams.end());
  EXPECT_EQ(streams.size(), 84U);
}

TEST(ModelDropout, ARateOfZeroLeavesNoTrace) {
  for (const char* hub_id : {"google/flan-t5-small", "microsoft/Phi-3-mini-4k-instruct"}) {
    Program program = compiled(hub_id, kTrainPhase, 0);
    EXPECT_EQ(forward_places(program), (Places{0, 0}));
    EXPECT_EQ(to_text(program).find("random"), std::string::npos);
  }
}

TEST(ModelDropout, EvaluationAndGenerationHaveNone) {
  const char* hub_id = "google/flan-t5-small";
  EXPECT_EQ(to_text(compiled(hub_id, kEvaluatePhase, 0.5)), to_text(compiled(hub_id, kEvaluatePhase, 0)));
  EXPECT_EQ(forward_places(compiled(hub_id, kEvaluatePhase, 0.5)), (Places{0, 0}));
  GenerationOptions sizes{.max_source_tokens = 9, .max_prompt_tokens = 1, .max_total_tokens = 12};
  for (const Program& program : compile_generation(spec_of(hub_id), sizes)) {
    EXPECT_EQ(forward_places(program), (Places{0, 0})) << program.name;
  }
}

}  // namespace
}  // namespace snug
