// The optimizer's ops: the norm over all gradients, and AdamW over all parameters, each in as few launches as
// its list of tensors fits in (512 a launch). The host reads nothing back.
#include <cmath>

#include "backend/cuda/check.h"
#include "backend/cuda/kernel_functions.h"
#include "backend/cuda/scratch.h"
#include "backend/cuda/vectors.cuh"

namespace snug::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kBlockElements = 8192;
constexpr int kMostTensors = 512;  // a kernel's parameters hold 32,764 bytes

int64_t blocks_of(int64_t elements) {
  return (elements + kBlockElements - 1) / kBlockElements;
}

// The tensors of one launch. Block b works on the last tensor whose first block is not after b.
template <typename Entry>
struct TensorList {
  Entry entries[kMostTensors];
  int count = 0;
  uint32_t blocks = 0;

  __device__ const Entry& entry_of(uint32_t block) const {
    int low = 0;
    int high = count - 1;
    while (low < high) {
      int middle = (low + high + 1) / 2;
      if (entries[middle].first_block <= block) {
        low = middle;
      } else {
        high = middle - 1;
      }
    }
    return entries[low];
  }
};

struct GradientEntry {
  const float* gradient;
  int64_t elements;
  uint32_t first_block;
};

// sums[block] = the sum of squares of its elements, in fp64: a square may be too large for fp32.
__global__ void square_kernel(const __grid_constant__ TensorList<GradientEntry> list, double* sums) {
  __shared__ double shared[kThreads / 32];
  const GradientEntry& entry = list.entry_of(blockIdx.x);
  int64_t begin = static_cast<int64_t>(blockIdx.x - entry.first_block) * kBlockElements;
  int64_t end = min(begin + kBlockElements, entry.elements);
  double sum = 0;
  for (int64_t i = begin + threadIdx.x; i < end; i += kThreads) {
    auto g = static_cast<double>(entry.gradient[i]);
    sum += g * g;
  }
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) {
    sum += __shfl_xor_sync(0xffffffffU, sum, offset);
  }
  if (threadIdx.x % 32 == 0) {
    shared[threadIdx.x / 32] = sum;
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    double total = 0;
    for (int i = 0; i < kThreads / 32; ++i) {
      total += shared[i];
    }
    sums[blockIdx.x] = total;
  }
}

// norm[0] = sqrt(sum of all sums), by one block: each thread takes every kThreads-th, then they are added up.
__global__ void norm_kernel(const double* sums, int64_t count, float* norm) {
  __shared__ double shared[kThreads];
  double sum = 0;
  for (int64_t i = threadIdx.x; i < count; i += kThreads) {
    sum += sums[i];
  }
  shared[threadIdx.x] = sum;
  __syncthreads();
  for (unsigned stride = kThreads / 2; stride > 0; stride /= 2) {
    if (threadIdx.x < stride) {
      shared[threadIdx.x] += shared[threadIdx.x + stride];
    }
    __syncthreads();
  }
  if (threadIdx.x == 0) {
    norm[0] = static_cast<float>(sqrt(shared[0]));
  }
}

struct UpdateEntry {
  float* gradient;
  float* parameter;
  void* first;
  void* second;
  void* copy;
  int64_t elements;
  uint32_t first_block;
  float weight_decay;
};

struct Rates {
  const float* scalars;  // learning rate, 1 - beta1^t, 1 - beta2^t, 1 / loss scale
  const float* norm;
  float max_norm;
  float beta1;
  float beta2;
  float one_minus_beta1;
  float one_minus_beta2;
  float epsilon;
};

struct None {};

// torch.optim.AdamW, decoupled decay first, after torch.nn.utils.clip_grad_norm_. A norm that is not finite
// means that the gradients are not: the update is skipped and only the gradients are cleared. `M` is the
// dtype of the moments, `Copy` that of the compute copy or None.
template <typename M, typename Copy>
__global__ void adamw_kernel(const __grid_constant__ TensorList<UpdateEntry> list, Rates rates) {
  const UpdateEntry& entry = list.entry_of(blockIdx.x);
  int64_t begin = static_cast<int64_t>(blockIdx.x - entry.first_block) * kBlockElements;
  int64_t end = min(begin + kBlockElements, entry.elements);
  float norm = rates.norm[0];
  bool skip = !isfinite(norm);
  float unscale = rates.scalars[3];
  float clip = rates.max_norm > 0 ? fminf(1.0F, rates.max_norm / (norm * unscale + 1e-6F)) : 1.0F;
  float scale = clip * unscale;
  float step_size = rates.scalars[0] / rates.scalars[1];
  float inverse_root_of_bias2 = 1.0F / sqrtf(rates.scalars[2]);
  auto decay = static_cast<float>(1.0 - static_cast<double>(rates.scalars[0]) *
                                            static_cast<double>(entry.weight_decay));
  M* first = static_cast<M*>(entry.first);
  M* second = static_cast<M*>(entry.second);
  for (int64_t i = begin + threadIdx.x; i < end; i += kThreads) {
    if (!skip) {
      float g = entry.gradient[i] * scale;
      float m = rates.beta1 * to_float(first[i]) + rates.one_minus_beta1 * g;
      float v = rates.beta2 * to_float(second[i]) + rates.one_minus_beta2 * g * g;
      float denominator = sqrtf(v) * inverse_root_of_bias2 + rates.epsilon;
      float p = entry.parameter[i] * decay - step_size * m / denominator;
      first[i] = round_to<M>(m);
      second[i] = round_to<M>(v);
      entry.parameter[i] = p;
      if constexpr (!std::is_same_v<Copy, None>) {
        static_cast<Copy*>(entry.copy)[i] = round_to<Copy>(p);
      }
    }
    entry.gradient[i] = 0;
  }
}

// Calls launch(list, first block of the launch) for groups of tensors; `fill(entry, i)` describes tensor i.
template <typename Entry, typename Fill, typename Launch>
void for_each_list(std::span<const Tensor> gradients, const Fill& fill, const Launch& launch) {
  int64_t blocks_before = 0;
  for (size_t begin = 0; begin < gradients.size(); begin += kMostTensors) {
    TensorList<Entry> list;
    size_t end = std::min(gradients.size(), begin + static_cast<size_t>(kMostTensors));
    for (size_t i = begin; i < end; ++i) {
      Entry& entry = list.entries[list.count++];
      entry.elements = gradients[i].elements();
      entry.first_block = list.blocks;
      fill(entry, i);
      list.blocks += static_cast<uint32_t>(blocks_of(entry.elements));
    }
    launch(list, blocks_before);
    blocks_before += list.blocks;
  }
}

void check_fp32(std::span<const Tensor> tensors) {
  for (const Tensor& tensor : tensors) {
    SNUG_CHECK(tensor.dtype == DType::f32, "gradients and master parameters are fp32");
  }
}

template <typename Body>
void with_copy_type(const Tensor* copy, const Body& body) {
  if (copy == nullptr) {
    return body(TypeTag<None>{});
  }
  if (copy->dtype == DType::f16) {
    return body(TypeTag<__half>{});
  }
  SNUG_CHECK(copy->dtype == DType::bf16, "compute copies are bf16 or fp16");
  body(TypeTag<__nv_bfloat16>{});
}

}  // namespace

int64_t gradient_norm_workspace(const Program& program, const Op& op) {
  int64_t blocks = 0;
  for (BufferId id : op.inputs) {
    blocks += blocks_of(program.buffer(id).max_elements());
  }
  return padded_bytes_of<double>(blocks);
}

void gradient_norm(const Queue& queue, const KernelCall& call) {
  check_fp32(call.inputs);
  int64_t blocks = 0;
  for (const Tensor& gradient : call.inputs) {
    blocks += blocks_of(gradient.elements());
  }
  double* sums = Scratch(call.workspace).take<double>(blocks);
  for_each_list<GradientEntry>(
      call.inputs, [&](GradientEntry& entry, size_t i) { entry.gradient = call.inputs[i].as<float>(); },
      [&](const TensorList<GradientEntry>& list, int64_t first_block) {
        square_kernel<<<list.blocks, kThreads, 0, queue.stream>>>(list, sums + first_block);
      });
  norm_kernel<<<1, kThreads, 0, queue.stream>>>(sums, blocks, call.outputs[0].as<float>());
  check_launch("the norm of the gradients");
}

// Updates parameters, moments and compute copies, and clears the gradients, in one pass.
void adamw(const Queue& queue, const KernelCall& call) {
  const auto& attributes = attributes_of<AdamwAttributes>(call.op);
  size_t count = call.inputs.size() - 2;
  SNUG_CHECK(attributes.weight_decay.size() == count, "one weight decay per parameter");
  SNUG_CHECK(call.outputs.size() == count * (attributes.has_copies ? 4 : 3),
             "adamw's outputs are parameters, moments and copies");
  std::span<const Tensor> gradients = call.inputs.first(count);
  check_fp32(gradients);
  check_fp32(call.outputs.first(count));
  DType moments = call.outputs[count].dtype;
  SNUG_CHECK(moments == DType::f32 || moments == DType::bf16, "moments are fp32 or bf16");
  // 1 - beta in double: in fp32 the difference would lose most of its digits.
  Rates rates{.scalars = call.inputs[count].as<float>(),
              .norm = call.inputs[count + 1].as<float>(),
              .max_norm = attributes.max_norm,
              .beta1 = static_cast<float>(attributes.beta1),
              .beta2 = static_cast<float>(attributes.beta2),
              .one_minus_beta1 = static_cast<float>(1.0 - attributes.beta1),
              .one_minus_beta2 = static_cast<float>(1.0 - attributes.beta2),
              .epsilon = static_cast<float>(attributes.epsilon)};
  auto fill = [&](UpdateEntry& entry, size_t i) {
    entry.gradient = gradients[i].as<float>();
    entry.parameter = call.outputs[i].as<float>();
    entry.first = call.outputs[count + i].data;
    entry.second = call.outputs[2 * count + i].data;
    entry.copy = attributes.has_copies ? call.outputs[3 * count + i].data : nullptr;
    entry.weight_decay = attributes.weight_decay[i];
  };
  with_copy_type(attributes.has_copies ? &call.outputs[3 * count] : nullptr, [&](auto copy_type) {
    using Copy = typename decltype(copy_type)::type;
    for_each_list<UpdateEntry>(gradients, fill, [&](const TensorList<UpdateEntry>& list, int64_t) {
      if (moments == DType::f32) {
        adamw_kernel<float, Copy><<<list.blocks, kThreads, 0, queue.stream>>>(list, rates);
      } else {
        adamw_kernel<__nv_bfloat16, Copy><<<list.blocks, kThreads, 0, queue.stream>>>(list, rates);
      }
    });
  });
  check_launch("the optimizer's update");
}

}  // namespace snug::cuda
