// Ops that move or add elements: add, copy, fill. One thread a vector, fp32 sums, no order to depend on.
#include <cstring>

#include "backend/cuda/check.h"
#include "backend/cuda/kernel_functions.h"
#include "backend/cuda/vectors.cuh"

namespace snug::cuda {
namespace {

constexpr int kThreads = 256;

template <typename T, int N>
__global__ void add_kernel(const T* a, const T* b, T* y, int64_t elements, bool accumulate) {
  int64_t i = (static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x) * N;
  if (i >= elements) {
    return;
  }
  Vector<T, N> left = load<N>(a + i);
  Vector<T, N> right = load<N>(b + i);
  float sums[N];
#pragma unroll
  for (int j = 0; j < N; ++j) {
    sums[j] = to_float(left.at[j]) + to_float(right.at[j]);
  }
  write<N>(y + i, sums, accumulate);
}

__device__ inline double to_double(double value) {
  return value;
}
template <typename T>
__device__ inline double to_double(T value) {
  return static_cast<double>(to_float(value));
}

template <typename To>
__device__ inline To from_double(double value) {
  return round_to<To>(static_cast<float>(value));
}
template <>
__device__ inline double from_double<double>(double value) {
  return value;
}

template <typename From, typename To>
__global__ void convert_kernel(const From* x, To* y, int64_t elements, bool accumulate) {
  int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i < elements) {
    if constexpr (sizeof(From) < 8 && sizeof(To) < 8) {
      float value = to_float(x[i]);
      y[i] = round_to<To>(accumulate ? to_float(y[i]) + value : value);
    } else {
      double value = to_double(x[i]);
      y[i] = from_double<To>(accumulate ? to_double(y[i]) + value : value);
    }
  }
}

template <typename Body>
void with_copy_type(DType dtype, const Body& body) {
  if (dtype == DType::f64) {
    return body(TypeTag<double>{});
  }
  with_type(dtype, body);
}

template <typename Word>
__global__ void fill_kernel(Word* data, Word value, int64_t elements) {
  int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i < elements) {
    data[i] = value;
  }
}

template <typename Word>
void fill_words(const Queue& queue, const Tensor& tensor, Word value) {
  int64_t elements = tensor.elements();
  fill_kernel<<<blocks_for(elements, kThreads), kThreads, 0, queue.stream>>>(tensor.as<Word>(), value,
                                                                             elements);
}

template <typename Word, typename Value>
Word bits_of(Value value) {
  static_assert(sizeof(Word) == sizeof(Value));
  Word bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

void fill_tensor(const Queue& queue, const Tensor& tensor, float value) {
  if (value == 0.0F) {
    auto bytes = static_cast<size_t>(tensor.bytes());
    check(cudaMemsetAsync(tensor.data, 0, bytes, queue.stream), "clearing a buffer");
    return;
  }
  switch (tensor.dtype) {
    case DType::f32:
      return fill_words(queue, tensor, bits_of<uint32_t>(value));
    case DType::bf16:
      return fill_words(queue, tensor, to_bf16(value).bits);
    case DType::f16:
      return fill_words(queue, tensor, to_f16(value).bits);
    case DType::f64:
      return fill_words(queue, tensor, bits_of<uint64_t>(static_cast<double>(value)));
    case DType::i16:
      return fill_words(queue, tensor, bits_of<uint16_t>(static_cast<int16_t>(value)));
    case DType::i32:
      return fill_words(queue, tensor, bits_of<uint32_t>(static_cast<int32_t>(value)));
    case DType::i64:
      return fill_words(queue, tensor, bits_of<uint64_t>(static_cast<int64_t>(value)));
    case DType::u8:
      return fill_words(queue, tensor, static_cast<uint8_t>(value));
  }
}

}  // namespace

// y (= or +=) a + b; y may be a or b.
void add(const Queue& queue, const KernelCall& call) {
  const Tensor& y = call.outputs[0];
  int64_t elements = y.elements();
  if (elements == 0) {
    return;
  }
  bool accumulate = call.op.accumulates_output(0);
  with_type(y.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    with_width<T>(elements, [&](auto width) {
      constexpr int kWidth = decltype(width)::value;
      add_kernel<T, kWidth><<<blocks_for(elements, kThreads * kWidth), kThreads, 0, queue.stream>>>(
          call.inputs[0].as<T>(), call.inputs[1].as<T>(), y.as<T>(), elements, accumulate);
    });
  });
  check_launch("adding");
}

// y (= or +=) x in y's dtype. Integers are only moved.
void copy(const Queue& queue, const KernelCall& call) {
  const Tensor& x = call.inputs[0];
  const Tensor& y = call.outputs[0];
  SNUG_CHECK(x.elements() == y.elements(), "copy between tensors of different sizes");
  bool accumulate = call.op.accumulates_output(0);
  int64_t elements = x.elements();
  if (elements == 0) {
    return;
  }
  if (x.dtype == y.dtype && !accumulate) {
    // Default: the direction follows from the addresses, as copies also run between host and card.
    check(cudaMemcpyAsync(y.data, x.data, static_cast<size_t>(elements * size_of(x.dtype)), cudaMemcpyDefault,
                          queue.stream),
          "copying a buffer");
    return;
  }
  with_copy_type(x.dtype, [&](auto from) {
    with_copy_type(y.dtype, [&](auto to) {
      using From = typename decltype(from)::type;
      using To = typename decltype(to)::type;
      convert_kernel<<<blocks_for(elements, kThreads), kThreads, 0, queue.stream>>>(x.as<From>(), y.as<To>(),
                                                                                    elements, accumulate);
    });
  });
  check_launch("converting a buffer");
}

// Every output = value, whatever its dtype.
void fill(const Queue& queue, const KernelCall& call) {
  SNUG_CHECK(call.op.accumulates == 0, "fill writes, it does not add");
  for (const Tensor& output : call.outputs) {
    if (output.data != nullptr && output.elements() > 0) {
      fill_tensor(queue, output, attributes_of<FillAttributes>(call.op).value);
    }
  }
  check_launch("filling a buffer");
}

}  // namespace snug::cuda
