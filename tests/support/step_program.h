// What ends a step, alone: the scale of the loss and the clock.
#pragma once

#include "program/builder.h"

namespace snug {

// With `rows` learning rates and as many rows of history.
inline Program step_program(int64_t rows, const StepAttributes& attributes) {
  Builder builder("step");
  BufferId rates = builder.input("rates", DType::f64, {fixed(rows)});
  BufferId norm = builder.input("norm", DType::f32, {fixed(1)});
  BufferId share = builder.input("share", DType::f32, {fixed(1)});
  BufferId clock = builder.persistent("clock", DType::i64, {fixed(4)}, Role::optimizer_states);
  BufferId scalars = builder.temporary("scalars", DType::f32, {fixed(4)});
  BufferId loss_sum = builder.persistent("loss_sum", DType::f64, {fixed(1)}, Role::batch);
  BufferId history = builder.persistent("history", DType::f64, {fixed(rows), fixed(3)}, Role::batch);
  BufferId scale = builder.temporary("scale", DType::f32, {fixed(1)});
  builder.append(OpKind::scale_loss, "scale", {share, clock}, {scale});
  builder.append(OpKind::close_step, "close", {rates, norm}, {clock, scalars, loss_sum, history}, attributes);
  return builder.finish();
}

}  // namespace snug
