// One thing that was looked at before a run: what was found, and what to do about it.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "io/json.h"
#include "report/terminal.h"

namespace snug {

enum class CheckStatus { ok, warning, problem };

// Of a problem: whose it is. The exit code follows from it.
enum class ProblemKind { environment, bad_input, does_not_fit };

struct Check {
  std::string subject;  // "card", "data"
  CheckStatus status = CheckStatus::ok;
  std::string text;
  std::string remedy = {};
  ProblemKind kind = ProblemKind::environment;
};

// What `look` finds; an error that it throws is a problem.
Check check(const std::string& subject, const std::function<Check()>& look);

// The first problem, or null.
const Check* first_problem(const std::vector<Check>& checks);

std::string doctor_report(const std::vector<Check>& checks, const Style& style);
Json doctor_json(const std::vector<Check>& checks);

}  // namespace snug
