// The optimizer's ops: the norm over all gradients, and AdamW over all parameters, each in as few launches as
// its list of tensors fits in. The host reads nothing back.
#include <cmath>

#include "backend/adamw_formula.h"
#include "backend/cuda/check.h"
#include "backend/cuda/kernel_functions.h"
#include "backend/cuda/optimizer_lists.cuh"
#include "backend/cuda/update_by_chance.cuh"
#include "backend/cuda_plan/scratch.h"
#include "program/operands.h"

namespace snug::cuda {
namespace {

constexpr int kThreads = kUpdateThreads;

// Whether moments of this type are rounded by chance.
template <typename M>
inline constexpr bool kIsByChance = std::is_same_v<M, __nv_bfloat16>;

struct GradientEntry {
  GradientView gradient;
  int64_t elements = 0;
  uint32_t first_block = 0;
};

// sums[block] = the sum of squares of its elements, in fp64: a square may be too large for fp32.
__global__ void square_kernel(const __grid_constant__ TensorList<GradientEntry> list, double* sums) {
  const GradientEntry& entry = list.entry_of(blockIdx.x);
  int64_t begin = static_cast<int64_t>(blockIdx.x - entry.first_block) * kBlockElements;
  int64_t end = min(begin + kBlockElements, entry.elements);
  double sum = 0;
  auto add = [&](float gradient) { sum = fma(double{gradient}, double{gradient}, sum); };
  constexpr int kWidth = 8;
  for (int64_t i = begin + kWidth * threadIdx.x; i < end; i += kWidth * kThreads) {
    if (i + kWidth <= end) {
      Vector<float, kWidth> gradients = entry.gradient.load<kWidth>(i);
#pragma unroll
      for (float gradient : gradients.at) {
        add(gradient);
      }
    } else {
      for (int64_t j = i; j < end; ++j) {
        add(entry.gradient.at(j));
      }
    }
  }
  sum = block_sum(sum);
  if (threadIdx.x == 0) {
    sums[blockIdx.x] = sum;
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

// One element or, with fp32 moments, N from `i` on. `P` is the dtype of the parameters, `M` that of the
// moments (bf16 is rounded by chance), `Aside` what is beside a parameter.
template <int N, typename P, typename M, typename Aside>
__device__ inline void update_elements(const UpdateEntry& entry, int64_t i, const AdamwStep& step,
                                       float decay, const RandomStream& random) {
  static_assert(N == 1 || !kIsByChance<M>);
  Vector<float, N> gradient = entry.gradient.load<N>(i);
  Vector<P, N> parameter = load<N>(static_cast<P*>(entry.parameter) + i);
  Vector<M, N> first = load<N>(static_cast<M*>(entry.first) + i);
  Vector<M, N> second = load<N>(static_cast<M*>(entry.second) + i);
  Vector<Aside, N> aside{};
  if constexpr (kIsRest<Aside>) {
    aside = load<N>(static_cast<Aside*>(entry.beside) + i);
  }
  uint32_t words[2] = {};
  if constexpr (kIsByChance<M>) {
    auto four = philox(random.seed, random.stream, static_cast<uint64_t>(i / 2));
    words[0] = four[i % 2 * 2];
    words[1] = four[i % 2 * 2 + 1];
  }
#pragma unroll
  for (int j = 0; j < N; ++j) {
    float before = exact_value(parameter.at[j], aside.at[j]);
    AdamwElement after =
        updated(step, decay, gradient.at[j], {before, to_float(first.at[j]), to_float(second.at[j])});
    put(after.first, words[0], first.at[j]);
    put(after.second, words[0] >> 16, second.at[j]);
    put(after.parameter, words[1], parameter.at[j], aside.at[j]);
  }
  store<N>(static_cast<P*>(entry.parameter) + i, parameter);
  store<N>(static_cast<M*>(entry.first) + i, first);
  store<N>(static_cast<M*>(entry.second) + i, second);
  if constexpr (!std::is_same_v<Aside, None>) {
    store<N>(static_cast<Aside*>(entry.beside) + i, aside);
  }
}

// A norm that is not finite means that the gradients are not: the update is skipped.
template <typename P, typename M, typename Aside>
__global__ void __launch_bounds__(kThreads, kIsByChance<M> ? 4 : 1)
    adamw_kernel(const __grid_constant__ TensorList<UpdateEntry> list, UpdateInputs inputs) {
  constexpr int kWidth = kIsByChance<M> ? kElementsAtOnce : 4;
  const UpdateEntry& entry = list.entry_of(blockIdx.x);
  int64_t begin = static_cast<int64_t>(blockIdx.x - entry.first_block) * kBlockElements;
  int64_t end = min(begin + kBlockElements, entry.elements);
  float norm = inputs.norm[0];
  if (!isfinite(norm)) {
    return;
  }
  StepScalars scalars = *inputs.scalars;
  AdamwStep step = make_step(inputs.rates, scalars, norm);
  float decay = decay_factor(scalars.learning_rate, entry.weight_decay);
  RandomStream random;
  if constexpr (kIsByChance<M>) {
    random = {
        static_cast<uint64_t>(inputs.random[0]),
        rounding_stream(inputs.random[1], list.first_tensor + static_cast<uint64_t>(&entry - list.entries))};
  }
  int64_t i = begin + kWidth * threadIdx.x;
  if constexpr (kIsByChance<M>) {
    __shared__ typename Ahead<P>::Memory memory;
    Ahead<P> ahead(memory);
    auto start = [&](int64_t first, int turn) {
      if (first + kWidth <= end) {
        ahead.start(entry, first, turn);
      }
      __pipeline_commit();
    };
    start(i, 0);
    for (int turn = 0; i + kWidth <= end; i += kWidth * kThreads, ++turn) {
      start(i + kWidth * kThreads, turn + 1);
      update_by_chance<P, Aside>(entry, i, step, decay, random, Turn<P>{ahead, turn});
    }
  } else {
    for (; i + kWidth <= end; i += kWidth * kThreads) {
      update_elements<kWidth, P, M, Aside>(entry, i, step, decay, random);
    }
  }
  for (int64_t last = i + kWidth; i < min(last, end); ++i) {  // fewer than kWidth are left
    update_elements<1, P, M, Aside>(entry, i, step, decay, random);
  }
}

// Calls body(TypeTag<P>, TypeTag<M>, TypeTag<Aside>) for the formats that compile/optimizer.cc makes.
template <typename Body>
void with_formats(const KernelCall& call, const AdamwPlaces& places, const Body& body) {
  using Bf16 = __nv_bfloat16;
  DType moments = call.outputs[places.first_moment(0)].dtype;
  SNUG_CHECK(moments == DType::f32 || moments == DType::bf16, "moments are fp32 or bf16");
  with_parameter_types(call, places, [&](auto parameter_type, auto aside_type) {
    using P = typename decltype(parameter_type)::type;
    using Aside = typename decltype(aside_type)::type;
    if constexpr (kIsRest<Aside>) {
      SNUG_CHECK(moments == DType::f32, "parameters with a rest go with fp32 moments");
      body(parameter_type, TypeTag<float>{}, aside_type);
    } else if constexpr (std::is_same_v<P, Bf16>) {
      SNUG_CHECK(moments == DType::bf16, "bf16 parameters beside fp32 moments have a rest");
      body(parameter_type, TypeTag<Bf16>{}, aside_type);
    } else if (moments == DType::bf16) {
      body(parameter_type, TypeTag<Bf16>{}, aside_type);
    } else {
      body(parameter_type, TypeTag<float>{}, aside_type);
    }
  });
}

}  // namespace

void gradient_norm(const Queue& queue, const KernelCall& call) {
  int64_t blocks = 0;
  for (const Tensor& gradient : call.inputs) {
    blocks += blocks_of(gradient.elements());
  }
  double* sums = Scratch(call.workspace).take<double>(blocks);
  auto launch = [&](const TensorList<GradientEntry>& list, int64_t first_block) {
    square_kernel<<<list.blocks, kThreads, 0, queue.stream>>>(list, sums + first_block);
  };
  ListFiller<GradientEntry, decltype(launch)> filler(launch);
  for (const Tensor& gradient : call.inputs) {
    filler.add({.gradient = GradientView::of(gradient), .elements = gradient.elements()});
  }
  filler.finish();
  norm_kernel<<<1, kThreads, 0, queue.stream>>>(sums, blocks, call.outputs[0].as<float>());
  check_launch("the norm of the gradients");
}

// Updates parameters, moments, and copies or rests in one pass.
void adamw(const Queue& queue, const KernelCall& call) {
  const auto& attributes = attributes_of<AdamwAttributes>(call.op);
  AdamwPlaces places(attributes);
  SNUG_CHECK(call.inputs.size() > places.norm(), "adamw's inputs are gradients, scalars and norm");
  SNUG_CHECK(call.outputs.size() == places.output_count(),
             "adamw's outputs are parameters, moments and what is beside parameters");
  std::span<const Tensor> gradients = call.inputs.first(places.count());
  UpdateInputs inputs{
      .rates = rates_of(attributes),
      .scalars = call.inputs[places.scalars()].as<StepScalars>(),
      .norm = call.inputs[places.norm()].as<float>(),
      .random = call.has_input(places.random()) ? call.inputs[places.random()].as<int64_t>() : nullptr};
  auto entry_of = [&](size_t i) {
    return UpdateEntry{.gradient = GradientView::of(gradients[i]),
                       .parameter = call.outputs[places.parameter(i)].data,
                       .first = call.outputs[places.first_moment(i)].data,
                       .second = call.outputs[places.second_moment(i)].data,
                       .beside = places.has_beside() ? call.outputs[places.beside(i)].data : nullptr,
                       .elements = gradients[i].elements(),
                       .weight_decay = attributes.weight_decay[i]};
  };
  with_formats(call, places, [&](auto parameter_type, auto moment_type, auto aside_type) {
    using P = typename decltype(parameter_type)::type;
    using M = typename decltype(moment_type)::type;
    using Aside = typename decltype(aside_type)::type;
    auto launch = [&](const TensorList<UpdateEntry>& list, int64_t) {
      adamw_kernel<P, M, Aside><<<list.blocks, kThreads, 0, queue.stream>>>(list, inputs);
    };
    ListFiller<UpdateEntry, decltype(launch)> filler(launch);
    for (size_t i = 0; i < places.count(); ++i) {
      filler.add(entry_of(i));
    }
    filler.finish();
  });
  check_launch("the optimizer's update");
}

}  // namespace snug::cuda
