// A line a check.
#include "doctor/check.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "io/printable.h"
#include "report/layout.h"

namespace snug {
namespace {

std::string_view name_of(CheckStatus status) {
  switch (status) {
    case CheckStatus::ok:
      return "ok";
    case CheckStatus::warning:
      return "warning";
    case CheckStatus::problem:
      return "problem";
  }
  return "";
}

int64_t count_of(const std::vector<Check>& checks, CheckStatus status) {
  return std::count_if(checks.begin(), checks.end(), [&](const Check& one) { return one.status == status; });
}

std::string times(int64_t count, const char* one) {
  return fmt::format("{} {}{}", count, one, count == 1 ? "" : "s");
}

}  // namespace

Check check(const std::string& subject, const std::function<Check()>& look) {
  try {
    return look();
  } catch (const Error& error) {
    bool is_input = error.kind() == ErrorKind::bad_input;
    return {.subject = subject,
            .status = CheckStatus::problem,
            .text = error.what(),
            .remedy = "",
            .kind = is_input ? ProblemKind::bad_input : ProblemKind::environment};
  } catch (const std::exception& error) {
    return {.subject = subject, .status = CheckStatus::problem, .text = error.what()};
  }
}

const Check* first_problem(const std::vector<Check>& checks) {
  auto found = std::find_if(checks.begin(), checks.end(),
                            [](const Check& one) { return one.status == CheckStatus::problem; });
  return found == checks.end() ? nullptr : &*found;
}

std::string doctor_report(const std::vector<Check>& checks, const Style& style) {
  size_t widest = 0;
  for (const Check& one : checks) {
    widest = std::max(widest, one.subject.size());
  }
  constexpr size_t kStatusColumns = 7;
  std::string text;
  for (const Check& one : checks) {
    std::string status = pad_right(name_of(one.status), kStatusColumns);
    text +=
        fmt::format("  {}  {}  {}\n", one.status == CheckStatus::ok ? style.good(status) : style.bad(status),
                    pad_right(one.subject, widest), printable_lines(one.text));
    if (!one.remedy.empty()) {
      text += fmt::format("  {}  {}  {}\n", std::string(kStatusColumns, ' '), std::string(widest, ' '),
                          style.accent("→ ") + printable_lines(one.remedy));
    }
  }
  int64_t problems = count_of(checks, CheckStatus::problem);
  int64_t warnings = count_of(checks, CheckStatus::warning);
  text += "\n  ";
  text += problems > 0   ? style.bad(times(problems, "problem")) + ", " + times(warnings, "warning")
          : warnings > 0 ? times(warnings, "warning") + ", no problem"
                         : style.good("all is well");
  return fit_lines(text + "\n", style);
}

Json doctor_json(const std::vector<Check>& checks) {
  Json list = Json::array();
  for (const Check& one : checks) {
    list.push_back({{"subject", one.subject},
                    {"status", name_of(one.status)},
                    {"text", one.text},
                    {"remedy", one.remedy.empty() ? Json() : Json(one.remedy)}});
  }
  return {{"problems", count_of(checks, CheckStatus::problem)},
          {"warnings", count_of(checks, CheckStatus::warning)},
          {"checks", list}};
}

}  // namespace snug
