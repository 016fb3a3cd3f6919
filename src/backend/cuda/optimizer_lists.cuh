// What the optimizer's kernels share: lists of tensors that travel as a kernel's parameter, and what all
// blocks of an update read.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "backend/adamw_formula.h"
#include "backend/cuda/vectors.cuh"
#include "backend/cuda_plan/optimizer_blocks.h"
#include "base/rng.h"
#include "base/split_float.h"
#include "program/step_clock.h"

namespace snug::cuda {

inline constexpr int kUpdateThreads = 256;

// A kernel's parameters hold 32,764 bytes.
template <typename Entry>
inline constexpr int kMostEntries = std::min(512, 28672 / static_cast<int>(sizeof(Entry)));

// The tensors of one launch, each with its `elements` and `first_block`. Block b works on the last tensor
// whose first block is not after b.
template <typename Entry>
struct TensorList {
  Entry entries[kMostEntries<Entry>];
  int count = 0;
  uint32_t blocks = 0;
  uint64_t first_tensor = 0;  // of all that the op updates

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

// Collects entries; launch(list, blocks of the launches before) is called for each list that is full, and by
// finish() for the last one.
template <typename Entry, typename Launch>
class ListFiller {
 public:
  explicit ListFiller(const Launch& launch) : launch_(launch) {}

  // `entry` says everything but its first block.
  void add(const Entry& entry) {
    if (list_.count == kMostEntries<Entry>) {
      finish();
    }
    Entry& added = list_.entries[list_.count++];
    added = entry;
    added.first_block = list_.blocks;
    list_.blocks += static_cast<uint32_t>(blocks_of(entry.elements));
  }

  void finish() {
    if (list_.count == 0) {
      return;
    }
    launch_(list_, blocks_before_);
    blocks_before_ += list_.blocks;
    list_.first_tensor += static_cast<uint64_t>(list_.count);
    list_.count = 0;
    list_.blocks = 0;
  }

 private:
  const Launch& launch_;
  TensorList<Entry> list_;
  int64_t blocks_before_ = 0;
};

// What all blocks of an update read.
struct UpdateInputs {
  AdamwRates rates;
  const StepScalars* scalars;
  const float* norm;
  const int64_t* random;  // seed, step; null where nothing is rounded by chance
};

// The sum over a block of kUpdateThreads, in one order whatever the values. Once a kernel for each `kPlace`:
// what it shares is not free again before all threads have read it.
template <int kPlace = 0>
__device__ inline double block_sum(double value) {
  constexpr int kWarps = kUpdateThreads / 32;
  __shared__ double shared[kWarps];
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) {
    value += __shfl_xor_sync(0xffffffffU, value, offset);
  }
  if (threadIdx.x % 32 == 0) {
    shared[threadIdx.x / 32] = value;
  }
  __syncthreads();
  double total = 0;
  for (int i = 0; i < kWarps; ++i) {
    total += shared[i];
  }
  return total;
}

// The gradients of a tensor, fp32 or bf16: one launch has both. All threads of a block read one tensor, so
// that they go one way.
struct GradientView {
  const void* data = nullptr;
  bool is_bf16 = false;

  static GradientView of(const Tensor& tensor, int64_t first = 0) {
    SNUG_CHECK(tensor.dtype == DType::f32 || tensor.dtype == DType::bf16, "gradients are fp32 or bf16");
    return {tensor.as<std::byte>() + first * size_of(tensor.dtype), tensor.dtype == DType::bf16};
  }
  __device__ float at(int64_t i) const {
    return is_bf16 ? to_float(static_cast<const __nv_bfloat16*>(data)[i])
                   : static_cast<const float*>(data)[i];
  }
  __device__ const void* address(int64_t i) const {
    return static_cast<const std::byte*>(data) + (is_bf16 ? 2 : 4) * i;
  }
  // N neighbours; i is a multiple of N.
  template <int N>
  __device__ Vector<float, N> load(int64_t i) const {
    if (!is_bf16) {
      return cuda::load<N>(static_cast<const float*>(data) + i);
    }
    Vector<__nv_bfloat16, N> narrow = cuda::load<N>(static_cast<const __nv_bfloat16*>(data) + i);
    Vector<float, N> values;
#pragma unroll
    for (int j = 0; j < N; ++j) {
      values.at[j] = to_float(narrow.at[j]);
    }
    return values;
  }
};

inline bool begins_aligned(const void* address) {
  return reinterpret_cast<uintptr_t>(address) % 16 == 0;
}

// Up to four neighbours; `count` may be negative.
template <typename T>
__device__ inline Vector<T, 4> load_some(const T* source, int64_t count, bool is_aligned) {
  if (is_aligned && count >= 4) {
    return load<4>(source);
  }
  Vector<T, 4> values{};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    if (i < count) {
      values.at[i] = source[i];
    }
  }
  return values;
}

__device__ inline Vector<float, 4> load_some(const GradientView& gradient, int64_t first, int64_t count,
                                             bool is_aligned) {
  if (is_aligned && count >= 4) {
    return gradient.load<4>(first);
  }
  Vector<float, 4> values{};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    if (i < count) {
      values.at[i] = gradient.at(first + i);
    }
  }
  return values;
}

template <typename T>
__device__ inline void store_some(T* destination, const Vector<T, 4>& values, int64_t count,
                                  bool is_aligned) {
  if (is_aligned && count >= 4) {
    store<4>(destination, values);
    return;
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    if (i < count) {
      destination[i] = values.at[i];
    }
  }
}

// What is beside a parameter, as a type: nothing, a compute copy (__half), or a rest (int16_t).
struct None {};
template <typename Aside>
inline constexpr bool kIsRest = std::is_same_v<Aside, int16_t>;

__device__ inline void put(float value, uint32_t, float& target) {
  target = value;
}
__device__ inline void put(float value, uint32_t random_bits, __nv_bfloat16& target) {
  target = __ushort_as_bfloat16(stochastic_bf16_bits(value, random_bits));
}

// A parameter's exact value, and putting a new one into it and what is beside it. Without a rest bf16 is
// rounded by chance.
template <typename P, typename Aside>
__device__ inline float exact_value(P parameter, Aside) {
  return to_float(parameter);
}
__device__ inline float exact_value(__nv_bfloat16 parameter, int16_t rest) {
  return join_float({__bfloat16_as_ushort(parameter), rest});
}

template <typename P>
__device__ inline void put(float value, uint32_t random_bits, P& parameter, None&) {
  put(value, random_bits, parameter);
}
__device__ inline void put(float value, uint32_t, float& parameter, __half& copy) {
  parameter = value;
  copy = round_to<__half>(value);
}
__device__ inline void put(float value, uint32_t, __nv_bfloat16& parameter, int16_t& rest) {
  SplitFloat halves = split_float(value);
  parameter = __ushort_as_bfloat16(halves.bf16_bits);
  rest = halves.rest;
}

// Calls body(TypeTag<P>, TypeTag<Aside>) for the parameters and what is beside them that compile/optimizer.cc
// makes; all parameters of an update are alike.
template <typename Places, typename Body>
void with_parameter_types(const KernelCall& call, const Places& places, const Body& body) {
  DType parameter = call.outputs[places.parameter(0)].dtype;
  switch (places.kind_beside()) {
    case Beside::nothing:
      if (parameter == DType::bf16) {
        return body(TypeTag<__nv_bfloat16>{}, TypeTag<None>{});
      }
      SNUG_CHECK(parameter == DType::f32, "parameters alone are fp32 or bf16");
      return body(TypeTag<float>{}, TypeTag<None>{});
    case Beside::compute_copy:
      SNUG_CHECK(parameter == DType::f32 && call.outputs[places.beside(0)].dtype == DType::f16,
                 "compute copies are fp16, of fp32 parameters");
      return body(TypeTag<float>{}, TypeTag<__half>{});
    case Beside::rest:
      SNUG_CHECK(parameter == DType::bf16, "rests are of bf16 parameters");
      return body(TypeTag<__nv_bfloat16>{}, TypeTag<int16_t>{});
  }
}

}  // namespace snug::cuda
