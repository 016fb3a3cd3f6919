// Which parameters decay: what Hugging Face's Trainer says of every tiny model
// (tools/make_curve_references.py).
#include <gtest/gtest.h>

#include <set>

#include "compile/phases.h"
#include "model/locate.h"
#include "support/reference_case.h"

namespace snug {
namespace {

// The file's names of the parameters that adamw does not decay.
std::set<std::string> not_decayed(const std::vector<Program>& programs) {
  const Program* update = nullptr;
  const Program* train = nullptr;
  for (const Program& program : programs) {
    update = program.name == kUpdatePhase ? &program : update;
    train = program.name == kTrainPhase ? &program : train;
  }
  std::set<std::string> names;
  for (const Op& op : update->ops) {
    if (op.kind != OpKind::adamw) {
      continue;
    }
    const auto& decay = attributes_of<AdamwAttributes>(op).weight_decay;
    for (size_t i = 0; i < decay.size(); ++i) {
      const Buffer& parameter = train->buffer(train->find(update->buffer(op.outputs[i]).name));
      for (const TensorPart& part : parameter.parts) {
        if (decay[i] == 0) {
          names.insert(part.names.front());
        }
      }
    }
  }
  return names;
}

TEST(WeightDecay, LeavesOutWhatTrainerLeavesOut) {
  Json reference = read_json(reference_folder("not_decayed.json"));
  ASSERT_EQ(reference.size(), reference_cases_with("config.json").size());
  for (const auto& [name, wanted] : reference.items()) {
    Recipe recipe = reference_recipe(reference_folder(name));
    recipe.training.weight_decay = 0.01;
    ModelSpec spec = locate_model(recipe.model.path).spec;
    EXPECT_EQ(not_decayed(compile_training(recipe, spec, recipe_limits(recipe, spec))),
              wanted.get<std::set<std::string>>())
        << name;
  }
}

}  // namespace
}  // namespace snug
