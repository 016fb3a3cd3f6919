// An update by Adafactor, for tests on the CPU and on the card.
#pragma once

#include <string>
#include <vector>

#include "program/builder.h"
#include "program/step_clock.h"
#include "support/split_values.h"
#include "support/updated_tensors.h"
#include "support/values.h"

namespace snug {

// Of the mean squares: those of rows, and of each matrix those of its columns.
inline int64_t factored_states(const UpdatedTensors& tensors) {
  return tensors.all_rows() + std::ssize(tensors.rows) * tensors.columns;
}

// Matrices of all sorts, tensors that share a buffer, vectors.
inline std::vector<UpdatedTensors> factored_shapes() {
  return {
      {37, {130, 20, 171}, 0.1F}, {0, {5, 300}, 0}, {1, {7}, 0.1F}, {640, {3}, 0}, {64, {700, 64}, 0.01F}};
}

// One op: gradients g0, g1, ..., parameters p0, ... and mean squares s0, ... A copy dtype other than fp32
// adds compute copies c0, ...; int16 their rests in place of those.
inline Program adafactor_program(const std::vector<UpdatedTensors>& shapes, DType parameters = DType::f32,
                                 DType copies = DType::f32) {
  Builder builder("update");
  std::vector<BufferId> inputs;
  std::vector<BufferId> outputs;
  AdafactorAttributes attributes{
      .max_norm = 1.0F, .weight_decay = {}, .tensors = {}, .beside = beside_of(copies)};
  for (size_t i = 0; i < shapes.size(); ++i) {
    int64_t row = 0;
    int64_t state = 0;
    for (int64_t rows : shapes[i].rows) {
      attributes.tensors.push_back({.parameter = i,
                                    .first_element = row * std::max(shapes[i].columns, int64_t{1}),
                                    .first_state = state,
                                    .rows = rows,
                                    .columns = shapes[i].columns});
      row += rows;
      state += rows + shapes[i].columns;
    }
    attributes.weight_decay.push_back(shapes[i].weight_decay);
  }
  auto add = [&](const char* stem, DType dtype, std::vector<BufferId>& list) {
    for (size_t i = 0; i < shapes.size(); ++i) {
      Dims dims = {fixed(shapes[i].all_rows())};
      if (shapes[i].columns > 0) {
        dims.push_back(fixed(shapes[i].columns));
      }
      if (stem[0] == 's') {
        dims = {fixed(factored_states(shapes[i]))};
      }
      list.push_back(builder.persistent(stem + std::to_string(i), dtype, dims, Role::optimizer_states));
    }
  };
  add("g", DType::f32, inputs);
  add("p", parameters, outputs);
  add("s", DType::f32, outputs);
  if (attributes.beside != Beside::nothing) {
    add("c", copies, outputs);
  }
  inputs.push_back(builder.input("scalars", DType::f32, {fixed(kScalarNumbers)}));
  inputs.push_back(builder.input("norm", DType::f32, {fixed(1)}));
  inputs.push_back(builder.input("clock", DType::i64, {fixed(kClockWords)}));
  inputs.push_back(builder.input("random", DType::i64, {fixed(2)}));
  builder.append(OpKind::adafactor, "adafactor", inputs, outputs, attributes);
  return builder.finish();
}

inline constexpr float kAdafactorRate = 0.01F;
inline constexpr float kAdafactorNorm = 4.0F;  // clips to a quarter

// `Runner` has set and set_ints.
template <typename Runner>
void begin_adafactor(Runner& runner, const std::vector<UpdatedTensors>& shapes) {
  for (size_t i = 0; i < shapes.size(); ++i) {
    runner.set("p" + std::to_string(i), random_values(shapes[i].elements(), i));
    runner.set("s" + std::to_string(i),
               std::vector<float>(static_cast<size_t>(factored_states(shapes[i])), 0.0F));
  }
  runner.set("norm", {kAdafactorNorm});
  runner.set("scalars", {kAdafactorRate, 1.0F, 1.0F, 1.0F});
}

// Gradients of a step; some rows and columns have smaller ones.
inline std::vector<float> factored_gradient(const UpdatedTensors& shape, size_t index, int step) {
  std::vector<float> values = random_values(shape.elements(), 1000 * static_cast<size_t>(step) + index);
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] *= i % 3 == 0 ? 0.01F : 1.0F;
  }
  return values;
}

template <typename Runner>
void run_adafactor_step(Runner& runner, const std::vector<UpdatedTensors>& shapes, int step) {
  for (size_t i = 0; i < shapes.size(); ++i) {
    runner.set("g" + std::to_string(i), factored_gradient(shapes[i], i, step));
  }
  runner.set_ints("clock", {0, 0, step, step});
  runner.set_ints("random", {42, step});
  runner.run();
}

}  // namespace snug
