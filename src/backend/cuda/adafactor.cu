// Adafactor (backend/adafactor_formula.h). Matrices go through four kernels, many of them at once: sums of
// squares of rows and columns, means and factors of both, the size of the update, the update. Vectors are one
// kernel, a block each. Every sum has one order: a few neighbours in fp32, those in fp64.
#include <array>
#include <cmath>

#include "backend/adafactor_formula.h"
#include "backend/cuda/adafactor_tiles.cuh"
#include "backend/cuda/check.h"
#include "backend/cuda/kernel_functions.h"
#include "program/operands.h"

namespace snug::cuda {
namespace {

constexpr int kThreads = kAdafactorThreads;

// What all tensors of a step read.
struct StepInputs {
  const AdafactorNumbers* numbers;
  const float* norm;      // not finite: nothing changes
  const int64_t* random;  // seed, step; null where nothing is rounded by chance

  __device__ AdafactorStep step() const {
    AdafactorNumbers n = *numbers;
    return {n.gradient_scale, n.beta, n.one_minus_beta, n.learning_rate};
  }
};

__global__ void step_kernel(float max_norm, const StepScalars* scalars, const float* norm,
                            const StepClock* clock, AdafactorNumbers* numbers) {
  AdafactorStep step = make_adafactor_step(max_norm, *scalars, norm[0], clock->updates);
  *numbers = {step.gradient_scale, step.beta, step.one_minus_beta, step.learning_rate};
}

// row_sums and column_sums of a tile. Squares of eight neighbours, of a row or of a column, are added up in
// fp32: what is too small for that is nothing beside the formula's epsilon, and what is too large has no fp32
// mean.
__global__ void __launch_bounds__(kThreads)
    sums_kernel(const __grid_constant__ EntryList<MatrixEntry> list, StepInputs inputs) {
  const MatrixEntry& entry = list.entries[blockIdx.y];
  const MatrixTiles& tiles = entry.tiles;
  if (blockIdx.x >= tiles.blocks()) {
    return;
  }
  __shared__ double shared[kAdafactorWarps][kLaneColumns][32];
  float scale = inputs.numbers->gradient_scale;
  int lane = static_cast<int>(threadIdx.x) % 32;
  int warp = static_cast<int>(threadIdx.x) / 32;
  TilePart part(entry);
  double columns[kLaneColumns] = {};
  part.for_each_strip([&](int64_t strip) {
    float some[kLaneColumns] = {};
#pragma unroll 4
    for (int turn = 0; turn < kWarpRows; ++turn) {
      int64_t row = strip + part.row(turn);
      float gradients[kLaneColumns];
      part.read_gradients(row, gradients);
      float in_row = 0;
#pragma unroll
      for (int j = 0; j < kLaneColumns; ++j) {
        float g = gradients[j] * scale;
        in_row = fmaf(g, g, in_row);
        some[j] = fmaf(g, g, some[j]);
      }
      double sum = in_row;
      for (int offset = tiles.lanes / 2; offset > 0; offset /= 2) {
        sum += __shfl_xor_sync(0xffffffffU, sum, offset);
      }
      if (lane % tiles.lanes == 0 && row < entry.tensor.rows) {
        entry.scratch.row_sums[part.column_tile * entry.tensor.rows + row] = sum;
      }
    }
#pragma unroll
    for (int j = 0; j < kLaneColumns; ++j) {
      columns[j] += double{some[j]};
    }
  });
#pragma unroll
  for (int j = 0; j < kLaneColumns; ++j) {
    for (int offset = tiles.lanes; offset < 32; offset *= 2) {
      columns[j] += __shfl_xor_sync(0xffffffffU, columns[j], offset);
    }
    shared[warp][j][lane] = columns[j];
  }
  __syncthreads();
  // A warp writes one of the lanes' columns.
  double sum = 0;
  for (int w = 0; w < kAdafactorWarps; ++w) {
    sum += shared[w][warp][lane];
  }
  int64_t column = part.column(warp / kHalfLane) + warp % kHalfLane;
  if (lane < tiles.lanes && column < entry.tensor.length) {
    entry.scratch.column_sums[part.chunk * entry.tensor.length + column] = sum;
  }
}
static_assert(kAdafactorWarps == kLaneColumns, "a warp for each of a lane's columns");

// The means of rows, with their sum, and those of columns, with their factors.
__global__ void __launch_bounds__(kThreads)
    means_kernel(const __grid_constant__ EntryList<MatrixEntry> list, StepInputs inputs) {
  const MatrixEntry& entry = list.entries[blockIdx.y];
  const TensorPlaces& tensor = entry.tensor;
  const MatrixScratch& scratch = entry.scratch;
  int row_blocks = means_blocks(tensor.rows);
  if (!isfinite(inputs.norm[0]) || blockIdx.x >= row_blocks + means_blocks(tensor.length)) {
    return;
  }
  AdafactorStep step = inputs.step();
  auto moved = [&](float& mean, const double* sums, int count, int64_t stride, int64_t of) {
    double sum = 0;
#pragma unroll 8
    for (int i = 0; i < count; ++i) {
      sum += sums[i * stride];
    }
    return mean = moved_mean(step, mean, sum / static_cast<double>(of));
  };
  if (blockIdx.x >= row_blocks) {
    int64_t column = int64_t{kThreads} * (blockIdx.x - row_blocks) + threadIdx.x;
    if (column < tensor.length) {
      scratch.column_factors[column] =
          inverse_root(moved(tensor.means[tensor.rows + column], scratch.column_sums + column,
                             entry.tiles.chunks, tensor.length, tensor.rows));
    }
    return;
  }
  int64_t row = int64_t{kThreads} * blockIdx.x + threadIdx.x;
  float mean = row < tensor.rows ? moved(tensor.means[row], scratch.row_sums + row, entry.tiles.column_tiles,
                                         tensor.rows, tensor.length)
                                 : 0.0F;
  double sum = block_sum(double{mean});
  if (threadIdx.x == 0) {
    scratch.mean_sums[blockIdx.x] = sum;
  }
}

// The sum of the update's squares in a tile.
__global__ void __launch_bounds__(kThreads)
    squares_kernel(const __grid_constant__ EntryList<MatrixEntry> list, StepInputs inputs) {
  const MatrixEntry& entry = list.entries[blockIdx.y];
  if (!isfinite(inputs.norm[0]) || blockIdx.x >= entry.tiles.blocks()) {
    return;
  }
  __shared__ float row_factors[kMostStripRows];
  float scale = inputs.numbers->gradient_scale;
  TilePart part(entry);
  TileFactors factors(entry, part, row_factors);
  double sum = 0;
  part.for_each_strip([&](int64_t strip) {
    factors.begin_strip(strip);
#pragma unroll 4
    for (int turn = 0; turn < kWarpRows; ++turn) {
      float gradients[kLaneColumns];
      part.read_gradients(strip + part.row(turn), gradients);
      float some = 0;
#pragma unroll
      for (int j = 0; j < kLaneColumns; ++j) {
        float change = gradients[j] * scale * factors.at(part.row(turn), j);
        some = fmaf(change, change, some);
      }
      sum += double{some};
    }
  });
  sum = block_sum(sum);
  if (threadIdx.x == 0) {
    entry.scratch.update_sums[blockIdx.x] = sum;
  }
}

// The 16 random bits of each of four neighbours.
struct RandomFour {
  uint32_t words[2] = {};

  __device__ uint32_t at(int i) const { return words[i / 2] >> i % 2 * 16; }
};

class RandomBits {
 public:
  __device__ RandomBits(const StepInputs& inputs, uint64_t tensor)
      : seed_(static_cast<uint64_t>(inputs.random[0])), stream_(rounding_stream(inputs.random[1], tensor)) {}

  __device__ uint32_t of(int64_t element) const {
    RoundingPlace place = rounding_place(element);
    return philox(seed_, stream_, place.counter)[place.half / 2] >> place.half % 2 * 16;
  }
  // Of those from `first[0]` and `first[1]` on. Where they begin at a multiple of four, they share a counter.
  __device__ void take(const int64_t (&first)[2], RandomFour (&four)[2]) const {
    std::array<uint32_t, 4> words{};
    uint64_t counter = ~uint64_t{0};
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      if (first[half] % 4 != 0) {
        for (int i = 0; i < 4; ++i) {
          four[half].words[i / 2] |= (of(first[half] + i) & 0xffffU) << i % 2 * 16;
        }
        continue;
      }
      RoundingPlace place = rounding_place(first[half]);
      if (place.counter != counter) {
        counter = place.counter;
        words = philox(seed_, stream_, counter);
      }
      four[half].words[0] = place.half == 0 ? words[0] : words[2];
      four[half].words[1] = place.half == 0 ? words[1] : words[3];
    }
  }

 private:
  uint64_t seed_;
  uint64_t stream_;
};

template <typename P, typename Aside>
inline constexpr bool kIsRoundedByChance = std::is_same_v<P, __nv_bfloat16> && !kIsRest<Aside>;

// `P` is the dtype of the parameters (bf16 without a rest is rounded by chance), `Aside` what is beside a
// parameter.
template <typename P, typename Aside>
__global__ void __launch_bounds__(kThreads)
    update_kernel(const __grid_constant__ EntryList<MatrixEntry> list, StepInputs inputs) {
  const MatrixEntry& entry = list.entries[blockIdx.y];
  const TensorPlaces& tensor = entry.tensor;
  if (!isfinite(inputs.norm[0]) || blockIdx.x >= entry.tiles.blocks()) {
    return;
  }
  __shared__ float row_factors[kMostStripRows];
  AdafactorStep step = inputs.step();
  TilePart part(entry);
  TileFactors factors(entry, part, row_factors);
  double squares = sum_of<2>(entry.scratch.update_sums, entry.tiles.blocks());
  float size = step_size(step, squares, tensor.rows * tensor.length);
  float decay = decay_factor(step.learning_rate, tensor.weight_decay);
  part.for_each_strip([&](int64_t strip) {
    factors.begin_strip(strip);
    for (int turn = 0; turn < kWarpRows; ++turn) {
      int64_t row = strip + part.row(turn);
      float gradients[kLaneColumns];
      part.read_gradients(row, gradients);
      const int64_t first[2] = {row * tensor.length + part.column(0), row * tensor.length + part.column(1)};
      Vector<P, 4> parameters[2];
      Vector<Aside, 4> beside[2];
#pragma unroll
      for (int half = 0; half < 2; ++half) {  // all that is read, before anything is written
        int64_t left = row < tensor.rows ? part.left(half) : 0;
        parameters[half] =
            load_some(static_cast<const P*>(tensor.parameter) + first[half], left, tensor.is_aligned);
        if constexpr (kIsRest<Aside>) {
          beside[half] =
              load_some(static_cast<const Aside*>(tensor.beside) + first[half], left, tensor.is_aligned);
        }
      }
      RandomFour random[2];
      if constexpr (kIsRoundedByChance<P, Aside>) {
        RandomBits(inputs, tensor.number).take(first, random);
      }
#pragma unroll
      for (int half = 0; half < 2; ++half) {
#pragma unroll
        for (int i = 0; i < kHalfLane; ++i) {
          int j = kHalfLane * half + i;
          float change = gradients[j] * step.gradient_scale * factors.at(part.row(turn), j);
          float before = exact_value(parameters[half].at[i], beside[half].at[i]);
          float moved = moved_parameter(before, decay, size, change);
          put(moved, random[half].at(i), parameters[half].at[i], beside[half].at[i]);
        }
        int64_t left = row < tensor.rows ? part.left(half) : 0;
        store_some(static_cast<P*>(tensor.parameter) + first[half], parameters[half], left,
                   tensor.is_aligned);
        if constexpr (!std::is_same_v<Aside, None>) {
          store_some(static_cast<Aside*>(tensor.beside) + first[half], beside[half], left, tensor.is_aligned);
        }
      }
    }
  });
}

// All of a vector, by one block.
template <typename P, typename Aside>
__global__ void __launch_bounds__(kThreads)
    vector_kernel(const __grid_constant__ EntryList<TensorPlaces> list, StepInputs inputs) {
  const TensorPlaces& tensor = list.entries[blockIdx.y];
  if (!isfinite(inputs.norm[0])) {
    return;
  }
  AdafactorStep step = inputs.step();
  auto change_of = [&](int64_t i) {
    return tensor.gradient.at(i) * step.gradient_scale * inverse_root(tensor.means[i]);
  };
  double sum = 0;
  for (int64_t i = threadIdx.x; i < tensor.rows; i += kThreads) {
    auto g = static_cast<double>(tensor.gradient.at(i) * step.gradient_scale);
    tensor.means[i] = moved_mean(step, tensor.means[i], g * g);
    auto change = static_cast<double>(change_of(i));
    sum += change * change;
  }
  float size = step_size(step, block_sum(sum), tensor.rows);
  float decay = decay_factor(step.learning_rate, tensor.weight_decay);
  Aside nothing{};
  for (int64_t i = threadIdx.x; i < tensor.rows; i += kThreads) {
    P& parameter = static_cast<P*>(tensor.parameter)[i];
    Aside& aside = std::is_same_v<Aside, None> ? nothing : static_cast<Aside*>(tensor.beside)[i];
    uint32_t random_bits = 0;
    if constexpr (kIsRoundedByChance<P, Aside>) {
      random_bits = RandomBits(inputs, tensor.number).of(i);
    }
    float moved = moved_parameter(exact_value(parameter, aside), decay, size, change_of(i));
    put(moved, random_bits, parameter, aside);
  }
}

// adafactor's operands by their names.
template <typename P, typename Aside>
class AdafactorLaunch {
 public:
  AdafactorLaunch(const Queue& queue, const KernelCall& call, const StepInputs& inputs)
      : stream_(queue.stream),
        call_(call),
        inputs_(inputs),
        places_(attributes_of<AdafactorAttributes>(call.op)) {}

  void run(Scratch scratch) const {
    const std::vector<FactoredTensor>& tensors = attributes_of<AdafactorAttributes>(call_.op).tensors;
    for_each_matrix_group(tensors, [&](const std::vector<size_t>& group) { run_matrices(group, scratch); });
    EntryList<TensorPlaces> list;
    unsigned count = 0;
    auto launch = [&] {
      if (count > 0) {
        vector_kernel<P, Aside><<<dim3(1, count), kThreads, 0, stream_>>>(list, inputs_);
      }
      count = 0;
    };
    for (size_t n = 0; n < tensors.size(); ++n) {
      if (tensors[n].is_matrix()) {
        continue;
      }
      list.entries[count++] = tensor_places(n);
      if (count == std::size(list.entries)) {
        launch();
      }
    }
    launch();
  }

 private:
  TensorPlaces tensor_places(size_t n) const {
    const auto& attributes = attributes_of<AdafactorAttributes>(call_.op);
    const FactoredTensor& tensor = attributes.tensors[n];
    size_t i = tensor.parameter;
    TensorPlaces result{.gradient = GradientView::of(call_.inputs[places_.gradient(i)], tensor.first_element),
                        .parameter = call_.outputs[places_.parameter(i)].as<P>() + tensor.first_element,
                        .beside = nullptr,
                        .means = call_.outputs[places_.mean_squares(i)].as<float>() + tensor.first_state,
                        .rows = tensor.rows,
                        .length = tensor.row_length(),
                        .number = n,
                        .weight_decay = attributes.weight_decay[i]};
    if constexpr (!std::is_same_v<Aside, None>) {
      result.beside = call_.outputs[places_.beside(i)].as<Aside>() + tensor.first_element;
    }
    result.is_aligned = result.length % kHalfLane == 0 && begins_aligned(result.gradient.data) &&
                        begins_aligned(result.parameter) && begins_aligned(result.beside);
    return result;
  }

  void run_matrices(const std::vector<size_t>& group, Scratch scratch) const {
    EntryList<MatrixEntry> list;
    int blocks = 0;
    int mean_blocks = 0;
    SNUG_CHECK(group.size() <= std::size(list.entries), "a group of matrices is a kernel's parameter");
    for (size_t i = 0; i < group.size(); ++i) {
      const FactoredTensor& tensor = attributes_of<AdafactorAttributes>(call_.op).tensors[group[i]];
      MatrixTiles tiles(tensor.rows, tensor.columns);
      list.entries[i] = {tensor_places(group[i]), tiles, MatrixScratch(scratch, tensor, tiles)};
      blocks = std::max(blocks, tiles.blocks());
      mean_blocks = std::max(mean_blocks, means_blocks(tensor.rows) + means_blocks(tensor.columns));
    }
    auto count = static_cast<unsigned>(group.size());
    dim3 grid(static_cast<unsigned>(blocks), count);
    sums_kernel<<<grid, kThreads, 0, stream_>>>(list, inputs_);
    means_kernel<<<dim3(static_cast<unsigned>(mean_blocks), count), kThreads, 0, stream_>>>(list, inputs_);
    squares_kernel<<<grid, kThreads, 0, stream_>>>(list, inputs_);
    update_kernel<P, Aside><<<grid, kThreads, 0, stream_>>>(list, inputs_);
  }

  cudaStream_t stream_;
  const KernelCall& call_;
  const StepInputs& inputs_;
  AdafactorPlaces places_;
};

}  // namespace

// Updates parameters, mean squares, and copies or rests.
void adafactor(const Queue& queue, const KernelCall& call) {
  const auto& attributes = attributes_of<AdafactorAttributes>(call.op);
  AdafactorPlaces places(attributes);
  SNUG_CHECK(call.outputs.size() == places.output_count(),
             "adafactor's outputs are parameters, mean squares and what is beside parameters");
  Scratch scratch(call.workspace);
  auto* numbers = scratch.take<AdafactorNumbers>(1);
  StepInputs inputs{
      .numbers = numbers,
      .norm = call.inputs[places.norm()].as<float>(),
      .random = call.has_input(places.random()) ? call.inputs[places.random()].as<int64_t>() : nullptr};
  step_kernel<<<1, 1, 0, queue.stream>>>(attributes.max_norm, call.inputs[places.scalars()].as<StepScalars>(),
                                         inputs.norm, call.inputs[places.clock()].as<StepClock>(), numbers);
  with_parameter_types(call, places, [&](auto parameter_type, auto aside_type) {
    using P = typename decltype(parameter_type)::type;
    using Aside = typename decltype(aside_type)::type;
    AdafactorLaunch<P, Aside>(queue, call, inputs).run(scratch);
  });
  check_launch("Adafactor's update");
}

}  // namespace snug::cuda
