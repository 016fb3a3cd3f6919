// A run's length for people: rows, steps, hours, and what they cost where somebody says what an hour does.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "backend/cuda_plan/catalogue.h"
#include "io/json.h"
#include "plan/run_forecast.h"
#include "report/terminal.h"

namespace snug {

// Of an hour, in the currency in which it is written: "0.79", "$0.79", "0.79 EUR".
struct Price {
  std::string before = {};
  double an_hour = 0;
  std::string after = {};
  std::string source = {};  // "" where the user says it

  std::string of(double hours) const;
};
// Throws bad_input for text without a number that is above zero.
Price parse_price(const std::string& text);
// What the catalogue has of it; nothing where it has none.
std::optional<Price> catalogue_price(const CatalogueCard& card);

// "" where nothing is known of the run.
std::string run_report(const RunForecast& run, const std::optional<Price>& price, const Style& style);
// The same in one line, for a page.
std::string run_sentence(const RunForecast& run, const std::optional<Price>& price);
Json run_json(const RunForecast& run, const std::optional<Price>& price);

// Of all stages, and of the whole.
std::string stages_run_report(const std::vector<RunForecast>& runs, const std::vector<std::string>& names,
                              const std::optional<Price>& price, const Style& style);
std::string stages_run_sentence(const std::vector<RunForecast>& runs, const std::optional<Price>& price);
Json stages_run_json(const std::vector<RunForecast>& runs, const std::optional<Price>& price);

}  // namespace snug
