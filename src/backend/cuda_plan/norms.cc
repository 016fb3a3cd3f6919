// Partial sums for the gradients of norms' weights.
#include <fmt/format.h>

#include "backend/cuda_plan/need_functions.h"
#include "backend/cuda_plan/row_sums.h"
#include "backend/cuda_plan/scratch.h"

namespace snug::cuda {

int64_t rms_norm_backward_workspace(const Program& program, const Op& op) {
  if (op.outputs[1] == kNoBuffer) {
    return 0;
  }
  const Buffer& x = program.buffer(op.inputs[0]);
  return padded_bytes_of<float>(norm_slices(x.dims[0].max) * x.dims[1].max);
}

std::string find_unsupported_norm(const Program& program, const Op& op) {
  int64_t width = program.buffer(op.inputs[0]).dims[1].max;
  return width <= kWidestNorm
             ? ""
             : fmt::format(
                   "the cuda backend has no kernel for the gradient of a norm of {} numbers, only up to {}",
                   width, kWidestNorm);
}

int64_t head_norm_backward_workspace(const Program& program, const Op& op) {
  const auto& attributes = attributes_of<HeadNormAttributes>(op);
  int64_t tokens = program.buffer(op.inputs[0]).dims[0].max;
  int64_t head_dim = program.buffer(op.inputs[1]).dims[0].max;
  return padded_bytes_of<float>(tokens * (attributes.q_heads + attributes.k_heads)) +
         padded_bytes_of<float>(slice_count(tokens) * head_dim);
}

}  // namespace snug::cuda
