// What the same run would take under transformers and PEFT: what autograd keeps of each layer, the logits and
// their copies, weights, states and the context, counted from the model's shape. An estimate, unlike a plan:
// within 7% of what the driver counted on fifteen runs (tests/explain/python_stack_test.cc).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/model_spec.h"
#include "plan/plan.h"
#include "recipe/recipe.h"

namespace snug {

struct PythonStack {
  bool checkpointing = false;
  bool liger = false;         // Liger's fused kernels; not for models with an encoder
  bool fp32_weights = false;  // from_pretrained without a dtype, and mixed precision

  std::string name() const;
};

struct PythonStackUse {
  PythonStack stack;
  int64_t weights = 0;
  int64_t states = 0;       // adapters, and the optimizer's moments
  int64_t gradients = 0;    // of what is trained, at the peak
  int64_t activations = 0;  // that autograd keeps, and what is recomputed of one layer
  int64_t loss = 0;         // logits and their copies
  int64_t overhead = 0;  // the context, the libraries' own memory, and blocks that the allocator cannot use

  int64_t peak() const { return weights + states + gradients + activations + loss + overhead; }
};

// `plan` is snug's own of the recipe: it knows how many parameters there are.
PythonStackUse python_stack_use(const Recipe& recipe, const ModelSpec& spec, const Plan& plan,
                                const PythonStack& stack);

// Those that people use, for this recipe.
std::vector<PythonStackUse> usual_python_stacks(const Recipe& recipe, const ModelSpec& spec,
                                                const Plan& plan);

}  // namespace snug
