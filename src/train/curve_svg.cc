// Scalable vector graphics by hand: lines, dots, and numbers beside them.
#include "train/curve_svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "io/json.h"

namespace snug {
namespace {

struct Point {
  double step = 0;
  double loss = 0;
};

struct Losses {
  std::vector<Point> training;
  std::vector<Point> evaluation;
};

// Where the curve is drawn, in the units of the picture.
constexpr double kWidth = 720;
constexpr double kHeight = 300;
constexpr double kLeft = 52;
constexpr double kRight = kWidth - 16;
constexpr double kTop = 30;
constexpr double kBottom = kHeight - 32;
constexpr size_t kMostPoints = 600;
constexpr size_t kMostDots = 60;

// It is shown on light and on dark pages.
constexpr const char* kStyle =
    "<style>text{font:12px system-ui,sans-serif;fill:#667085}.grid{stroke:#d7dce4}.raw{stroke:#2563c4;"
    "opacity:.25}.line{stroke:#2563c4;stroke-width:1.8}.eval{stroke:#c2561c;stroke-width:1.8}.dot{fill:#"
    "c2561c}"
    "polyline{fill:none;stroke-linejoin:round}@media(prefers-color-scheme:dark){text{fill:#98a2b3}.grid{"
    "stroke:"
    "#343b47}.raw,.line{stroke:#6ea0ec}.eval{stroke:#e8875a}.dot{fill:#e8875a}}</style>\n";

Losses read_losses(std::string_view rows) {
  Losses losses;
  while (!rows.empty()) {
    size_t end = std::min(rows.find('\n'), rows.size());
    Json row = Json::parse(rows.substr(0, end), nullptr, false);
    rows.remove_prefix(std::min(end + 1, rows.size()));
    if (!row.is_object() || !row.contains("step") || !row["step"].is_number()) {
      continue;
    }
    for (auto [key, points] :
         {std::pair("loss", &losses.training), std::pair("eval_loss", &losses.evaluation)}) {
      bool is_there = row.contains(key) && row[key].is_number() && std::isfinite(row[key].get<double>());
      if (is_there) {
        points->push_back({row["step"].get<double>(), row[key].get<double>()});
      }
    }
  }
  return losses;
}

// The means of as many neighbours as it takes to have few points.
std::vector<Point> thinned(const std::vector<Point>& points) {
  size_t each = (points.size() + kMostPoints - 1) / kMostPoints;
  std::vector<Point> found;
  for (size_t begin = 0; begin < points.size(); begin += each) {
    size_t end = std::min(begin + each, points.size());
    Point sum;
    for (size_t i = begin; i < end; ++i) {
      sum.step += points[i].step;
      sum.loss += points[i].loss;
    }
    auto count = static_cast<double>(end - begin);
    found.push_back({sum.step / count, sum.loss / count});
  }
  return found;
}

// A fiftieth of the run to each side; the ends stay where they are.
std::vector<Point> smoothed(const std::vector<Point>& points) {
  std::vector<Point> found;
  for (size_t i = 0; i < points.size(); ++i) {
    size_t reach = std::min({points.size() / 50, i, points.size() - 1 - i});
    double sum = 0;
    for (size_t k = i - reach; k <= i + reach; ++k) {
      sum += points[k].loss;
    }
    found.push_back({points[i].step, sum / static_cast<double>(2 * reach + 1)});
  }
  return found;
}

// 1, 2 or 5 times a power of ten, so that there are about five of them.
double tick_distance(double range) {
  double rough = range / 5;
  double power = std::pow(10, std::floor(std::log10(rough)));
  for (double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= rough) {
      return factor * power;
    }
  }
  return 10 * power;
}

class Picture {
 public:
  explicit Picture(const Losses& losses) {
    for (const std::vector<Point>* points : {&losses.training, &losses.evaluation}) {
      for (const Point& point : *points) {
        first_step_ = std::min(first_step_, point.step);
        last_step_ = std::max(last_step_, point.step);
        low_ = std::min(low_, point.loss);
        high_ = std::max(high_, point.loss);
      }
    }
    double room = high_ > low_ ? (high_ - low_) * 0.06 : std::max(std::abs(high_) * 0.1, 1e-6);
    low_ = low_ >= 0 ? std::max(0.0, low_ - room) : low_ - room;
    high_ += room;
  }

  std::string axes() const {
    std::string text;
    double distance = tick_distance(high_ - low_);
    for (double i = std::ceil(low_ / distance); i * distance <= high_; ++i) {
      double at = y(i * distance);
      text += fmt::format(
          "<line class=\"grid\" x1=\"{0}\" x2=\"{1}\" y1=\"{2:.1f}\" y2=\"{2:.1f}\"/><text x=\"{3}\" "
          "y=\"{4:.1f}\" "
          "text-anchor=\"end\">{5:.6g}</text>\n",
          kLeft, kRight, at, kLeft - 8, at + 4, i * distance);
    }
    distance = std::max(1.0, tick_distance(last_step_ - first_step_));
    for (double i = std::ceil(first_step_ / distance); i * distance <= last_step_; ++i) {
      text += fmt::format("<text x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\">{:.0f}</text>\n",
                          x(i * distance), kBottom + 20, i * distance);
    }
    return text;
  }
  std::string line(const std::vector<Point>& points, std::string_view kind) const {
    std::string places;
    for (const Point& point : points) {
      places += fmt::format("{}{:.1f},{:.1f}", places.empty() ? "" : " ", x(point.step), y(point.loss));
    }
    return fmt::format("<polyline class=\"{}\" points=\"{}\"/>\n", kind, places);
  }
  std::string dots(const std::vector<Point>& points) const {
    std::string text;
    for (const Point& point : points) {
      text += fmt::format("<circle class=\"dot\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"2.6\"/>\n", x(point.step),
                          y(point.loss));
    }
    return text;
  }

 private:
  double x(double step) const {
    return kLeft + (step - first_step_) / (last_step_ - first_step_) * (kRight - kLeft);
  }
  double y(double loss) const { return kBottom - (loss - low_) / (high_ - low_) * (kBottom - kTop); }

  double first_step_ = std::numeric_limits<double>::infinity();
  double last_step_ = -std::numeric_limits<double>::infinity();
  double low_ = std::numeric_limits<double>::infinity();
  double high_ = -std::numeric_limits<double>::infinity();
};

std::string legend(double left, std::string_view kind, std::string_view name) {
  return fmt::format(
      "<line class=\"{}\" x1=\"{}\" x2=\"{}\" y1=\"14\" y2=\"14\"/><text x=\"{}\" y=\"18\">{}</text>\n", kind,
      left, left + 22, left + 28, name);
}

}  // namespace

std::string curve_svg(std::string_view rows) {
  Losses losses = read_losses(rows);
  if (losses.training.size() < 2 || losses.training.front().step >= losses.training.back().step) {
    return "";
  }
  losses.training = thinned(losses.training);
  losses.evaluation = thinned(losses.evaluation);
  Picture picture(losses);
  std::string text = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" height=\"{1}\" "
      "role=\"img\" "
      "aria-label=\"loss by step\">\n{2}",
      kWidth, kHeight, kStyle);
  text += picture.axes() + legend(kLeft, "line", "training loss");
  if (!losses.evaluation.empty()) {
    text += legend(kLeft + 140, "eval", "evaluation loss");
  }
  text += picture.line(losses.training, "raw") + picture.line(smoothed(losses.training), "line");
  if (!losses.evaluation.empty()) {
    text += picture.line(losses.evaluation, "eval");
    text += losses.evaluation.size() <= kMostDots ? picture.dots(losses.evaluation) : "";
  }
  return text + "</svg>\n";
}

}  // namespace snug
