// AdamW with moments in 8 bits (backend/adamw_8bit_formula.h): one pass over memory, a warp for each block of
// 256 elements, whose largest magnitudes its threads find by exchanging registers.
#include <array>
#include <bit>
#include <cmath>
#include <span>

#include "backend/adamw_8bit_formula.h"
#include "backend/cuda/check.h"
#include "backend/cuda/instructions/numbers.cuh"
#include "backend/cuda/kernel_functions.h"
#include "backend/cuda/optimizer_lists.cuh"
#include "backend/cuda/update_by_chance.cuh"
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

// By the units' own instructions.
struct QuickMath {
  __device__ static float log2(float x) { return logarithm_to_two(x); }
  __device__ static float exp2(float x) { return power_of_two(x); }
};

// The values of codes, and the bounds between them.
struct Levels {
  float map[kDynamicMapEntries];
  CodeBounds bounds[kDynamicMapEntries];

  __device__ void fill(const float* values) {
    map[threadIdx.x] = values[threadIdx.x];
    bounds[threadIdx.x] = bounds_of(values, threadIdx.x);
  }
  template <bool kHasSigns>
  __device__ uint8_t code_of(float scaled) const {
    uint32_t nearly = nearly_code<kHasSigns, QuickMath>(scaled);
    return corrected_code(nearly, scaled, bounds[nearly]);
  }
};

// The eight elements of a thread: four neighbours in each half of the block. kWhole: the block is not a
// tensor's last, shorter one; the tensor begins at a multiple of 16 bytes everywhere, and its moments are
// codes. That is nearly all of them, and leaves nothing to ask.
template <bool kWhole>
struct Places {
  int64_t begin;  // of the block, within the tensor
  int64_t count;  // of its elements
  int first;      // within the block

  __device__ int64_t place(int half) const { return begin + half * kHalf + first; }
  __device__ int64_t left(int half) const { return kWhole ? 4 : count - half * kHalf - first; }
};

template <bool kWhole>
__device__ inline void read_moments(const MomentPart& moment, bool plain, const Places<kWhole>& places,
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
template <bool kHasSigns, bool kWhole>
__device__ inline void write_moments(const MomentPart& moment, bool plain, const Places<kWhole>& places,
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
      codes.at[i] = levels.code_of<kHasSigns>(value * factor);
      if constexpr (kHasSigns) {
        codes.at[i] = with_sign_of(value, codes.at[i]);
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

// bf16 by chance: two numbers of 16 random bits each; `quick` where neither is special or next to the
// largest.
__device__ inline uint32_t round_two(float low, float high, uint32_t random_bits, bool quick) {
  auto both = [&](auto rounding) {
    return __byte_perm(rounding(low, random_bits & 0xffffU), rounding(high, random_bits >> 16), 0x7632);
  };
  return quick ? both(PlainRounding{}) : both(AnyRounding{});
}

// Four parameters of a thread, out of eight, whose random bits `words` are.
template <typename P>
__device__ inline Vector<P, 4> rounded_four(const float* values, const std::array<uint32_t, 4>& words,
                                            int half, bool quick) {
  if constexpr (std::is_same_v<P, __nv_bfloat16>) {
    auto first = static_cast<size_t>(2 * half);
    Vector<uint32_t, 2> pairs{{round_two(values[0], values[1], words[first], quick),
                               round_two(values[2], values[3], words[first + 1], quick)}};
    return std::bit_cast<Vector<P, 4>>(pairs);
  } else {
    return {{round_to<P>(values[0]), round_to<P>(values[1]), round_to<P>(values[2]), round_to<P>(values[3])}};
  }
}

// One block of a tensor, by one warp. `P` is the dtype of the parameters, `Copy` that of the compute copy or
// None. All that is read is asked for before anything is written.
template <typename P, typename Copy, bool kWhole>
__device__ inline void update_block(const PartEntry& entry, const Places<kWhole>& places,
                                    const BlockStep& step, const Levels& first_levels,
                                    const Levels& second_levels) {
  bool plain = !kWhole && entry.plain;
  bool is_aligned = kWhole || entry.is_aligned;
  Vector<float, 4> gradients[2];
  Vector<P, 4> parameters[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    int64_t place = places.place(half);
    gradients[half] = load_some(entry.gradient, place, places.left(half), is_aligned);
    parameters[half] =
        load_some(static_cast<const P*>(entry.parameter) + place, places.left(half), is_aligned);
  }
  float first[8];
  float second[8];
  read_moments(entry.first, plain, places, first_levels, first);
  read_moments(entry.second, plain, places, second_levels, second);
  std::array<uint32_t, 4> words{};
  if constexpr (std::is_same_v<P, __nv_bfloat16>) {
    words = philox(step.seed, step.stream, rounding_place(places.place(0)).counter);
  }
  float after[8];
  float largest_first = 0;
  float largest_second = 0;
  float size = 0;  // no parameter is larger; NaN if one is
#pragma unroll
  for (int at = 0; at < 8; ++at) {
    AdamwElement element = updated(step.step, step.decay, gradients[at / 4].at[at % 4],
                                   {to_float(parameters[at / 4].at[at % 4]), first[at], second[at]});
    bool is_there = at % 4 < places.left(at / 4);
    first[at] = is_there ? element.first : 0.0F;
    second[at] = is_there ? element.second : 0.0F;
    after[at] = element.parameter;
    largest_first = fmaxf(largest_first, fabsf(first[at]));
    largest_second = fmaxf(largest_second, fabsf(second[at]));
    size += fabsf(element.parameter);
  }
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const float* values = after + 4 * half;
    int64_t place = places.place(half);
    int64_t left = places.left(half);
    store_some(static_cast<P*>(entry.parameter) + place,
               rounded_four<P>(values, words, half, size < kPlainSize), left, is_aligned);
    if constexpr (!std::is_same_v<Copy, None>) {
      store_some(static_cast<Copy*>(entry.copy) + place, rounded_four<Copy>(values, words, half, true), left,
                 is_aligned);
    }
  }
  write_moments<true>(entry.first, plain, places, first_levels, first, largest_first);
  write_moments<false>(entry.second, plain, places, second_levels, second, largest_second);
}

// A norm that is not finite means that the gradients are not: the update is skipped.
template <typename P, typename Copy>
__global__ void __launch_bounds__(kUpdateThreads, 4)
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
    int64_t count = min(kStateBlock, end - block);
    if (entry.is_aligned && !entry.plain && count == kStateBlock) {
      update_block<P, Copy>(entry, Places<true>{block, count, 4 * lane}, step, first_levels, second_levels);
    } else {
      update_block<P, Copy>(entry, Places<false>{block, count, 4 * lane}, step, first_levels, second_levels);
    }
  }
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
