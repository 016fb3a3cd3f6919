// Adafactor (backend/adafactor_formula.h), tensor by tensor: means of rows and columns, the factors that
// follow from them, the size of the update, and the update. Every sum has one order.
#include <cmath>
#include <type_traits>

#include "backend/adafactor_formula.h"
#include "backend/cuda/check.h"
#include "backend/cuda/kernel_functions.h"
#include "backend/cuda/optimizer_lists.cuh"
#include "backend/cuda_plan/adafactor_scratch.h"
#include "program/operands.h"

namespace snug::cuda {
namespace {

constexpr int kThreads = kUpdateThreads;

__device__ inline AdafactorStep step_of(const AdafactorNumbers& numbers) {
  return {numbers.gradient_scale, numbers.beta, numbers.one_minus_beta, numbers.learning_rate};
}

__device__ inline double square_of(float gradient, float scale) {
  auto g = static_cast<double>(gradient * scale);
  return g * g;
}

__global__ void step_kernel(float max_norm, const StepScalars* scalars, const float* norm,
                            const StepClock* clock, AdafactorNumbers* numbers) {
  AdafactorStep step = make_adafactor_step(max_norm, *scalars, norm[0], clock->updates);
  *numbers = {step.gradient_scale, step.beta, step.one_minus_beta, step.learning_rate, 0.0F, 0.0F};
}

// Mean squares of rows, a warp each. Of a vector, whose rows have one element, a thread does one row.
__global__ void rows_kernel(GradientView gradient, int64_t rows, int64_t length, float* means,
                            const float* norm, const AdafactorNumbers* numbers) {
  if (!isfinite(norm[0])) {
    return;
  }
  AdafactorStep step = step_of(*numbers);
  int64_t thread = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  int lanes = length == 1 ? 1 : 32;
  int64_t row = thread / lanes;
  if (row >= rows) {
    return;
  }
  double sum = 0;
  for (int64_t i = thread % lanes; i < length; i += lanes) {
    sum += square_of(gradient.at(row * length + i), step.gradient_scale);
  }
  if (lanes > 1) {
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2) {
      sum += __shfl_xor_sync(0xffffffffU, sum, offset);
    }
  }
  if (thread % lanes == 0) {
    means[row] = moved_mean(step, means[row], sum / static_cast<double>(length));
  }
}

// sums[chunk, column]: a thread a column, a row of blocks a chunk of rows.
__global__ void columns_kernel(GradientView gradient, int64_t rows, int64_t length, int64_t rows_a_chunk,
                               const AdafactorNumbers* numbers, double* sums) {
  int64_t column = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (column >= length) {
    return;
  }
  int64_t first = blockIdx.y * rows_a_chunk;
  int64_t last = min(first + rows_a_chunk, rows);
  double sum = 0;
  for (int64_t row = first; row < last; ++row) {
    sum += square_of(gradient.at(row * length + column), numbers->gradient_scale);
  }
  sums[blockIdx.y * length + column] = sum;
}

__global__ void mean_kernel(const float* rows, int64_t count, AdafactorNumbers* numbers) {
  double sum = 0;
  for (int64_t i = threadIdx.x; i < count; i += kThreads) {
    sum += static_cast<double>(rows[i]);
  }
  sum = block_sum(sum);
  if (threadIdx.x == 0) {
    numbers->mean_of_rows = static_cast<float>(sum / static_cast<double>(count));
  }
}

// Columns' means, and the factors of rows and columns: a thread for each of both.
__global__ void factors_kernel(FactoredTensor tensor, int64_t chunks, float* means, const float* norm,
                               AdafactorScratch scratch) {
  if (!isfinite(norm[0])) {
    return;
  }
  int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  int64_t length = tensor.row_length();
  if (i < tensor.rows) {
    scratch.row_factors[i] =
        tensor.is_matrix() ? row_factor(means[i], scratch.numbers->mean_of_rows) : inverse_root(means[i]);
    return;
  }
  int64_t column = i - tensor.rows;
  if (column >= length) {
    return;
  }
  if (!tensor.is_matrix()) {
    scratch.column_factors[column] = 1;
    return;
  }
  double sum = 0;
  for (int64_t chunk = 0; chunk < chunks; ++chunk) {
    sum += scratch.column_sums[chunk * length + column];
  }
  float& mean = means[tensor.rows + column];
  mean = moved_mean(step_of(*scratch.numbers), mean, sum / static_cast<double>(tensor.rows));
  scratch.column_factors[column] = inverse_root(mean);
}

__device__ inline float change_of(const GradientView& gradient, int64_t i, int64_t length,
                                  const AdafactorScratch& scratch) {
  int64_t row = i / length;
  float factor = scratch.row_factors[row] * scratch.column_factors[i - row * length];
  return gradient.at(i) * scratch.numbers->gradient_scale * factor;
}

__global__ void squares_kernel(GradientView gradient, int64_t elements, int64_t length,
                               AdafactorScratch scratch) {
  int64_t begin = static_cast<int64_t>(blockIdx.x) * kBlockElements;
  int64_t end = min(begin + kBlockElements, elements);
  double sum = 0;
  for (int64_t i = begin + threadIdx.x; i < end; i += kThreads) {
    auto u = static_cast<double>(change_of(gradient, i, length, scratch));
    sum += u * u;
  }
  sum = block_sum(sum);
  if (threadIdx.x == 0) {
    scratch.sums[blockIdx.x] = sum;
  }
}

__global__ void size_kernel(int64_t elements, int64_t blocks, AdafactorScratch scratch) {
  double sum = 0;
  for (int64_t i = threadIdx.x; i < blocks; i += kThreads) {
    sum += scratch.sums[i];
  }
  sum = block_sum(sum);
  if (threadIdx.x == 0) {
    scratch.numbers->step_size = step_size(step_of(*scratch.numbers), sum, elements);
  }
}

struct ApplyArguments {
  GradientView gradient;
  void* parameter;
  void* beside;
  int64_t elements;
  int64_t length;
  float weight_decay;
  uint64_t number;        // of the tensor, for random bits
  const int64_t* random;  // seed, step
  const float* norm;
};

// A thread has the eight elements that share a counter. `P` is the dtype of the parameters (bf16 without a
// rest is rounded by chance), `Aside` what is beside a parameter. With a norm that is not finite nothing
// changes.
template <typename P, typename Aside>
__global__ void apply_kernel(ApplyArguments a, AdafactorScratch scratch) {
  int64_t counter = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  constexpr int64_t kLanes = kRoundingBlock / kElementsACounter;
  int64_t block = counter / kLanes * kRoundingBlock;
  if (block >= a.elements || !isfinite(a.norm[0])) {
    return;
  }
  AdafactorNumbers numbers = *scratch.numbers;
  float decay = decay_factor(numbers.learning_rate, a.weight_decay);
  Aside nothing{};
  std::array<uint32_t, 4> words{};
  if constexpr (std::is_same_v<P, __nv_bfloat16> && !kIsRest<Aside>) {
    words = philox(static_cast<uint64_t>(a.random[0]), rounding_stream(a.random[1], a.number),
                   static_cast<uint64_t>(counter));
  }
#pragma unroll
  for (int j = 0; j < kElementsACounter; ++j) {
    int64_t i = block + j / 4 * (kRoundingBlock / 2) + counter % kLanes * 4 + j % 4;
    if (i >= a.elements) {
      continue;
    }
    P& parameter = static_cast<P*>(a.parameter)[i];
    float change = change_of(a.gradient, i, a.length, scratch);
    Aside& aside = std::is_same_v<Aside, None> ? nothing : static_cast<Aside*>(a.beside)[i];
    float moved = moved_parameter(exact_value(parameter, aside), decay, numbers.step_size, change);
    put(moved, words[static_cast<size_t>(j / 2)] >> j % 2 * 16, parameter, aside);
  }
}

}  // namespace

// Updates parameters, mean squares, and copies or rests.
void adafactor(const Queue& queue, const KernelCall& call) {
  const auto& attributes = attributes_of<AdafactorAttributes>(call.op);
  AdafactorPlaces places(attributes);
  SNUG_CHECK(call.outputs.size() == places.output_count(),
             "adafactor's outputs are parameters, mean squares and what is beside parameters");
  const auto* norm = call.inputs[places.norm()].as<float>();
  cudaStream_t stream = queue.stream;
  auto* numbers = Scratch(call.workspace).take<AdafactorNumbers>(1);  // the same place for all tensors
  step_kernel<<<1, 1, 0, stream>>>(attributes.max_norm, call.inputs[places.scalars()].as<StepScalars>(), norm,
                                   call.inputs[places.clock()].as<StepClock>(), numbers);
  for (size_t n = 0; n < attributes.tensors.size(); ++n) {
    const FactoredTensor& tensor = attributes.tensors[n];
    size_t i = tensor.parameter;
    AdafactorScratch scratch(Scratch(call.workspace), tensor);
    GradientView gradient = GradientView::of(call.inputs[places.gradient(i)], tensor.first_element);
    auto* means = call.outputs[places.mean_squares(i)].as<float>() + tensor.first_state;
    int64_t rows = tensor.rows;
    int64_t length = tensor.row_length();
    int64_t threads = tensor.is_matrix() ? 32 * rows : rows;
    rows_kernel<<<blocks_for(threads, kThreads), kThreads, 0, stream>>>(gradient, rows, length, means, norm,
                                                                        numbers);
    if (tensor.is_matrix()) {
      dim3 grid(blocks_for(length, kThreads), static_cast<unsigned>(row_chunks(rows)));
      columns_kernel<<<grid, kThreads, 0, stream>>>(gradient, rows, length, chunk_rows(rows), numbers,
                                                    scratch.column_sums);
      mean_kernel<<<1, kThreads, 0, stream>>>(means, rows, numbers);
    }
    factors_kernel<<<blocks_for(rows + length, kThreads), kThreads, 0, stream>>>(tensor, row_chunks(rows),
                                                                                 means, norm, scratch);
    int64_t blocks = blocks_of(tensor.elements());
    squares_kernel<<<static_cast<unsigned>(blocks), kThreads, 0, stream>>>(gradient, tensor.elements(),
                                                                           length, scratch);
    size_kernel<<<1, kThreads, 0, stream>>>(tensor.elements(), blocks, scratch);
    with_parameter_types(call, places, [&](auto parameter_type, auto aside_type) {
      using P = typename decltype(parameter_type)::type;
      using Aside = typename decltype(aside_type)::type;
      ApplyArguments arguments{
          .gradient = gradient,
          .parameter = call.outputs[places.parameter(i)].as<P>() + tensor.first_element,
          .beside = nullptr,
          .elements = tensor.elements(),
          .length = length,
          .weight_decay = attributes.weight_decay[i],
          .number = n,
          .random = call.has_input(places.random()) ? call.inputs[places.random()].as<int64_t>() : nullptr,
          .norm = norm};
      if constexpr (!std::is_same_v<Aside, None>) {
        arguments.beside = call.outputs[places.beside(i)].as<Aside>() + tensor.first_element;
      }
      int64_t counters =
          (tensor.elements() + kRoundingBlock - 1) / kRoundingBlock * (kRoundingBlock / kElementsACounter);
      apply_kernel<P, Aside><<<blocks_for(counters, kThreads), kThreads, 0, stream>>>(arguments, scratch);
    });
  }
  check_launch("Adafactor's update");
}

}  // namespace snug::cuda
