// Rows to figures.
#include "train/run_figures.h"

#include <algorithm>
#include <cmath>

#include "io/growing_rows.h"

namespace snug {
namespace {

std::optional<double> number_in(const Json& row, const char* key) {
  auto found = row.find(key);
  bool is_there = found != row.end() && found->is_number() && std::isfinite(found->get<double>());
  return is_there ? std::optional(found->get<double>()) : std::nullopt;
}

std::optional<double> median(std::vector<double> values) {
  if (values.empty()) {
    return std::nullopt;
  }
  auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

void MetricsReader::add(const Json& row) {
  if (auto step = row.find("step"); step != row.end() && step->is_number_integer()) {
    figures_.steps = std::max(figures_.steps, step->get<int64_t>());
  }
  if (std::optional<double> loss = number_in(row, "loss")) {
    figures_.first_loss = figures_.first_loss.value_or(*loss);
    figures_.last_loss = loss;
  }
  if (std::optional<double> loss = number_in(row, "eval_loss")) {
    figures_.eval_loss = loss;
    figures_.best_eval_loss = std::min(figures_.best_eval_loss.value_or(*loss), *loss);
  }
  if (std::optional<double> speed = number_in(row, "tokens_per_second")) {
    speeds_.push_back(*speed);
  }
  if (std::optional<double> time = number_in(row, "time")) {
    figures_.last_time = time;
  }
}

RunFigures MetricsReader::read(const std::filesystem::path& file) {
  for (bool more = true; more;) {
    RowNews news = read_new_rows(file, offset_, mark_);
    if (news.from == 0) {
      figures_ = {};
      speeds_.clear();
    }
    for (const Json& row : news.rows) {
      add(row);
    }
    offset_ = news.offset;
    mark_ = std::move(news.mark);
    more = news.more;
  }
  figures_.tokens_per_second = median(speeds_);
  return figures_;
}

}  // namespace snug
