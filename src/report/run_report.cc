// Lines and tables of a forecast.
#include "report/run_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>

#include "base/bytes.h"
#include "base/error.h"
#include "io/printable.h"
#include "report/layout.h"

namespace snug {
namespace {

constexpr std::string_view kDigits = "0123456789.";
constexpr size_t kLabelColumns = 8;  // "  run     "
constexpr std::string_view kNoCost = "--price 0.79 (or \"0.79 EUR\") says what an hour of this card costs";

std::string hours_text(double hours) {
  if (hours < 1) {
    return format_duration(3600 * hours);
  }
  return hours < 100 ? fmt::format("{:.1f} hours", hours)
                     : fmt::format("{} hours", format_count(std::llround(hours)));
}

std::string seconds_text(double seconds) {
  return seconds < 0.1 ? fmt::format("{:.1f} ms", 1e3 * seconds) : fmt::format("{:.2f} s", seconds);
}

// Whole where every step is cut alike.
std::string mean_text(double count) {
  return count == std::floor(count) ? format_count(static_cast<int64_t>(count))
                                    : fmt::format("{:.1f}", count);
}

std::optional<double> micro_batches_of_epoch(const RunForecast& run) {
  return run.length.steps_per_epoch
             ? std::optional(run.micro_batches * static_cast<double>(*run.length.steps_per_epoch))
             : std::nullopt;
}

std::string steps_line(const RunForecast& run, const Style& style) {
  if (!run.length.steps) {
    return "";
  }
  std::string text = fmt::format("  {}  ", style.dim("run   "));
  if (run.length.rows && run.length.steps_per_epoch) {
    std::string product = run.product.empty() ? "" : fmt::format(" ({})", run.product);
    text += fmt::format("{} rows an epoch, {}{} a step: {} steps of {} micro-batch{}; {:.3g} epoch{}: ",
                        format_count(*run.length.rows), format_count(run.sequences), product,
                        format_count(*run.length.steps_per_epoch), mean_text(run.micro_batches),
                        run.micro_batches == 1 ? "" : "es", run.epochs, run.epochs == 1 ? "" : "s");
  }
  return text + fmt::format("{} steps\n", format_count(*run.length.steps));
}

std::string what_is_counted(const RunForecast& run) {
  std::string text;
  if (run.evaluations > 0 && run.counts_evaluations()) {
    text = fmt::format(", {} evaluation{} of {} included", format_count(run.evaluations),
                       run.evaluations == 1 ? "" : "s", seconds_text(*run.evaluation_seconds));
  } else if (run.evaluations > 0) {
    text = run.evaluations == 1 ? ", without the evaluation at its end"
                                : fmt::format(", without its {} evaluations", format_count(run.evaluations));
    text += " (--data tells their length)";
  }
  return text + (run.generates ? "; answers that are generated are not counted" : "");
}

std::string time_line(const RunForecast& run, const Style& style) {
  if (!run.step_seconds) {
    return "";
  }
  std::string text =
      fmt::format("  {}  about {} a step, {} tok/s", style.dim("time  "), seconds_text(*run.step_seconds),
                  format_count(std::llround(run.tokens / *run.step_seconds)));
  if (std::optional<double> hours = run.hours()) {
    return text + fmt::format(": {}{}\n", hours_text(*hours), what_is_counted(run));
  }
  return text + "; how many steps there are is known with --data, or by --rows 10000 or training.max_steps\n";
}

std::string cost_text(double hours, const Price& price) {
  return fmt::format("{} at {} an hour{}", price.of(hours), price.of(1),
                     price.source.empty() ? "" : fmt::format(" ({})", price.source));
}

std::string cost_line(const std::optional<double>& hours, const std::optional<Price>& price,
                      const Style& style) {
  if (!hours) {
    return "";
  }
  return fmt::format("  {}  {}\n", style.dim("cost  "),
                     price ? cost_text(*hours, *price) : fmt::format("not known: {}", kNoCost));
}

std::optional<double> all_hours(const std::vector<RunForecast>& runs) {
  double all = 0;
  for (const RunForecast& run : runs) {
    if (!run.hours()) {
      return std::nullopt;
    }
    all += *run.hours();
  }
  return all;
}

std::string whole_lines(const std::vector<RunForecast>& runs, const std::optional<Price>& price,
                        const Style& style) {
  std::optional<double> hours = all_hours(runs);
  if (!hours) {
    return "";
  }
  bool counts_all =
      std::all_of(runs.begin(), runs.end(), [](const RunForecast& run) { return run.counts_evaluations(); });
  return fmt::format("  {}  {} for all stages, evaluations {}\n", style.dim("time  "), hours_text(*hours),
                     counts_all ? "included" : "not counted (--data tells their length)") +
         cost_line(hours, price, style);
}

std::string without_labels(const std::string& lines) {
  std::string sentence;
  for (size_t begin = 0; begin < lines.size();) {
    size_t end = lines.find('\n', begin);
    size_t first = lines.find_first_not_of(' ', begin + kLabelColumns);
    sentence += (sentence.empty() ? "" : "; ") + lines.substr(first, end - first);
    begin = end + 1;
  }
  return sentence;
}

Json price_json(const std::optional<double>& hours, const std::optional<Price>& price) {
  Json json;
  json["price_per_hour"] = price ? Json(price->an_hour) : Json();
  json["price_currency"] = price ? Json(price->before + price->after) : Json();
  json["price_source"] = price && !price->source.empty() ? Json(price->source) : Json();
  json["cost"] = price && hours ? Json(*hours * price->an_hour) : Json();
  return json;
}

Json or_null(const auto& value) {
  return value ? Json(*value) : Json();
}

}  // namespace

std::string Price::of(double hours) const {
  return fmt::format("{}{:.2f}{}", before, hours * an_hour, after);
}

Price parse_price(const std::string& text) {
  size_t begin = std::min(text.find_first_of(kDigits), text.size());
  size_t end = std::min(text.find_first_not_of(kDigits, begin), text.size());
  Price price{.before = text.substr(0, begin), .after = text.substr(end)};
  auto [stop, error] = std::from_chars(text.data() + begin, text.data() + end, price.an_hour);
  bool is_number = error == std::errc() && stop == text.data() + end;
  bool is_signed = text.find('-') != std::string::npos;
  if (!is_number || is_signed || price.an_hour <= 0) {
    throw bad_input(fmt::format(
        "--price is {}: expected what an hour of the card costs, e.g. 0.79, \"$0.79\" or \"0.79 EUR\"",
        in_quotes(text)));
  }
  return price;
}

std::optional<Price> catalogue_price(const CatalogueCard& card) {
  if (!card.rent) {
    return std::nullopt;
  }
  return Price{.before = "$",
               .an_hour = card.rent->dollars_an_hour,
               .source = fmt::format("{}, {}", card.rent->source, card.rent->date)};
}

std::string run_report(const RunForecast& run, const std::optional<Price>& price, const Style& style) {
  return fit_lines(steps_line(run, style) + time_line(run, style) + cost_line(run.hours(), price, style),
                   style);
}

std::string run_sentence(const RunForecast& run, const std::optional<Price>& price) {
  return without_labels(run_report(run, price, Style(false)));
}

Json run_json(const RunForecast& run, const std::optional<Price>& price) {
  Json json = {{"epochs", run.epochs},
               {"sequences_per_step", run.sequences},
               {"micro_batches_per_step", run.micro_batches},
               {"tokens_per_step", run.tokens},
               {"evaluations", run.evaluations},
               {"hours_include_evaluations", run.counts_evaluations()}};
  json["rows"] = or_null(run.length.rows);
  json["micro_batches_per_epoch"] = or_null(micro_batches_of_epoch(run));
  json["steps_per_epoch"] = or_null(run.length.steps_per_epoch);
  json["steps"] = or_null(run.length.steps);
  json["step_seconds"] = or_null(run.step_seconds);
  json["tokens_per_second"] = run.step_seconds ? Json(run.tokens / *run.step_seconds) : Json();
  json["evaluation_seconds"] = or_null(run.evaluation_seconds);
  json["hours"] = or_null(run.hours());
  json.update(price_json(run.hours(), price));
  return json;
}

std::string stages_run_report(const std::vector<RunForecast>& runs, const std::vector<std::string>& names,
                              const std::optional<Price>& price, const Style& style) {
  bool is_anything_known = std::any_of(
      runs.begin(), runs.end(), [](const RunForecast& run) { return run.length.steps || run.step_seconds; });
  if (!is_anything_known) {
    return "";
  }
  Table table;
  table.header = {"run"};
  table.header.insert(table.header.end(), names.begin(), names.end());
  auto add_row = [&](std::string_view name, const std::function<std::string(const RunForecast&)>& text_of) {
    std::vector<std::string> row = {std::string(name)};
    bool is_known = false;
    for (const RunForecast& run : runs) {
      row.push_back(text_of(run));
      is_known = is_known || !row.back().empty();
    }
    if (is_known) {
      table.rows.push_back(std::move(row));
    }
  };
  auto count = [](const std::optional<int64_t>& number) { return number ? format_count(*number) : ""; };
  add_row("rows an epoch", [&](const RunForecast& run) { return count(run.length.rows); });
  add_row("micro-batches an epoch", [](const RunForecast& run) {
    std::optional<double> all = micro_batches_of_epoch(run);
    return all ? format_count(std::llround(*all)) : "";
  });
  add_row("steps an epoch", [&](const RunForecast& run) { return count(run.length.steps_per_epoch); });
  add_row("steps", [&](const RunForecast& run) { return count(run.length.steps); });
  add_row("a step",
          [](const RunForecast& run) { return run.step_seconds ? seconds_text(*run.step_seconds) : ""; });
  add_row("tokens a second", [](const RunForecast& run) {
    return run.step_seconds ? format_count(std::llround(run.tokens / *run.step_seconds)) : "";
  });
  add_row("time", [](const RunForecast& run) { return run.hours() ? hours_text(*run.hours()) : ""; });
  if (price) {
    add_row("cost", [&](const RunForecast& run) { return run.hours() ? price->of(*run.hours()) : ""; });
  }
  return "\n" + table.to_text(style) + "\n" + fit_lines(whole_lines(runs, price, style), style);
}

std::string stages_run_sentence(const std::vector<RunForecast>& runs, const std::optional<Price>& price) {
  return without_labels(whole_lines(runs, price, Style(false)));
}

Json stages_run_json(const std::vector<RunForecast>& runs, const std::optional<Price>& price) {
  std::optional<double> hours = all_hours(runs);
  Json json = price_json(hours, price);
  json["hours"] = or_null(hours);
  json["hours_include_evaluations"] =
      std::all_of(runs.begin(), runs.end(), [](const RunForecast& run) { return run.counts_evaluations(); });
  return json;
}

}  // namespace snug
