// Rows as events.
#include "train/tensorboard_log.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cctype>
#include <cmath>
#include <limits>
#include <sstream>
#include <utility>
#include <vector>

#include "base/unix_time.h"
#include "io/event_file.h"
#include "recipe/write.h"
#include "train/run_files.h"

namespace snug {
namespace {

std::string host_name() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) {
    return "localhost";
  }
  std::string text = name.data();
  for (char& c : text) {
    c = std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '.' ? c : '_';
  }
  return text;
}

// As Hugging Face's Trainer groups them.
std::string tag_of(const std::string& name) {
  constexpr std::string_view kEvaluated = "eval_";
  return name.starts_with(kEvaluated) ? "eval/" + name.substr(kEvaluated.size()) : "train/" + name;
}

// Lines that Markdown leaves as they are.
std::string as_code(const std::string& text) {
  std::string code;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    code += "    " + line + "\n";
  }
  return code;
}

// What the model wrote, with what it was asked.
std::string sample_record(const Json& row, double time) {
  auto part = [&](const char* name) {
    return row.contains(name) && row[name].is_string()
               ? fmt::format("**{}**\n\n{}\n", name, as_code(row[name].get<std::string>()))
               : "";
  };
  return text_event(time, row["step"].get<int64_t>(), fmt::format("samples/{}", row["sample"].dump()),
                    part("prompt") + part("text") + part("reference"));
}

std::string row_record(const Json& row) {
  bool has_time = row.contains("time") && row["time"].is_number();  // rows of earlier versions have none
  double time = has_time ? row["time"].get<double>() : unix_seconds();
  if (row.contains("sample")) {
    return sample_record(row, time);
  }
  Scalars scalars;
  for (const auto& [name, value] : row.items()) {
    if (name == "step" || name == "time") {
      continue;
    }
    if (value.is_number()) {
      scalars.emplace_back(tag_of(name), value.get<double>());
    } else if (value.is_null()) {  // JSON's word for what is not finite
      scalars.emplace_back(tag_of(name), std::numeric_limits<double>::quiet_NaN());
    }
  }
  return scalars_event(time, row.at("step"), scalars);
}

std::vector<std::pair<std::string, Json>> settings_of(const Recipe& recipe) {
  std::vector<std::pair<std::string, Json>> settings;
  auto add = [&](const std::string& name, const Json& value) {
    if (!value.is_null()) {
      settings.emplace_back(name, value);
    }
  };
  const Json document = recipe_to_json(recipe);
  for (const auto& [name, value] : document.items()) {
    if (!value.is_object()) {
      add(name, value);
      continue;
    }
    for (const auto& [leaf, leaf_value] : value.items()) {
      add(fmt::format("{}.{}", name, leaf), leaf_value);
    }
  }
  return settings;
}

std::string beginning_of(const Recipe& recipe, std::string_view earlier_rows) {
  double now = unix_seconds();
  std::string records = event_file_start(now) + restart_event(now) + settings_event(now, settings_of(recipe));
  std::istringstream lines{std::string(earlier_rows)};
  for (std::string line; std::getline(lines, line);) {
    Json row = parse_json(line, "metrics.jsonl");
    if (row.is_object() && row.contains("step") && row["step"].is_number_integer()) {
      records += row_record(row);
    }
  }
  return records;
}

}  // namespace

std::string new_event_file_name() {
  return fmt::format("{}{:010d}.{}", kEventFilePrefix, static_cast<int64_t>(unix_seconds()), host_name());
}

TensorboardLog::TensorboardLog(const std::filesystem::path& path, const Recipe& recipe,
                               std::string_view earlier_rows, const RunEvents& events)
    : file_(path, beginning_of(recipe, earlier_rows)), events_(events) {}

void TensorboardLog::on_row(const Json& row) {
  append(row_record(row));
}

void TensorboardLog::on_end(const TrainSummary& summary) {
  append(settings_end_event(unix_seconds(), !summary.interrupted && summary.stopped_because.empty()));
}

void TensorboardLog::append(const std::string& record) {
  if (!file_.append(record) && file_.records_lost() == 1) {
    events_.warn(file_.problem() + "; TensorBoard will not see what is left out there");
  }
}

}  // namespace snug
