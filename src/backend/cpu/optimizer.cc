// The optimizer's ops: the norm over all gradients, and AdamW over all parameters in one pass.
#include <cmath>

#include "backend/adamw_formula.h"
#include "backend/cpu/dispatch.h"
#include "backend/cpu/kernel_functions.h"
#include "backend/cpu/parameters.h"
#include "base/philox_lanes.h"
#include "base/threads.h"
#include "program/operands.h"
#include "program/step_clock.h"

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

// The parts of the buffers that one block covers. `G` is the dtype of the gradients, `M` that of the moments,
// `P` what holds the parameters (backend/cpu/parameters.h); bf16 alone in the last two is rounded
// stochastically.
template <typename G, typename P, typename M>
struct Part {
  const G* gradient;
  P parameters;
  M* first;
  M* second;
  float decay;
  int64_t count;
};

template <typename G, typename P, typename M>
AdamwElement element_of(const Part<G, P, M>& part, int64_t i) {
  return {.parameter = parameter_at(part.parameters, i),
          .first = to_float(part.first[i]),
          .second = to_float(part.second[i])};
}

template <typename G, typename P>
void update_exactly(const AdamwStep& step, const Part<G, P, float>& part) {
#pragma omp simd
  for (int64_t i = 0; i < part.count; ++i) {
    AdamwElement after = updated(step, part.decay, to_float(part.gradient[i]), element_of(part, i));
    part.first[i] = after.first;
    part.second[i] = after.second;
    set_parameter(part.parameters, i, after.parameter);
  }
}

// Where a block's random bits come from.
struct Randomness {
  uint64_t seed;
  uint64_t stream;
  int64_t first_element;  // of the block, within its tensor
};

static_assert(kBlockElements % 2 == 0, "a block begins with a counter of its own");

template <typename G, typename P>
void update_by_chance(const AdamwStep& step, const Part<G, P, bf16_t>& part, const Randomness& random) {
  constexpr auto kElementsAtOnce = static_cast<int64_t>(2 * PhiloxLanes::kLanes);
  PhiloxLanes lanes;
  for (int64_t begin = 0; begin < part.count; begin += kElementsAtOnce) {
    lanes.run(random.seed, random.stream, static_cast<uint64_t>((random.first_element + begin) / 2));
    int64_t end = std::min(part.count, begin + kElementsAtOnce);
    for (int64_t i = begin; i < end; ++i) {
      AdamwElement after = updated(step, part.decay, to_float(part.gradient[i]), element_of(part, i));
      auto lane = static_cast<size_t>((i - begin) / 2);
      auto word = static_cast<size_t>((i - begin) % 2 * 2);
      uint32_t bits = lanes.words[word][lane];
      part.first[i] = bf16_t{stochastic_bf16_bits(after.first, bits)};
      part.second[i] = bf16_t{stochastic_bf16_bits(after.second, bits >> 16)};
      if constexpr (std::is_same_v<P, bf16_t*>) {
        part.parameters[i] = bf16_t{stochastic_bf16_bits(after.parameter, lanes.words[word + 1][lane])};
      } else {
        set_parameter(part.parameters, i, after.parameter);
      }
    }
  }
}

// adamw's inputs and outputs by their names.
class UpdateCall {
 public:
  explicit UpdateCall(const KernelCall& call)
      : call_(call),
        attributes_(attributes_of<AdamwAttributes>(call.op)),
        places_(attributes_),
        scalars_(*call.inputs[places_.scalars()].as<StepScalars>()),
        norm_(call.inputs[places_.norm()].as<float>()[0]),
        step_(make_step(rates_of(attributes_), scalars_, norm_)) {
    SNUG_CHECK(call.inputs.size() > places_.norm(), "adamw's inputs are gradients, scalars and norm");
    SNUG_CHECK(call.outputs.size() == places_.output_count(),
               "adamw's outputs are parameters, moments and what is beside parameters");
  }

  std::span<const Tensor> gradients() const { return call_.inputs.first(places_.count()); }
  bool skips() const { return !std::isfinite(norm_); }
  const AdamwStep& step() const { return step_; }
  DType moment_dtype() const { return call_.outputs[places_.first_moment(0)].dtype; }
  ParameterTensors parameters(size_t tensor) const { return parameter_tensors(call_, places_, tensor); }

  template <typename G, typename M, typename P>
  Part<G, P, M> part(const Block& block, const P& parameters) const {
    size_t i = block.tensor;
    return {.gradient = call_.inputs[places_.gradient(i)].as<G>() + block.first,
            .parameters = parameters,
            .first = call_.outputs[places_.first_moment(i)].as<M>() + block.first,
            .second = call_.outputs[places_.second_moment(i)].as<M>() + block.first,
            .decay = decay_factor(scalars_.learning_rate, attributes_.weight_decay[i]),
            .count = block.last - block.first};
  }
  Randomness randomness(const Block& block) const {
    const auto* random = call_.inputs[places_.random()].as<int64_t>();
    return {.seed = static_cast<uint64_t>(random[0]),
            .stream = rounding_stream(random[1], block.tensor),
            .first_element = block.first};
  }

 private:
  const KernelCall& call_;
  const AdamwAttributes& attributes_;
  AdamwPlaces places_;
  StepScalars scalars_;
  float norm_;
  AdamwStep step_;
};

template <typename G>
void update_block(const UpdateCall& update, const Block& block) {
  with_parameters(update.parameters(block.tensor), block.first, [&](auto parameters) {
    using P = decltype(parameters);
    if (update.moment_dtype() == DType::bf16) {
      update_by_chance(update.step(), update.part<G, bf16_t>(block, parameters), update.randomness(block));
    } else if constexpr (std::is_same_v<P, bf16_t*>) {
      SNUG_CHECK(false, "bf16 parameters beside fp32 moments have a rest");
    } else {
      update_exactly(update.step(), update.part<G, float>(block, parameters));
    }
  });
}

template <typename G>
double sum_of_squares(const G* gradient, const Block& block) {
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = block.first; i < block.last; ++i) {
    auto g = static_cast<double>(to_float(gradient[i]));
    sum += g * g;
  }
  return sum;
}

}  // namespace

int64_t gradient_norm_workspace(const Program& program, const Op& op, int /*threads*/) {
  int64_t blocks = 0;
  for (BufferId id : op.inputs) {
    blocks += blocks_of(program.buffer(id).max_elements());
  }
  return blocks * static_cast<int64_t>(sizeof(double));
}

// norm[0] = sqrt(sum of g^2 over all gradients), summed in double.
void gradient_norm(const KernelCall& call) {
  auto* sums = reinterpret_cast<double*>(call.workspace.data());
  for_each_block(call.inputs, [&](const Block& block) {
    const Tensor& gradient = call.inputs[block.tensor];
    with_type(gradient.dtype, [&](auto type) {
      sums[block.index] = sum_of_squares(gradient.as<typename decltype(type)::type>(), block);
    });
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

// Updates parameters, moments, and copies or rests in one pass. A norm that is not finite means that the
// gradients are not: the update is skipped.
void adamw(const KernelCall& call) {
  UpdateCall update(call);
  if (!update.skips()) {
    for_each_block(update.gradients(), [&](const Block& block) {
      with_type(update.gradients()[block.tensor].dtype,
                [&](auto type) { update_block<typename decltype(type)::type>(update, block); });
    });
  }
}

}  // namespace snug::cpu
