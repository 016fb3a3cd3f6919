// Adafactor (backend/adafactor_formula.h), tensor by tensor. Sums are made in one order, whatever the number
// of threads.
#include "backend/adafactor_formula.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "backend/cpu/dispatch.h"
#include "backend/cpu/kernel_functions.h"
#include "backend/cpu/parameters.h"
#include "backend/cpu/scratch.h"
#include "base/philox_lanes.h"
#include "base/threads.h"
#include "program/operands.h"

namespace snug::cpu {
namespace {

constexpr int64_t kColumnsAtOnce = 64;
// Elements of a partial sum, and of what a thread takes at once.
constexpr int64_t kSumElements = 16384;
static_assert(kSumElements % kRoundingBlock == 0);

int64_t sums_of(int64_t elements) {
  return (elements + kSumElements - 1) / kSumElements;
}

// What U has in place of the gradient's own scale: rows[i] * columns[j]. A vector is a matrix of one column.
struct Factors {
  float* rows;
  float* columns;
  int64_t row_length;
};

// Calls body(element, factor) for elements [first, last), which run across rows.
template <typename Body>
void for_each_factor(const Factors& factors, int64_t first, int64_t last, const Body& body) {
  int64_t row = first / factors.row_length;
  int64_t column = first % factors.row_length;
  for (int64_t i = first; i < last; ++i) {
    body(i, factors.rows[row] * factors.columns[column]);
    if (++column == factors.row_length) {
      column = 0;
      ++row;
    }
  }
}

class AdafactorUpdate {
 public:
  explicit AdafactorUpdate(const KernelCall& call)
      : call_(call),
        attributes_(attributes_of<AdafactorAttributes>(call.op)),
        places_(attributes_),
        scalars_(*call.inputs[places_.scalars()].as<StepScalars>()),
        norm_(call.inputs[places_.norm()].as<float>()[0]),
        step_(make_adafactor_step(attributes_.max_norm, scalars_, norm_,
                                  call.inputs[places_.clock()].as<StepClock>()->updates)) {
    SNUG_CHECK(call.outputs.size() == places_.output_count(),
               "adafactor's outputs are parameters, mean squares and what is beside parameters");
  }

  void run() const {
    if (!std::isfinite(norm_)) {
      return;
    }
    for (size_t number = 0; number < attributes_.tensors.size(); ++number) {
      const FactoredTensor& tensor = attributes_.tensors[number];
      ParameterTensors tensors = parameter_tensors(call_, places_, tensor.parameter);
      with_parameters(tensors, tensor.first_element, [&](auto parameters) {
        with_type(call_.inputs[places_.gradient(tensor.parameter)].dtype,
                  [&](auto type) { run_tensor<typename decltype(type)::type>(tensor, number, parameters); });
      });
    }
  }

 private:
  template <typename G, typename P>
  void run_tensor(const FactoredTensor& tensor, uint64_t number, const P& parameters) const {
    const G* gradient = call_.inputs[places_.gradient(tensor.parameter)].as<G>() + tensor.first_element;
    Scratch scratch(call_.workspace);
    Factors factors{.rows = scratch.take<float>(tensor.rows),
                    .columns = scratch.take<float>(tensor.row_length()),
                    .row_length = tensor.row_length()};
    double* sums = scratch.take<double>(sums_of(tensor.elements()));
    move_means(tensor, gradient, factors);
    double sum = sum_of_squares(tensor, gradient, factors, sums);
    float size = step_size(step_, sum, tensor.elements());
    float decay = decay_factor(scalars_.learning_rate, attributes_.weight_decay[tensor.parameter]);
    parallel_for(sums_of(tensor.elements()), 1, [&](int64_t first, int64_t last) {
      int64_t end = std::min(last * kSumElements, tensor.elements());
      for (int64_t begin = first * kSumElements; begin < end; begin += kRoundingBlock) {
        Range range{begin, std::min(begin + kRoundingBlock, end)};
        move_parameters(range, gradient, parameters, factors, {size, decay, number});
      }
    });
  }

  // The mean squares of rows and columns, or of a vector's elements; and the factors that follow from them.
  template <typename G>
  void move_means(const FactoredTensor& tensor, const G* gradient, const Factors& factors) const {
    float* rows = call_.outputs[places_.mean_squares(tensor.parameter)].as<float>() + tensor.first_state;
    int64_t length = tensor.row_length();
    int64_t grain = std::max(int64_t{1}, kSumElements / length);
    parallel_for(tensor.rows, grain, [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i) {
        rows[i] = moved_mean(step_, rows[i], squares(gradient + i * length, length) / double(length));
      }
    });
    if (!tensor.is_matrix()) {
      factors.columns[0] = 1;
      for (int64_t i = 0; i < tensor.rows; ++i) {
        factors.rows[i] = inverse_root(rows[i]);
      }
      return;
    }
    auto mean = static_cast<float>(std::accumulate(rows, rows + tensor.rows, 0.0) / double(tensor.rows));
    for (int64_t i = 0; i < tensor.rows; ++i) {
      factors.rows[i] = row_factor(rows[i], mean);
    }
    float* columns = rows + tensor.rows;
    int64_t groups = (length + kColumnsAtOnce - 1) / kColumnsAtOnce;
    parallel_for(groups, 1, [&](int64_t first, int64_t last) {
      for (int64_t group = first; group < last; ++group) {
        move_columns(tensor, gradient, group * kColumnsAtOnce, columns, factors);
      }
    });
  }

  template <typename G>
  void move_columns(const FactoredTensor& tensor, const G* gradient, int64_t begin, float* columns,
                    const Factors& factors) const {
    int64_t length = tensor.row_length();
    int64_t count = std::min(kColumnsAtOnce, length - begin);
    std::array<double, kColumnsAtOnce> sums{};
    for (int64_t i = 0; i < tensor.rows; ++i) {
      const G* row = gradient + i * length + begin;
      for (int64_t j = 0; j < count; ++j) {
        double g = static_cast<double>(to_float(row[j]) * step_.gradient_scale);
        sums[static_cast<size_t>(j)] += g * g;
      }
    }
    for (int64_t j = 0; j < count; ++j) {
      float& column = columns[begin + j];
      column = moved_mean(step_, column, sums[static_cast<size_t>(j)] / double(tensor.rows));
      factors.columns[begin + j] = inverse_root(column);
    }
  }

  template <typename G>
  double squares(const G* gradient, int64_t count) const {
    double sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < count; ++i) {
      double g = static_cast<double>(to_float(gradient[i]) * step_.gradient_scale);
      sum += g * g;
    }
    return sum;
  }

  // Of U.
  template <typename G>
  double sum_of_squares(const FactoredTensor& tensor, const G* gradient, const Factors& factors,
                        double* sums) const {
    int64_t count = sums_of(tensor.elements());
    parallel_for(count, 1, [&](int64_t first, int64_t last) {
      for (int64_t n = first; n < last; ++n) {
        double sum = 0;
        int64_t end = std::min((n + 1) * kSumElements, tensor.elements());
        for_each_factor(factors, n * kSumElements, end, [&](int64_t i, float factor) {
          double u = static_cast<double>(to_float(gradient[i]) * step_.gradient_scale * factor);
          sum += u * u;
        });
        sums[n] = sum;
      }
    });
    return std::accumulate(sums, sums + count, 0.0);
  }

  struct Range {
    int64_t first;
    int64_t last;
  };
  struct Move {
    float size;
    float decay;
    uint64_t number;  // of the tensor, for random bits
  };

  // One block of kRoundingBlock elements.
  template <typename P, typename G>
  void move_parameters(const Range& range, const G* gradient, const P& parameters, const Factors& factors,
                       const Move& move) const {
    PhiloxLanes lanes;
    if constexpr (std::is_same_v<P, bf16_t*>) {
      const auto* random = call_.inputs[places_.random()].as<int64_t>();
      lanes.run(static_cast<uint64_t>(random[0]), rounding_stream(random[1], move.number),
                rounding_place(range.first).counter, kRoundingBlock / kElementsACounter);
    }
    for_each_factor(factors, range.first, range.last, [&](int64_t i, float factor) {
      float change = to_float(gradient[i]) * step_.gradient_scale * factor;
      float moved = moved_parameter(parameter_at(parameters, i), move.decay, move.size, change);
      if constexpr (std::is_same_v<P, bf16_t*>) {
        RoundingPlace place = rounding_place(i - range.first);
        uint32_t word = lanes.words[place.half / 2][place.counter];
        parameters[i] = bf16_t{stochastic_bf16_bits(moved, word >> place.half % 2 * 16)};
      } else {
        set_parameter(parameters, i, moved);
      }
    });
  }

  const KernelCall& call_;
  const AdafactorAttributes& attributes_;
  AdafactorPlaces places_;
  StepScalars scalars_;
  float norm_;
  AdafactorStep step_;
};

}  // namespace

int64_t adafactor_workspace(const Program& /*program*/, const Op& op, int /*threads*/) {
  int64_t most = 0;
  for (const FactoredTensor& tensor : attributes_of<AdafactorAttributes>(op).tensors) {
    most = std::max(most, padded_bytes_of<float>(tensor.rows) + padded_bytes_of<float>(tensor.row_length()) +
                              padded_bytes_of<double>(sums_of(tensor.elements())));
  }
  return most;
}

// Updates parameters, mean squares, and copies or rests. A norm that is not finite means that the gradients
// are not: the update is skipped.
void adafactor(const KernelCall& call) {
  AdafactorUpdate(call).run();
}

}  // namespace snug::cpu
