// Rotary positions and attention over variable-length sequences laid end to end.
#include <algorithm>

#include "ops/rows.h"
#include "ops/shapes.h"
#include "program/operands.h"

namespace snug {
namespace {

std::string check_rope(const Program& program, const Op& op) {
  const Buffer* x = input_of(program, op, 0);
  const auto& attributes = attributes_of<RopeAttributes>(op);
  if (x == nullptr || x->dims.size() != 2) {
    return "needs x [T,C]";
  }
  if (attributes.head_dim % 2 != 0 || attributes.rotated_heads * attributes.head_dim > columns_of(*x)) {
    return "the rotated heads do not fit the row";
  }
  std::string problem =
      find_mismatch({{"positions", input_of(program, op, 1), {x->dims[0]}},
                     {"frequencies", input_of(program, op, 2), {fixed(attributes.head_dim / 2)}},
                     {"y", output_of(program, op, 0), x->dims}});
  return problem.empty() ? find_dtype_mismatch({x, output_of(program, op, 0)}) : problem;
}

// A rotation's gradient is the rotation back.
void rope_gradient(const Op& op, Gradients& gradients) {
  if (!gradients.wanted(op.inputs[0])) {
    return;
  }
  RopeAttributes attributes = attributes_of<RopeAttributes>(op);
  attributes.inverse = !attributes.inverse;
  Gradients::Target target = gradients.target(op.inputs[0]);
  gradients.append(OpKind::rope, {gradients.of(op.outputs[0]), op.inputs[1], op.inputs[2]}, {target},
                   attributes);
}

OpCost cost_of_rope(const Program& program, const Op& op) {
  return streaming_cost(program, op, 3);
}

std::string check_heads(const AttentionAttributes& attributes, const Buffer* q, const Buffer* kv) {
  if (q == nullptr || kv == nullptr || q->dims.size() != 2 || kv->dims.size() != 2) {
    return "needs q [T,C] and kv [Tk,C]";
  }
  if (attributes.kv_heads <= 0 || attributes.heads % attributes.kv_heads != 0) {
    return "heads must be a multiple of kv_heads";
  }
  int64_t kv_width = attributes.kv_heads * attributes.head_dim;
  bool fits = attributes.q_column + attributes.heads * attributes.head_dim <= columns_of(*q) &&
              std::max(attributes.k_column, attributes.v_column) + kv_width <= columns_of(*kv);
  return fits ? find_dtype_mismatch({q, kv}) : "the heads reach past the row";
}

BufferId optional_input(const Op& op, size_t place) {
  return place < op.inputs.size() ? op.inputs[place] : kNoBuffer;
}

std::string check_random(const Program& program, const Op& op, size_t place) {
  float probability = attributes_of<AttentionAttributes>(op).dropout.probability;
  if ((probability > 0) != (optional_input(op, place) != kNoBuffer)) {
    return "dropout goes with random numbers";
  }
  if (probability == 0) {
    return "";
  }
  return find_mismatch({{"random", input_of(program, op, place), {fixed(3)}}});
}

std::string check_bias(const Program& program, const Op& op, size_t place) {
  const auto& attributes = attributes_of<AttentionAttributes>(op);
  if (optional_input(op, place) == kNoBuffer) {
    return attributes.relative_buckets == 0 ? "" : "relative buckets need a bias";
  }
  // A bucket a distance is needed near by, and half of the buckets look each way.
  int64_t directions = attributes.bidirectional_buckets ? 2 : 1;
  if (attributes.relative_buckets / directions < 2 ||
      attributes.relative_max_distance <= attributes.relative_buckets / directions / 2) {
    return "too few relative buckets, or distances that end within the exact ones";
  }
  Dims table = {fixed(attributes.relative_buckets), fixed(attributes.heads)};
  return find_mismatch({{"bias", input_of(program, op, place), table}});
}

std::string check_attention(const Program& program, const Op& op) {
  const auto& attributes = attributes_of<AttentionAttributes>(op);
  const Buffer* q = input_of(program, op, AttentionInput::q);
  std::string problem = check_heads(attributes, q, input_of(program, op, AttentionInput::kv));
  if (problem.empty()) {
    problem = check_random(program, op, AttentionInput::random);
  }
  if (problem.empty()) {
    problem = check_bias(program, op, AttentionInput::bias);
  }
  if (!problem.empty()) {
    return problem;
  }
  return find_mismatch(
      {{"o", output_of(program, op, 0), {q->dims[0], fixed(attributes.heads * attributes.head_dim)}},
       {"lse", output_of(program, op, 1), {q->dims[0], fixed(attributes.heads)}}});
}

void attention_gradient(const Op& op, Gradients& gradients) {
  using In = AttentionInput;
  BufferId q = op.inputs[In::q];
  BufferId kv = op.inputs[In::kv];
  BufferId bias = optional_input(op, In::bias);
  BufferId random = optional_input(op, In::random);
  if (!gradients.wanted(q) && !gradients.wanted(kv) && !gradients.wanted(bias)) {
    return;
  }
  Gradients::Target dq = gradients.target(q);
  // Fused queries, keys and values are one buffer: the op writes all of its columns once.
  Gradients::Target dkv = q == kv ? dq : gradients.target(kv);
  std::vector<BufferId> inputs = {q,
                                  kv,
                                  op.inputs[In::q_offsets],
                                  op.inputs[In::kv_offsets],
                                  op.outputs[0],
                                  op.outputs[1],
                                  gradients.of(op.outputs[0])};
  std::vector<Gradients::Target> targets = {dq, dkv};
  if (bias != kNoBuffer || random != kNoBuffer) {
    inputs.push_back(bias);
  }
  if (bias != kNoBuffer) {
    targets.push_back(gradients.target(bias));
  }
  if (random != kNoBuffer) {
    inputs.push_back(random);
  }
  gradients.append(OpKind::attention_backward, std::move(inputs), targets, op.attributes);
}

std::string check_attention_backward(const Program& program, const Op& op) {
  const auto& attributes = attributes_of<AttentionAttributes>(op);
  using In = AttentionBackwardInput;
  using Out = AttentionBackwardOutput;
  const Buffer* q = input_of(program, op, In::q);
  const Buffer* kv = input_of(program, op, In::kv);
  std::string problem = check_heads(attributes, q, kv);
  if (problem.empty()) {
    problem = check_random(program, op, In::random);
  }
  if (problem.empty()) {
    problem = check_bias(program, op, In::bias);
  }
  if (!problem.empty()) {
    return problem;
  }
  if (op.accumulates_output(Out::dq) || op.accumulates_output(Out::dkv)) {
    return "writes the gradients of queries, keys and values, and cannot add to them";
  }
  if (const Buffer* dbias = output_of(program, op, Out::dbias); dbias != nullptr) {
    if (dbias->format != DType::f32) {
      return "sums the gradient of the bias in fp32";
    }
    problem = find_mismatch({{"dbias", dbias, program.buffer(op.inputs[In::bias]).dims}});
    if (!problem.empty()) {
      return problem;
    }
  }
  Dims out = {q->dims[0], fixed(attributes.heads * attributes.head_dim)};
  return find_mismatch({{"o", input_of(program, op, In::o), out},
                        {"do", input_of(program, op, In::dout), out},
                        {"dq", output_of(program, op, Out::dq), q->dims},
                        {"dkv", output_of(program, op, Out::dkv), kv->dims}});
}

// The longest sequence bounds the work; at planning time only the total is known, so all are taken as equal.
// The gradient has these inputs at the same places.
double tokens_a_sequence(const Program& program, const Op& op) {
  auto rows = [&](size_t input) { return static_cast<double>(rows_of(program.buffer(op.inputs[input]))); };
  return rows(AttentionInput::q) / std::max(1.0, rows(AttentionInput::q_offsets) - 1.0);
}

double score_flops(const Program& program, const Op& op) {
  const auto& attributes = attributes_of<AttentionAttributes>(op);
  double keys = static_cast<double>(rows_of(program.buffer(op.inputs[AttentionInput::kv])));
  double share = attributes.causal ? 0.5 : 1.0;
  return 4.0 * share * tokens_a_sequence(program, op) * keys *
         static_cast<double>(attributes.heads * attributes.head_dim);
}

// Exponentials stand between the products, and short rows of a head leave the matrix units half empty. Short
// sequences are few tiles, each of which is filled and drained: what that takes is counted in starts. In long
// ones the tiles on the diagonal, half of which is hidden, and the ends of blocks matter less and less. All
// as seen on an H200, in steps at 128 to 2,048 and at 32,768 tokens.
struct Efficiency {
  double usual;  // up to kUsualLength
  double most;   // of sequences without end
  double
      dropping;  // the share of it that is left where weights are dropped: masks are made of random numbers
};
constexpr Efficiency kForwardEfficiency = {.usual = 0.48, .most = 0.83, .dropping = 0.62};
constexpr Efficiency kBackwardEfficiency = {.usual = 0.52, .most = 0.75, .dropping = 0.72};
constexpr double kUsualLength = 2048;
constexpr int64_t kWideHead = 128;
constexpr double kNarrowHeadShare = 0.65;
constexpr double kForwardStarts = 4;
constexpr double kBackwardStarts = 14;

double efficiency_of(const Program& program, const Op& op, const Efficiency& efficiency) {
  double length = std::max(kUsualLength, tokens_a_sequence(program, op));
  double lost = kUsualLength * (efficiency.most / efficiency.usual - 1);  // in tokens, of every sequence
  const auto& attributes = attributes_of<AttentionAttributes>(op);
  double share = attributes.head_dim < kWideHead ? kNarrowHeadShare : 1.0;
  share *= attributes.dropout.probability > 0 ? efficiency.dropping : 1.0;
  return share * efficiency.most * length / (length + lost);
}

OpCost cost_of_attention(const Program& program, const Op& op) {
  return {.flops = score_flops(program, op),
          .bytes = touched_bytes(program, op),
          .efficiency = efficiency_of(program, op, kForwardEfficiency),
          .starts = kForwardStarts,
          .pace = Pace::attention};
}
OpCost cost_of_attention_backward(const Program& program, const Op& op) {
  return {.flops = 2.5 * score_flops(program, op),
          .bytes = touched_bytes(program, op),
          .efficiency = efficiency_of(program, op, kBackwardEfficiency),
          .starts = kBackwardStarts,
          .pace = Pace::attention_backward};
}

}  // namespace

const OpRow kRopeRow = {.kind = OpKind::rope,
                        .name = "rope",
                        .find_shape_problem = check_rope,
                        .append_gradient = rope_gradient,
                        .cost = cost_of_rope,
                        .in_place = 1};

const OpRow kAttentionRow = {.kind = OpKind::attention,
                             .name = "attention",
                             .find_shape_problem = check_attention,
                             .append_gradient = attention_gradient,
                             .cost = cost_of_attention};

const OpRow kAttentionBackwardRow = {.kind = OpKind::attention_backward,
                                     .name = "attention_backward",
                                     .find_shape_problem = check_attention_backward,
                                     .cost = cost_of_attention_backward};

}  // namespace snug
