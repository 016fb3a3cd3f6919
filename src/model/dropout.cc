// Rates of dropout, in words and by override.
#include "model/dropout.h"

#include <fmt/format.h>

#include <map>
#include <vector>

namespace snug {

DropoutRates with_rate(DropoutRates rates, std::optional<double> rate) {
  for_each_place(rates, [&](std::string_view, std::optional<double>& place) {
    if (place && rate) {
      place = rate;
    }
  });
  return rates;
}

std::string describe(const DropoutRates& rates) {
  std::map<double, std::vector<std::string_view>> places;
  for_each_place(rates, [&](std::string_view name, const std::optional<double>& rate) {
    if (rate.value_or(0) > 0) {
      places[*rate].push_back(name);
    }
  });
  std::string text;
  for (const auto& [rate, names] : places) {
    text += fmt::format("{}{:g} ({})", text.empty() ? "" : ", ", rate, fmt::join(names, ", "));
  }
  return text;
}

}  // namespace snug
