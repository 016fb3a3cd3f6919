// What a model drops while it is trained: shares by place, as its config.json gives them.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace snug {

// Absent: the family drops nothing there, whatever anybody says.
struct DropoutRates {
  std::optional<double> embedding;  // what the first layer reads
  std::optional<double> attention;  // the softmax's weights
  std::optional<double> inner;      // what the MLP's last product reads
  std::optional<double> residual;   // what attention and MLP add to their input
  std::optional<double> output;     // of a stack, after its last norm
};

// Calls visit(name, rate) for every place.
template <typename Rates, typename Visit>
void for_each_place(Rates& rates, const Visit& visit) {
  visit("embedding", rates.embedding);
  visit("attention", rates.attention);
  visit("mlp", rates.inner);
  visit("residual", rates.residual);
  visit("output", rates.output);
}

// The same places with one rate for all; as they are where none is given.
DropoutRates with_rate(DropoutRates rates, std::optional<double> rate);

// "0.1 (embedding, attention)", by rate; "" where nothing is dropped.
std::string describe(const DropoutRates& rates);

}  // namespace snug
