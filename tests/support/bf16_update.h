// An update with bf16 moments, for tests on the CPU and on the card.
#pragma once

#include <string>
#include <vector>

#include "program/builder.h"
#include "support/split_values.h"
#include "support/values.h"

namespace snug {

inline constexpr double kUpdateBeta1 = 0.875;  // exact in fp32, so that a reference in double means the same
inline constexpr double kUpdateBeta2 = 0.9375;
inline constexpr double kUpdateEpsilon = 1e-8;

// One op on tensors of these sizes: gradients g0, g1, ..., parameters p0, ..., moments m0, ... and v0, ...
// A copy dtype other than fp32 adds compute copies c0, ...; int16 their rests in place of those.
inline Program bf16_update_program(const std::vector<int64_t>& sizes, DType parameters,
                                   DType copies = DType::f32, DType moments = DType::bf16) {
  Builder builder("update");
  std::vector<BufferId> inputs;
  std::vector<BufferId> outputs;
  AdamwAttributes attributes{.beta1 = kUpdateBeta1,
                             .beta2 = kUpdateBeta2,
                             .epsilon = static_cast<float>(kUpdateEpsilon),
                             .weight_decay = std::vector<float>(sizes.size(), 0.125F),
                             .beside = beside_of(copies)};
  auto add = [&](const char* stem, DType dtype, std::vector<BufferId>& list) {
    for (size_t i = 0; i < sizes.size(); ++i) {
      list.push_back(
          builder.persistent(stem + std::to_string(i), dtype, {fixed(sizes[i])}, Role::optimizer_states));
    }
  };
  add("g", DType::f32, inputs);
  add("p", parameters, outputs);
  add("m", moments, outputs);
  add("v", moments, outputs);
  if (attributes.beside != Beside::nothing) {
    add("c", copies, outputs);
  }
  inputs.push_back(builder.input("scalars", DType::f32, {fixed(4)}));
  inputs.push_back(builder.input("norm", DType::f32, {fixed(1)}));
  inputs.push_back(builder.input("random", DType::i64, {fixed(2)}));
  builder.append(OpKind::adamw, "adamw", inputs, outputs, attributes);
  return builder.finish();
}

// `Runner` has set(name, floats) and set_ints(name, integers).
template <typename Runner>
void fill_bf16_update(Runner& runner, const std::vector<int64_t>& sizes) {
  for (size_t i = 0; i < sizes.size(); ++i) {
    std::string name = std::to_string(i);
    runner.set("g" + name, random_values(sizes[i], 10 * i + 1));
    runner.set("p" + name, random_values(sizes[i], 10 * i + 2));
    runner.set("m" + name, random_values(sizes[i], 10 * i + 3, 0.1F));
    std::vector<float> squares = random_values(sizes[i], 10 * i + 4);
    for (float& value : squares) {
      value *= value;
    }
    runner.set("v" + name, squares);
  }
  runner.set("scalars", {0.01F, 0.5F, 0.25F, 1.0F});
  runner.set("norm", {1.0F});
  runner.set_ints("random", {42, 17});
}

}  // namespace snug
