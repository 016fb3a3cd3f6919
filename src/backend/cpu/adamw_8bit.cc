// AdamW with moments in 8 bits (backend/adamw_8bit_formula.h), over all parameters in one pass.
#include <algorithm>
#include <array>
#include <cmath>

#include "backend/adamw_8bit_formula.h"
#include "backend/cpu/dispatch.h"
#include "backend/cpu/kernel_functions.h"
#include "backend/state_parts.h"
#include "base/philox_lanes.h"
#include "base/threads.h"
#include "program/operands.h"

namespace snug::cpu {
namespace {

constexpr auto kBlock = static_cast<size_t>(kStateBlock);
// A thread takes so many blocks at once.
constexpr int64_t kGroupElements = 64 * kStateBlock;

int64_t groups_of(int64_t elements) {
  return (elements + kGroupElements - 1) / kGroupElements;
}

// The values of codes, and the bounds between them.
struct Levels {
  explicit Levels(const float* values) : map(values) {
    for (uint32_t node = 1; node < kBoundNodes; ++node) {
      bounds[node] = node_bound(map, node);
    }
  }

  const float* map;
  std::array<float, kBoundNodes> bounds{};
};

using BlockValues = std::array<float, kBlock>;

void read_gradients(const Tensor& gradient, int64_t first, std::span<float> values) {
  with_type(gradient.dtype, [&](auto type) {
    const auto* source = gradient.as<typename decltype(type)::type>() + first;
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = to_float(source[i]);
    }
  });
}

// Block `block` of a tensor's moments.
void read_moments(const MomentPart& moment, bool plain, int64_t block, std::span<float> values,
                  const Levels& levels) {
  int64_t begin = block * kStateBlock;
  if (plain) {
    const auto* source = static_cast<const float*>(moment.values) + begin;
    std::copy_n(source, values.size(), values.begin());
    return;
  }
  const auto* codes = static_cast<const uint8_t*>(moment.values) + begin;
  float scale = moment.scales[block];
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = levels.map[codes[i]] * scale;
  }
}

void write_moments(const MomentPart& moment, bool plain, int64_t block, std::span<const float> values,
                   const Levels& levels, bool keeps_sign) {
  int64_t begin = block * kStateBlock;
  if (plain) {
    std::copy(values.begin(), values.end(), static_cast<float*>(moment.values) + begin);
    return;
  }
  float largest = 0;
  for (float value : values) {
    largest = std::max(largest, std::fabs(value));
  }
  moment.scales[block] = largest;
  float factor = scale_factor(largest);
  auto* codes = static_cast<uint8_t*>(moment.values) + begin;
  for (size_t i = 0; i < values.size(); ++i) {
    codes[i] = dynamic_code(levels.bounds.data(), values[i] * factor);
    if (keeps_sign) {
      codes[i] = with_sign_of(values[i], codes[i]);
    }
  }
}

// adamw_8bit's inputs and outputs by their names.
class Update8bit {
 public:
  explicit Update8bit(const KernelCall& call)
      : call_(call),
        attributes_(attributes_of<AdamwAttributes>(call.op)),
        places_(attributes_),
        scalars_(*call.inputs[places_.scalars()].as<StepScalars>()),
        norm_(call.inputs[places_.norm()].as<float>()[0]),
        step_(make_8bit_step(rates_of(attributes_), scalars_, norm_)),
        first_levels_(call.inputs[places_.maps()].as<float>()),
        second_levels_(call.inputs[places_.maps()].as<float>() + kDynamicMapEntries) {
    SNUG_CHECK(call.outputs.size() == places_.output_count() && !places_.has_beside(),
               "adamw_8bit's outputs are parameters and moments here");
  }

  void run() const {
    if (!std::isfinite(norm_)) {
      return;
    }
    int64_t total = 0;
    walk([&](const StatePart& part, size_t /*tensor*/, uint64_t /*number*/) {
      total += groups_of(part.elements);
    });
    parallel_for(total, 1, [&](int64_t first, int64_t last) {
      int64_t base = 0;  // index of the current tensor's first group
      walk([&](const StatePart& part, size_t tensor, uint64_t number) {
        int64_t count = groups_of(part.elements);
        int64_t begin = std::max(first, base) - base;
        int64_t end = std::min(last, base + count) - base;
        base += count;
        with_type(call_.outputs[places_.parameter(tensor)].dtype, [&](auto type) {
          for (int64_t group = begin; group < end; ++group) {
            run_group<typename decltype(type)::type>(part, tensor, number, group);
          }
        });
      });
    });
  }

 private:
  // Calls body(part, the parameter it lies in, its number) for all tensors in order.
  template <typename Body>
  void walk(const Body& body) const {
    uint64_t number = 0;
    for (size_t i = 0; i < places_.count(); ++i) {
      for_each_state_part(call_.outputs[places_.first_moment(i)], call_.outputs[places_.second_moment(i)],
                          [&](const StatePart& part) { body(part, i, number++); });
    }
  }

  template <typename P>
  void run_group(const StatePart& part, size_t tensor, uint64_t number, int64_t group) const {
    int64_t end = std::min((group + 1) * kGroupElements, part.elements);
    for (int64_t begin = group * kGroupElements; begin < end; begin += kStateBlock) {
      BlockValues values;
      auto gradients = std::span(values).first(static_cast<size_t>(std::min(kStateBlock, end - begin)));
      read_gradients(call_.inputs[places_.gradient(tensor)], part.first_element + begin, gradients);
      P* parameters = call_.outputs[places_.parameter(tensor)].as<P>() + part.first_element + begin;
      run_block(part, tensor, number, begin / kStateBlock, gradients, parameters);
    }
  }

  template <typename P>
  void run_block(const StatePart& part, size_t tensor, uint64_t number, int64_t block,
                 std::span<const float> gradients, P* parameters) const {
    size_t count = gradients.size();
    BlockValues first_values;
    BlockValues second_values;
    auto first = std::span(first_values).first(count);
    auto second = std::span(second_values).first(count);
    read_moments(part.first, part.plain, block, first, first_levels_);
    read_moments(part.second, part.plain, block, second, second_levels_);
    PhiloxLanes lanes;
    if constexpr (std::is_same_v<P, bf16_t>) {
      const auto* random = call_.inputs[places_.random()].as<int64_t>();
      lanes.run(static_cast<uint64_t>(random[0]), rounding_stream(random[1], number),
                rounding_place(block * kStateBlock).counter, kBlock / kElementsACounter);
    }
    float decay = decay_factor(scalars_.learning_rate, attributes_.weight_decay[tensor]);
    for (size_t i = 0; i < count; ++i) {
      AdamwElement after =
          updated(step_, decay, gradients[i], {to_float(parameters[i]), first[i], second[i]});
      first[i] = after.first;
      second[i] = after.second;
      if constexpr (std::is_same_v<P, bf16_t>) {
        RoundingPlace place = rounding_place(static_cast<int64_t>(i));
        uint32_t word = lanes.words[place.half / 2][place.counter];
        parameters[i] = bf16_t{stochastic_bf16_bits(after.parameter, word >> place.half % 2 * 16)};
      } else {
        parameters[i] = after.parameter;
      }
    }
    write_moments(part.first, part.plain, block, first, first_levels_, true);
    write_moments(part.second, part.plain, block, second, second_levels_, false);
  }

  const KernelCall& call_;
  const AdamwAttributes& attributes_;
  AdamwPlaces places_;
  StepScalars scalars_;
  float norm_;
  Adamw8bitStep step_;
  Levels first_levels_;
  Levels second_levels_;
};

}  // namespace

// Updates parameters and moments. A norm that is not finite means that the gradients are not: the update is
// skipped.
void adamw_8bit(const KernelCall& call) {
  Update8bit(call).run();
}

}  // namespace snug::cpu
