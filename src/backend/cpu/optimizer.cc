// The optimizer's ops: the norm over all gradients, and AdamW over all parameters in one pass.
#include <cmath>

#include "backend/cpu/dispatch.h"
#include "backend/cpu/kernel_functions.h"
#include "base/threads.h"

namespace snug::cpu {
namespace {

// Tensors are cut into blocks of this many elements. Sums are made per block and then over the blocks in
// order, whatever thread made them; small tensors share one parallel loop.
constexpr int64_t kBlockElements = 16384;

int64_t blocks_of(int64_t elements) {
  return (elements + kBlockElements - 1) / kBlockElements;
}

struct Block {
  size_t tensor;
  int64_t first;  // elements [first, last) of the tensor
  int64_t last;
  int64_t index;  // over all tensors
};

// Calls body(Block) for every block of the tensors, in parallel.
template <typename Body>
void for_each_block(std::span<const Tensor> tensors, const Body& body) {
  int64_t total = 0;
  for (const Tensor& tensor : tensors) {
    total += blocks_of(tensor.elements());
  }
  parallel_for(total, 1, [&](int64_t first, int64_t last) {
    int64_t base = 0;  // index of the current tensor's first block
    for (size_t i = 0; i < tensors.size() && base < last; ++i) {
      int64_t elements = tensors[i].elements();
      int64_t count = blocks_of(elements);
      int64_t end = std::min(last, base + count);
      for (int64_t index = std::max(first, base); index < end; ++index) {
        int64_t begin = (index - base) * kBlockElements;
        body(Block{i, begin, std::min(begin + kBlockElements, elements), index});
      }
      base += count;
    }
  });
}

struct Update {
  float gradient_scale;  // takes the loss scale out, and clips
  float beta1;
  float beta2;
  float one_minus_beta1;
  float one_minus_beta2;
  float step_size;              // learning rate / (1 - beta1^t)
  float inverse_root_of_bias2;  // 1 / sqrt(1 - beta2^t)
  float epsilon;
};

// The parts of the buffers that one block covers.
struct Moments {
  float* gradient;
  float* parameter;
  float* first;
  float* second;
  float decay;  // 1 - learning rate * weight decay
  int64_t count;
};

// torch.optim.AdamW, decoupled decay first; `Copy` is the dtype of the compute copy, void if there is none.
template <typename Copy>
void update_block(const Update& update, const Moments& block, Copy* copy) {
  float* gradient = block.gradient;
  float* parameter = block.parameter;
  float* first = block.first;
  float* second = block.second;
#pragma omp simd
  for (int64_t i = 0; i < block.count; ++i) {
    float g = gradient[i] * update.gradient_scale;
    float m = update.beta1 * first[i] + update.one_minus_beta1 * g;
    float v = update.beta2 * second[i] + update.one_minus_beta2 * g * g;
    float denominator = std::sqrt(v) * update.inverse_root_of_bias2 + update.epsilon;
    float p = parameter[i] * block.decay - update.step_size * m / denominator;
    first[i] = m;
    second[i] = v;
    parameter[i] = p;
    gradient[i] = 0;
    if constexpr (!std::is_void_v<Copy>) {
      copy[i] = round_to<Copy>(p);
    }
  }
}

// torch.nn.utils.clip_grad_norm_.
float clip_coefficient(float norm, float max_norm) {
  return max_norm > 0 ? std::min(1.0F, max_norm / (norm + 1e-6F)) : 1.0F;
}

Update make_update(const AdamwAttributes& attributes, const float* scalars, float norm) {
  // 1 - beta in double: in fp32 the difference would lose most of its digits.
  float unscale = scalars[3];
  return {.gradient_scale = clip_coefficient(norm * unscale, attributes.max_norm) * unscale,
          .beta1 = static_cast<float>(attributes.beta1),
          .beta2 = static_cast<float>(attributes.beta2),
          .one_minus_beta1 = static_cast<float>(1.0 - attributes.beta1),
          .one_minus_beta2 = static_cast<float>(1.0 - attributes.beta2),
          .step_size = scalars[0] / scalars[1],
          .inverse_root_of_bias2 = 1.0F / std::sqrt(scalars[2]),
          .epsilon = static_cast<float>(attributes.epsilon)};
}

void check_fp32(std::span<const Tensor> tensors) {
  for (const Tensor& tensor : tensors) {
    SNUG_CHECK(tensor.dtype == DType::f32, "gradients, master parameters and moments are fp32");
  }
}

}  // namespace

int64_t gradient_norm_workspace(const Program& program, const Op& op) {
  int64_t blocks = 0;
  for (BufferId id : op.inputs) {
    blocks += blocks_of(program.buffer(id).max_elements());
  }
  return blocks * static_cast<int64_t>(sizeof(double));
}

// norm[0] = sqrt(sum of g^2 over all gradients), summed in double.
void gradient_norm(const KernelCall& call) {
  check_fp32(call.inputs);
  auto* sums = reinterpret_cast<double*>(call.workspace.data());
  for_each_block(call.inputs, [&](const Block& block) {
    const float* gradient = call.inputs[block.tensor].as<float>();
    double sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = block.first; i < block.last; ++i) {
      double g = static_cast<double>(gradient[i]);
      sum += g * g;
    }
    sums[block.index] = sum;
  });
  int64_t blocks = 0;
  for (const Tensor& gradient : call.inputs) {
    blocks += blocks_of(gradient.elements());
  }
  double total = 0;
  for (int64_t i = 0; i < blocks; ++i) {
    total += sums[i];
  }
  call.outputs[0].as<float>()[0] = static_cast<float>(std::sqrt(total));
}

// Updates parameters, moments and compute copies, and clears the gradients, in one pass. A norm that is not
// finite means that the gradients are not: the update is skipped and only the gradients are cleared.
void adamw(const KernelCall& call) {
  const auto& attributes = attributes_of<AdamwAttributes>(call.op);
  size_t parameters = call.inputs.size() - 2;
  SNUG_CHECK(attributes.weight_decay.size() == parameters, "one weight decay per parameter");
  SNUG_CHECK(call.outputs.size() == parameters * (attributes.has_copies ? 4 : 3),
             "adamw's outputs are parameters, moments and copies");
  std::span<const Tensor> gradients = call.inputs.first(parameters);
  check_fp32(gradients);
  check_fp32(call.outputs.first(3 * parameters));
  const auto* scalars = call.inputs[parameters].as<float>();
  float norm = call.inputs[parameters + 1].as<float>()[0];
  bool skip = !std::isfinite(norm);
  Update update = make_update(attributes, scalars, norm);
  for_each_block(gradients, [&](const Block& block) {
    size_t i = block.tensor;
    Moments part{.gradient = gradients[i].as<float>() + block.first,
                 .parameter = call.outputs[i].as<float>() + block.first,
                 .first = call.outputs[parameters + i].as<float>() + block.first,
                 .second = call.outputs[2 * parameters + i].as<float>() + block.first,
                 .decay = static_cast<float>(1.0 - static_cast<double>(scalars[0]) *
                                                       static_cast<double>(attributes.weight_decay[i])),
                 .count = block.last - block.first};
    if (skip) {
      std::fill_n(part.gradient, part.count, 0.0F);
    } else if (!attributes.has_copies) {
      update_block<void>(update, part, nullptr);
    } else {
      const Tensor& copy = call.outputs[3 * parameters + i];
      with_type(copy.dtype, [&](auto type) {
        update_block(update, part, copy.as<typename decltype(type)::type>() + block.first);
      });
    }
  });
}

}  // namespace snug::cpu
