// embedding: rows of a table, by token id.
#include "ops/rows.h"
#include "ops/shapes.h"

namespace snug {
namespace {

std::string check_embedding(const Program& program, const Op& op) {
  const Buffer* table = input_of(program, op, 0);
  const Buffer* ids = input_of(program, op, 1);
  if (table == nullptr || ids == nullptr || table->dims.size() != 2 || ids->dims.size() != 1) {
    return "needs a table [V,D] and ids [T]";
  }
  return find_mismatch({{"output", output_of(program, op, 0), {ids->dims[0], table->dims[1]}}});
}

void gradient(const Op& op, Gradients& gradients) {
  BufferId table = op.inputs[0];
  if (gradients.wanted(table)) {
    gradients.append(OpKind::embedding_backward, {op.inputs[1], gradients.of(op.outputs[0])},
                     {gradients.target(table)});
  }
}

OpCost cost_of_embedding(const Program& program, const Op& op) {
  return {0, 2.0 * static_cast<double>(program.buffer(op.outputs[0]).max_bytes())};
}

std::string check_backward(const Program& program, const Op& op) {
  const Buffer* ids = input_of(program, op, 0);
  const Buffer* table = output_of(program, op, 0);
  if (table == nullptr || ids == nullptr || table->dims.size() != 2 || ids->dims.size() != 1) {
    return "needs ids [T] and a table's gradient [V,D]";
  }
  return find_mismatch({{"dy", input_of(program, op, 1), {ids->dims[0], table->dims[1]}}});
}

OpCost cost_of_backward(const Program& program, const Op& op) {
  const Buffer& dy = program.buffer(op.inputs[1]);
  return {static_cast<double>(dy.max_elements()), 3.0 * static_cast<double>(dy.max_bytes())};
}

}  // namespace

const OpRow kEmbeddingRow = {.kind = OpKind::embedding,
                             .name = "embedding",
                             .find_shape_problem = check_embedding,
                             .append_gradient = gradient,
                             .cost = cost_of_embedding};

const OpRow kEmbeddingBackwardRow = {.kind = OpKind::embedding_backward,
                                     .name = "embedding_backward",
                                     .find_shape_problem = check_backward,
                                     .cost = cost_of_backward,
                                     .rounded_gradient = 0};

}  // namespace snug
