// Prices as people write them, and the lines of a run.
#include "report/run_report.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace snug {
namespace {

TEST(RunReport, PricesKeepTheirCurrency) {
  EXPECT_EQ(parse_price("1.90").of(10), "19.00");
  EXPECT_EQ(parse_price("$1.90").of(10), "$19.00");
  EXPECT_EQ(parse_price("0.79 EUR").of(100), "79.00 EUR");
  EXPECT_EQ(parse_price("€.5").of(3), "€1.50");
  for (const char* text : {"", "$", "free", "0", "-1", "1.2.3", "$-2"}) {
    EXPECT_THROW(parse_price(text), Error) << text;
  }
}

RunForecast known_run() {
  RunForecast run;
  run.length = {.rows = 6'000'000, .steps_per_epoch = 46'875, .steps = 234'375};
  run.epochs = 5;
  run.sequences = 128;
  run.product = "8 x 16";
  run.micro_batches = 16;
  run.tokens = 98'304;
  run.step_seconds = 2;
  return run;
}

TEST(RunReport, SaysStepsHoursAndCost) {
  RunForecast run = known_run();
  std::string text = run_report(run, parse_price("$0.80"), Style(false));
  EXPECT_EQ(text,
            "  run     6,000,000 rows an epoch, 128 (8 x 16) a step: 46,875 steps of 16 micro-batches; 5 "
            "epochs: 234,375 steps\n"
            "  time    about 2.00 s a step, 49,152 tok/s: 130 hours\n"
            "  cost    $104.17 at $0.80 an hour\n");
  EXPECT_NE(run_report(run, std::nullopt, Style(false)).find("cost    not known: --price"),
            std::string::npos);
  run.evaluations = 3;
  EXPECT_NE(run_report(run, std::nullopt, Style(false)).find("without its 3 evaluations"), std::string::npos);
  run.evaluation_seconds = 600;
  EXPECT_NE(run_report(run, std::nullopt, Style(false)).find("131 hours, 3 evaluations of 600.00 s included"),
            std::string::npos);
  EXPECT_EQ(run_sentence(known_run(), parse_price("2")).find("6,000,000 rows an epoch"), 0U);
  EXPECT_EQ(run_report({}, std::nullopt, Style(false)), "");
}

TEST(RunReport, StagesAddUp) {
  std::vector<RunForecast> runs = {known_run(), known_run()};
  runs[1].length.steps = 468'750;
  std::string text = stages_run_report(runs, {"first", "second"}, parse_price("$1"), Style(false));
  EXPECT_NE(text.find("391 hours for all stages, evaluations included"), std::string::npos) << text;
  EXPECT_NE(text.find("$390.62 at $1.00 an hour"), std::string::npos) << text;
  Json json = stages_run_json(runs, parse_price("$1"));
  EXPECT_NEAR(json["hours"].get<double>(), 3 * 234'375 * 2 / 3600.0, 1e-9);
  EXPECT_NEAR(json["cost"].get<double>(), 3 * 234'375 * 2 / 3600.0, 1e-9);
}

}  // namespace
}  // namespace snug
