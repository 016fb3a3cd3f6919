// The op table: one row a kind. What a kind means for shapes, gradients, cost and memory is said here and
// nowhere else; what it computes is said by the kernel tables of the backends.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "ops/gradients.h"
#include "program/program.h"

namespace snug {

// What a kernel's speed depends on beside the rates of products and of memory: cards differ in it.
enum class Pace : uint8_t { usual, attention, attention_backward, adapter };
inline constexpr size_t kPaceCount = 4;

struct OpCost {
  double flops = 0;
  double bytes = 0;          // read and written once each
  double efficiency = 1;     // the share of the matrix units' rate for products that its flops reach
  double starts = 1;         // of kernels, one behind the other: what an op takes however small it is
  double apart_bytes = 0;    // moved before or behind all that, hidden by nothing
  double scaling_bytes = 0;  // the same, where products of 8 bits take no scales of rows
  double rate = 1;           // of products, where it is not that of the run's dtype
  Pace pace = Pace::usual;
};

struct OpRow {
  OpKind kind;
  std::string_view name;
  // Checks the shapes and dtypes of the op's buffers: "" if they fit, else what does not.
  std::string (*find_shape_problem)(const Program&, const Op&);
  // Appends the ops that carry gradients from the outputs to the inputs. Null: not differentiable.
  void (*append_gradient)(const Op&, Gradients&) = nullptr;
  OpCost (*cost)(const Program&, const Op&);
  // Gradients start here: the op adds to the loss that is made small.
  bool is_loss = false;
  // The gradient op computes the forward outputs too, so a training program leaves the forward op out.
  bool gradient_includes_forward = false;
  // The first so many outputs may each take over the memory of the input of their place, where that is not
  // needed afterwards.
  size_t in_place = 0;
  // What the op does with its operands, where that is not what most do: read inputs, write outputs, or add to
  // those that Op::accumulates says.
  Effect (*input_effect)(const Op&, size_t input) = nullptr;
  Effect (*output_effect)(const Op&, size_t output) = nullptr;
  // The input whose format may be a coding (base/format.h); all other inputs are plain.
  std::optional<size_t> coded_input = std::nullopt;
  // Whether outputs may be codings.
  bool coded_outputs = false;
  // The output that may be a weight's gradient in bf16: it is summed in fp32 and rounded to nearest.
  std::optional<size_t> rounded_gradient = std::nullopt;
};

const OpRow& row_of(OpKind kind);

// The first rule that the program breaks, as text; "" if it keeps them all. Names are unique, sizes positive,
// ids in range. A buffer is written at most once and before any other use; inputs, and what outlives the
// program, come written. What an op needs was written before; no op changes a buffer that it also reads.
std::string find_violation(const Program& program);

// These rules and every op's shapes; SNUG_CHECKs, as a violation is a bug in a pass.
void verify_with_shapes(const Program& program);

// One line a buffer and an op, for people and golden files. Behind an operand, "+=" says that it is added to
// and "~" that it is updated.
std::string to_text(const Program& program);

// Cost at the planned (maximum) sizes.
OpCost cost_of(const Program& program, const Op& op);

}  // namespace snug
