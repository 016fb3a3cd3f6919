// The places of operands, for ops that have more than three on a side: op.inputs[AttentionInput::bias].
#pragma once

#include <cstddef>

#include "program/op.h"

namespace snug {

struct AttentionInput {
  enum : size_t { q, kv, q_offsets, kv_offsets, bias, random };
};
struct AttentionBackwardInput {
  enum : size_t { q, kv, q_offsets, kv_offsets, o, lse, dout, bias, random };
};
struct AttentionBackwardOutput {
  enum : size_t { dq, dkv, dbias };
};
struct HeadNormRopeInput {
  enum : size_t { x, wq, wk, positions, inverse_frequencies };
};
// Of head_norm_rope_backward too, which alone has the last two.
struct HeadNormBackwardInput {
  enum : size_t { x, wq, wk, dy, positions, inverse_frequencies };
};
struct LinearInput {
  enum : size_t { x, w, bias, down, b };
};
struct LinearBackwardInput {
  enum : size_t { dy, w, ddown, a };
};
struct LoraUpBackwardInput {
  enum : size_t { dy, down, b };
};
struct LoraUpBackwardOutput {
  enum : size_t { ddown, db };
};
// x is gate and up; dgated what an adapter has made of the activation's gradient, if anything has.
struct GatedLinearBackwardInput {
  enum : size_t { x, dgated, dy, w, ddown, a };
};
struct GatedLinearBackwardOutput {
  enum : size_t { dx, gated };
};
// Of loss_head and its gradient. Its rows are the tokens that it looks at: row i is token rows[i] of x, in
// ascending order, and has to predict targets[i]. A negative target: the row has no loss and no gradient, and
// a row that is no token (-1) has no target either. With as many rows as x has tokens, row i is token i.
// loss_head counts the targets that greedy decoding would choose, if it is to: those that are the first of
// the largest logits of their row.
struct LossHeadInput {
  enum : size_t { x, w, targets, rows, scale };
};
struct LossHeadOutput {
  enum : size_t { loss_sum, dx, dw };
  enum : size_t { hits = 1 };
};
struct CloseStepInput {
  enum : size_t { learning_rates, norm };
};
struct CloseStepOutput {
  enum : size_t { clock, scalars, loss_sum, history };
};

// The operands of adamw and adamw_8bit are lists: parameter i has gradient i, moments i and what is beside
// it.
class AdamwPlaces {
 public:
  explicit AdamwPlaces(const AdamwAttributes& attributes)
      : count_(attributes.weight_decay.size()), kind_beside_(attributes.beside) {}

  // Inputs.
  size_t gradient(size_t i) const { return i; }
  size_t scalars() const { return count_; }
  size_t norm() const { return count_ + 1; }
  size_t random() const { return count_ + 2; }  // of what is rounded by chance, else absent
  size_t maps() const { return count_ + 3; }    // of adamw_8bit: those of first moments, then of second ones
  // Outputs.
  size_t parameter(size_t i) const { return i; }
  size_t first_moment(size_t i) const { return count_ + i; }
  size_t second_moment(size_t i) const { return 2 * count_ + i; }
  size_t beside(size_t i) const { return 3 * count_ + i; }  // its compute copy or its rest, if it has one

  size_t count() const { return count_; }
  Beside kind_beside() const { return kind_beside_; }
  bool has_beside() const { return kind_beside_ != Beside::nothing; }
  size_t output_count() const { return (has_beside() ? 4 : 3) * count_; }

 private:
  size_t count_;
  Beside kind_beside_;
};

// adafactor's operands are lists too: parameter i has gradient i, mean squares i and what is beside it.
class AdafactorPlaces {
 public:
  explicit AdafactorPlaces(const AdafactorAttributes& attributes)
      : count_(attributes.weight_decay.size()), kind_beside_(attributes.beside) {}

  // Inputs.
  size_t gradient(size_t i) const { return i; }
  size_t scalars() const { return count_; }
  size_t norm() const { return count_ + 1; }
  size_t clock() const { return count_ + 2; }
  size_t random() const { return count_ + 3; }  // of parameters that are rounded by chance, else absent
  // Outputs.
  size_t parameter(size_t i) const { return i; }
  size_t mean_squares(size_t i) const { return count_ + i; }
  size_t beside(size_t i) const { return 2 * count_ + i; }  // its compute copy or its rest, if it has one

  size_t count() const { return count_; }
  Beside kind_beside() const { return kind_beside_; }
  bool has_beside() const { return kind_beside_ != Beside::nothing; }
  size_t output_count() const { return (has_beside() ? 3 : 2) * count_; }

 private:
  size_t count_;
  Beside kind_beside_;
};

}  // namespace snug
