// The names that recipes and reports use for the recipe's enumerations, in the order in which they are
// listed.
#pragma once

#include <array>
#include <string_view>
#include <utility>

#include "recipe/recipe.h"

namespace snug {

template <typename Enum>
using Choice = std::pair<std::string_view, Enum>;

inline constexpr std::array<Choice<DataFormat>, 3> kDataFormats = {{
    {"auto", DataFormat::automatic},
    {"text", DataFormat::text},
    {"prompt_completion", DataFormat::prompt_completion},
}};

inline constexpr std::array<Choice<Schedule>, 3> kSchedules = {{
    {"linear", Schedule::linear},
    {"cosine", Schedule::cosine},
    {"constant", Schedule::constant},
}};

inline constexpr std::array<Choice<Recompute>, 3> kRecomputePolicies = {{
    {"none", Recompute::none},
    {"selective", Recompute::selective},
    {"full", Recompute::full},
}};

template <typename Choices, typename Enum>
constexpr std::string_view choice_name(const Choices& choices, Enum value) {
  for (const auto& [name, choice] : choices) {
    if (choice == value) {
      return name;
    }
  }
  return "";
}

constexpr std::string_view name_of(DataFormat format) {
  return choice_name(kDataFormats, format);
}
constexpr std::string_view name_of(Schedule schedule) {
  return choice_name(kSchedules, schedule);
}
constexpr std::string_view name_of(Recompute policy) {
  return choice_name(kRecomputePolicies, policy);
}

}  // namespace snug
