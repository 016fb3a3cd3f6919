// What a running template has at hand: errors with their place, limits, arguments of functions.
#include "text/jinja/runtime.h"

#include <fmt/format.h>

#include <ctime>

#include "base/error.h"
#include "io/printable.h"

namespace snug::jinja {

std::string Runtime::where() const {
  return fmt::format("{}:{}:{}", name_, place_.line, place_.column);
}

void Runtime::fail(const std::string& message) const {
  throw bad_input(fmt::format("{}: {}.", where(), printable(message, 400)));
}

void Runtime::fail_unsupported(const std::string& construct) const {
  throw bad_input(
      fmt::format("{}: the template uses {}, which snug does not support. Change the template there, or give "
                  "one of your own.",
                  where(), printable(construct, 120)));
}

void Runtime::refuse(const std::string& message) const {
  throw bad_input(
      fmt::format("{}: the chat template refuses this conversation: {}", where(), printable(message, 400)));
}

void Runtime::fail_limit(std::string_view what) const {
  throw bad_input(
      fmt::format("{}: the template {} for one conversation; it may be damaged or hostile.", where(), what));
}

namespace {
constexpr size_t kTextValueBytes = sizeof(Value) + sizeof(std::string);  // beside the text itself
}  // namespace

Value Runtime::text(std::string_view bytes, bool safe) {
  count_bytes(bytes.size() + kTextValueBytes);
  return Value(std::string(bytes), safe);
}

Value Runtime::undefined(const std::string& reason) {
  count_bytes(reason.size() + kTextValueBytes);
  return Value::undefined(reason);
}

Value Runtime::dict(Dict members) {
  count_bytes(sizeof(Dict));
  return Value(std::make_shared<const Dict>(std::move(members)));
}

std::tm Runtime::now() const {
  if (now_) {
    return *now_;
  }
  std::time_t seconds = std::time(nullptr);
  std::tm local = {};
  localtime_r(&seconds, &local);
  return local;
}

Bound::Bound(Runtime& runtime, std::string_view function, Arguments arguments,
             std::vector<std::string_view> parameters, size_t required)
    : runtime_(runtime),
      function_(function),
      parameters_(std::move(parameters)),
      values_(parameters_.size()) {
  if (arguments.positional.size() > parameters_.size()) {
    runtime_.fail(fmt::format("{}() takes at most {} arguments, {} were given", function_, parameters_.size(),
                              arguments.positional.size()));
  }
  for (size_t i = 0; i < arguments.positional.size(); ++i) {
    values_[i] = std::move(arguments.positional[i]);
  }
  for (auto& [name, value] : arguments.named) {
    size_t index = 0;
    while (index < parameters_.size() && parameters_[index] != name) {
      ++index;
    }
    if (index == parameters_.size() || values_[index]) {
      runtime_.fail(fmt::format("{}() does not take the argument '{}' here", function_, name));
    }
    values_[index] = std::move(value);
  }
  for (size_t i = 0; i < required; ++i) {
    if (!values_[i]) {
      runtime_.fail(fmt::format("{}() needs the argument '{}'", function_, parameters_[i]));
    }
  }
}

const std::string& Bound::string(size_t index) const {
  if (!values_[index]->is_string()) {
    runtime_.fail(fmt::format("{}() needs a string for '{}', not {}", function_, parameters_[index],
                              values_[index]->type_name()));
  }
  return values_[index]->string();
}

int64_t Bound::integer(size_t index, int64_t fallback) const {
  if (!has(index)) {
    return fallback;
  }
  if (!values_[index]->is_integral()) {
    runtime_.fail(fmt::format("{}() needs an integer for '{}', not {}", function_, parameters_[index],
                              values_[index]->type_name()));
  }
  return values_[index]->integer();
}

}  // namespace snug::jinja
