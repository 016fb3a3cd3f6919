// The loss head with and without its gradient: the logits of one chunk (which their gradient overwrites), a
// loss a row, the rows of x in a chunk (which those of dx overwrite), and the products' scratch.
#include "backend/cuda_plan/loss_chunks.h"
#include "backend/cuda_plan/need_functions.h"
#include "backend/cuda_plan/products.h"
#include "backend/cuda_plan/scratch.h"
#include "program/operands.h"

namespace snug::cuda {

int64_t loss_head_workspace(const Program& program, const Op& op) {
  const Buffer& x = program.buffer(op.inputs[LossHeadInput::x]);
  int64_t targets = program.buffer(op.inputs[LossHeadInput::targets]).dims[0].max;
  int64_t vocabulary = program.buffer(op.inputs[LossHeadInput::w]).dims[0].max;
  DType logits = logits_dtype(op, x.dtype());
  int64_t rows = chunk_rows(op, targets, vocabulary, logits);
  return padded_bytes_of<std::byte>(rows * logits_stride(vocabulary) * size_of(logits)) +
         padded_bytes_of<double>(targets) +
         padded_bytes_of<std::byte>(rows * x.dims[1].max * size_of(x.dtype())) + kBlasWorkspaceBytes;
}

}  // namespace snug::cuda
