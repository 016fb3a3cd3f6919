// The norm over all gradients: one sum of squares a block; and Adafactor's sums.
#include "backend/cuda_plan/adafactor_scratch.h"
#include "backend/cuda_plan/need_functions.h"
#include "backend/cuda_plan/optimizer_blocks.h"
#include "backend/cuda_plan/scratch.h"

namespace snug::cuda {

int64_t gradient_norm_workspace(const Program& program, const Op& op) {
  int64_t blocks = 0;
  for (BufferId id : op.inputs) {
    blocks += blocks_of(program.buffer(id).max_elements());
  }
  return padded_bytes_of<double>(blocks);
}

int64_t adafactor_workspace(const Program& /*program*/, const Op& op) {
  return adafactor_scratch_bytes(attributes_of<AdafactorAttributes>(op).tensors);
}

}  // namespace snug::cuda
