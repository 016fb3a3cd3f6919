// AdamW with moments in 8 bits (backend/adamw_8bit_formula.h): one pass over memory, a warp for each block of
// 256 elements, whose largest magnitudes its threads find by exchanging registers.
#include <cmath>
#include <span>

#include "backend/adamw_8bit_formula.h"
#include "backend/cuda/check.h"
#include "backend/cuda/kernel_functions.h"
#include "backend/cuda/optimizer_lists.cuh"
#include "backend/state_parts.h"
#include "program/operands.h"

namespace snug::cuda {
namespace {

constexpr int kWarps = kUpdateThreads / 32;
constexpr int kHalf = static_cast<int>(kStateBlock) / 2;
static_assert(kHalf == 32 * 4, "a thread has 4 neighbours of each half of a block");
static_assert(kUpdateThreads == kDynamicMapEntries, "a thread copies one value of each map");
static_assert(kBlockElements % (kWarps * kStateBlock) == 0);

// A tensor of the file, or of an adapter.
struct PartEntry {
  GradientView gradient;
  void* parameter = nullptr;
  void* copy = nullptr;
  MomentPart first = {};
  MomentPart second = {};
  int64_t elements = 0;
  uint32_t first_block = 0;
  float weight_decay = 0;
  bool plain = false;       // the moments are fp32
  bool is_aligned = false;  // gradient, parameter and copy begin at a multiple of 16 bytes
};

// The values of codes, and the bounds between them.
struct Levels {
  float map[kDynamicMapEntries];
  float bounds[kBoundNodes];

  __device__ void fill(const float* values) {
    map[threadIdx.x] = values[threadIdx.x];
    bounds[threadIdx.x] = threadIdx.x == 0 ? 0.0F : node_bound(values, threadIdx.x);
  }
};

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

// The eight elements of a thread: four neighbours in each half of the block.
struct Places {
  int64_t begin;  // of the block, within the tensor
  int64_t count;  // of its elements
  int first;      // within the block

  __device__ int64_t place(int half) const { return begin + half * kHalf + first; }
  __device__ int64_t left(int half) const { return count - half * kHalf - first; }
};

__device__ inline void read_moments(const MomentPart& moment, bool plain, const Places& places,
                                    const Levels& levels, float (&values)[8]) {
  float scale = plain ? 1.0F : moment.scales[places.begin / kStateBlock];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    if (plain) {
      auto some =
          load_some(static_cast<const float*>(moment.values) + places.place(half), places.left(half), true);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        values[4 * half + i] = some.at[i];
      }
    } else {
      auto some =
          load_some(static_cast<const uint8_t*>(moment.values) + places.place(half), places.left(half), true);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        values[4 * half + i] = levels.map[some.at[i]] * scale;
      }
    }
  }
}

// `largest` is that of the thread's elements.
template <bool kKeepsSign>
__device__ inline void write_moments(const MomentPart& moment, bool plain, const Places& places,
                                     const Levels& levels, const float (&values)[8], float largest) {
  if (plain) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      Vector<float, 4> some;
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        some.at[i] = values[4 * half + i];
      }
      store_some(static_cast<float*>(moment.values) + places.place(half), some, places.left(half), true);
    }
    return;
  }
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) {
    largest = fmaxf(largest, __shfl_xor_sync(0xffffffffU, largest, offset));
  }
  if (places.first == 0) {
    moment.scales[places.begin / kStateBlock] = largest;
  }
  float factor = scale_factor(largest);
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    Vector<uint8_t, 4> codes;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      float value = values[4 * half + i];
      codes.at[i] = dynamic_code(levels.bounds, value * factor);
      if constexpr (kKeepsSign) {
        codes.at[i] = with_sign_of(value, codes.at[i], levels.map);
      }
    }
    store_some(static_cast<uint8_t*>(moment.values) + places.place(half), codes, places.left(half), true);
  }
}

struct BlockStep {
  Adamw8bitStep step;
  float decay;
  uint64_t seed;
  uint64_t stream;
};

// One block of a tensor, by one warp. `P` is the dtype of the parameters, `Copy` that of the compute copy or
// None.
template <typename P, typename Copy>
__device__ inline void update_block(const PartEntry& entry, const Places& places, const BlockStep& step,
                                    const Levels& first_levels, const Levels& second_levels) {
  float first[8];
  float second[8];
  read_moments(entry.first, entry.plain, places, first_levels, first);
  read_moments(entry.second, entry.plain, places, second_levels, second);
  std::array<uint32_t, 4> words{};
  if constexpr (std::is_same_v<P, __nv_bfloat16>) {
    words = philox(step.seed, step.stream, rounding_place(places.place(0)).counter);
  }
  float largest_first = 0;
  float largest_second = 0;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    int64_t place = places.place(half);
    int64_t left = places.left(half);
    Vector<float, 4> gradient = load_some(entry.gradient, place, left, entry.is_aligned);
    auto parameter = load_some(static_cast<P*>(entry.parameter) + place, left, entry.is_aligned);
    Vector<std::conditional_t<std::is_same_v<Copy, None>, float, Copy>, 4> copy;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      int at = 4 * half + i;
      AdamwElement after =
          updated(step.step, step.decay, gradient.at[i], {to_float(parameter.at[i]), first[at], second[at]});
      first[at] = i < left ? after.first : 0.0F;
      second[at] = i < left ? after.second : 0.0F;
      largest_first = fmaxf(largest_first, fabsf(first[at]));
      largest_second = fmaxf(largest_second, fabsf(second[at]));
      put(after.parameter, words[static_cast<size_t>(at / 2)] >> at % 2 * 16, parameter.at[i]);
      if constexpr (!std::is_same_v<Copy, None>) {
        copy.at[i] = round_to<Copy>(after.parameter);
      }
    }
    store_some(static_cast<P*>(entry.parameter) + place, parameter, left, entry.is_aligned);
    if constexpr (!std::is_same_v<Copy, None>) {
      store_some(static_cast<Copy*>(entry.copy) + place, copy, left, entry.is_aligned);
    }
  }
  write_moments<true>(entry.first, entry.plain, places, first_levels, first, largest_first);
  write_moments<false>(entry.second, entry.plain, places, second_levels, second, largest_second);
}

// A norm that is not finite means that the gradients are not: the update is skipped.
template <typename P, typename Copy>
__global__ void __launch_bounds__(kUpdateThreads)
    adamw_8bit_kernel(const __grid_constant__ TensorList<PartEntry> list, UpdateInputs inputs,
                      const float* maps) {
  __shared__ Levels first_levels;
  __shared__ Levels second_levels;
  first_levels.fill(maps);
  second_levels.fill(maps + kDynamicMapEntries);
  __syncthreads();
  const PartEntry& entry = list.entry_of(blockIdx.x);
  int64_t begin = static_cast<int64_t>(blockIdx.x - entry.first_block) * kBlockElements;
  int64_t end = min(begin + kBlockElements, entry.elements);
  float norm = inputs.norm[0];
  if (!isfinite(norm)) {
    return;
  }
  StepScalars scalars = *inputs.scalars;
  auto number = list.first_tensor + static_cast<uint64_t>(&entry - list.entries);
  BlockStep step{.step = make_8bit_step(inputs.rates, scalars, norm),
                 .decay = decay_factor(scalars.learning_rate, entry.weight_decay),
                 .seed = static_cast<uint64_t>(inputs.random[0]),
                 .stream = rounding_stream(inputs.random[1], number)};
  int warp = static_cast<int>(threadIdx.x) / 32;
  int lane = static_cast<int>(threadIdx.x) % 32;
  for (int64_t block = begin + warp * kStateBlock; block < end; block += kWarps * kStateBlock) {
    Places places{.begin = block, .count = min(kStateBlock, end - block), .first = 4 * lane};
    update_block<P, Copy>(entry, places, step, first_levels, second_levels);
  }
}

bool begins_aligned(const void* address) {
  return reinterpret_cast<uintptr_t>(address) % 16 == 0;
}

// Calls body(TypeTag<P>, TypeTag<Copy>) for the formats that compile/optimizer.cc makes.
template <typename Body>
void with_formats(DType parameters, const Tensor* copy, const Body& body) {
  if (copy != nullptr) {
    SNUG_CHECK(parameters == DType::f32 && copy->dtype == DType::f16, "compute copies are fp16");
    return body(TypeTag<float>{}, TypeTag<__half>{});
  }
  if (parameters == DType::bf16) {
    return body(TypeTag<__nv_bfloat16>{}, TypeTag<None>{});
  }
  SNUG_CHECK(parameters == DType::f32, "parameters are fp32 or bf16");
  body(TypeTag<float>{}, TypeTag<None>{});
}

}  // namespace

// Updates parameters, moments and compute copies in one pass.
void adamw_8bit(const Queue& queue, const KernelCall& call) {
  const auto& attributes = attributes_of<AdamwAttributes>(call.op);
  AdamwPlaces places(attributes);
  SNUG_CHECK(call.outputs.size() == places.output_count(),
             "adamw_8bit's outputs are parameters, moments and copies");
  UpdateInputs inputs{.rates = rates_of(attributes),
                      .scalars = call.inputs[places.scalars()].as<StepScalars>(),
                      .norm = call.inputs[places.norm()].as<float>(),
                      .random = call.inputs[places.random()].as<int64_t>()};
  const auto* maps = call.inputs[places.maps()].as<float>();
  const Tensor* copy = places.has_beside() ? &call.outputs[places.beside(0)] : nullptr;
  with_formats(call.outputs[places.parameter(0)].dtype, copy, [&](auto parameter_type, auto copy_type) {
    using P = typename decltype(parameter_type)::type;
    using Copy = typename decltype(copy_type)::type;
    auto launch = [&](const TensorList<PartEntry>& list, int64_t) {
      adamw_8bit_kernel<P, Copy><<<list.blocks, kUpdateThreads, 0, queue.stream>>>(list, inputs, maps);
    };
    ListFiller<PartEntry, decltype(launch)> filler(launch);
    auto add = [&](size_t i, const StatePart& part) {
      PartEntry entry{.gradient = GradientView::of(call.inputs[places.gradient(i)], part.first_element),
                      .parameter = call.outputs[places.parameter(i)].as<P>() + part.first_element,
                      .copy = nullptr,
                      .first = part.first,
                      .second = part.second,
                      .elements = part.elements,
                      .weight_decay = attributes.weight_decay[i],
                      .plain = part.plain};
      if constexpr (!std::is_same_v<Copy, None>) {
        entry.copy = call.outputs[places.beside(i)].as<Copy>() + part.first_element;
      }
      entry.is_aligned = begins_aligned(entry.gradient.data) && begins_aligned(entry.parameter) &&
                         begins_aligned(entry.copy);
      filler.add(entry);
    };
    for (size_t i = 0; i < places.count(); ++i) {
      for_each_state_part(call.outputs[places.first_moment(i)], call.outputs[places.second_moment(i)],
                          [&](const StatePart& part) { add(i, part); });
    }
    filler.finish();
  });
  check_launch("the optimizer's update in 8 bits");
}

}  // namespace snug::cuda
