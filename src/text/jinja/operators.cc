// Python's operators: arithmetic and comparison.
#include "text/jinja/operators.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "text/jinja/builtins.h"
#include "text/jinja/text.h"

namespace snug::jinja {

namespace {

constexpr std::string_view kSigns[] = {
    "+", "-", "*", "/", "//", "%", "**", "==", "!=", "<", "<=", ">", ">=", "in", "not in"};

[[noreturn]] void fail_types(const Runtime& runtime, Operator operation, const Value& left,
                             const Value& right) {
  require_defined(runtime, left);
  require_defined(runtime, right);
  runtime.fail(fmt::format("'{}' does not go between {} and {}", kSigns[static_cast<size_t>(operation)],
                           left.type_name(), right.type_name()));
}

void refuse_overflow(const Runtime& runtime, bool overflow) {
  if (overflow) {
    runtime.fail("an integer grows beyond 64 bits");
  }
}

int64_t floor_divide(int64_t left, int64_t right) {
  int64_t quotient = left / right;
  return left % right != 0 && (left < 0) != (right < 0) ? quotient - 1 : quotient;
}

Value integer_power(Runtime& runtime, int64_t base, int64_t exponent) {
  if (exponent < 0) {
    return Value(std::pow(static_cast<double>(base), static_cast<double>(exponent)));
  }
  int64_t result = 1;
  for (int64_t i = 0; i < exponent && result != 0 && !(base == 1); ++i) {
    runtime.count_steps(1);
    int64_t product = 0;
    refuse_overflow(runtime, __builtin_mul_overflow(result, base, &product));
    result = product;
  }
  return Value(result);
}

Value integer_arithmetic(Runtime& runtime, Operator operation, int64_t left, int64_t right) {
  int64_t result = 0;
  switch (operation) {
    case Operator::add:
      refuse_overflow(runtime, __builtin_add_overflow(left, right, &result));
      return Value(result);
    case Operator::subtract:
      refuse_overflow(runtime, __builtin_sub_overflow(left, right, &result));
      return Value(result);
    case Operator::multiply:
      refuse_overflow(runtime, __builtin_mul_overflow(left, right, &result));
      return Value(result);
    case Operator::power:
      return integer_power(runtime, left, right);
    default:
      break;
  }
  if (right == 0) {
    runtime.fail("division by zero");
  }
  if (operation == Operator::divide) {
    return Value(static_cast<double>(left) / static_cast<double>(right));
  }
  if (right == -1) {  // the one division that can overflow
    bool overflow = __builtin_sub_overflow(int64_t{0}, left, &result);
    refuse_overflow(runtime, overflow && operation != Operator::modulo);
    return Value(operation == Operator::modulo ? int64_t{0} : result);
  }
  int64_t quotient = floor_divide(left, right);
  return Value(operation == Operator::modulo ? left - quotient * right : quotient);
}

Value real_arithmetic(Runtime& runtime, Operator operation, double left, double right) {
  switch (operation) {
    case Operator::add:
      return Value(left + right);
    case Operator::subtract:
      return Value(left - right);
    case Operator::multiply:
      return Value(left * right);
    case Operator::power:
      return Value(std::pow(left, right));
    default:
      break;
  }
  if (right == 0) {
    runtime.fail("division by zero");
  }
  double remainder = std::fmod(left, right);
  if (remainder != 0 && (remainder < 0) != (right < 0)) {
    remainder += right;
  }
  switch (operation) {
    case Operator::divide:
      return Value(left / right);
    case Operator::modulo:
      return Value(remainder);
    default:
      return Value(std::floor(left / right));
  }
}

Value repeat(Runtime& runtime, const Value& value, int64_t times) {
  times = std::max<int64_t>(times, 0);
  if (value.is_string()) {
    auto size = static_cast<int64_t>(value.string().size());
    int64_t bytes = 0;
    if (__builtin_mul_overflow(size, times, &bytes)) {
      bytes = std::numeric_limits<int32_t>::max();
    }
    runtime.count_text(static_cast<size_t>(bytes));
    std::string result;
    result.reserve(static_cast<size_t>(bytes));
    for (int64_t i = 0; size > 0 && i < times; ++i) {
      result += value.string();
    }
    return Value(std::move(result), value.is_safe());
  }
  const Sequence& sequence = value.sequence();
  std::vector<Value> items;
  for (int64_t i = 0; !sequence.items.empty() && i < times; ++i) {
    runtime.count_steps(static_cast<int64_t>(sequence.items.size()));
    items.insert(items.end(), sequence.items.begin(), sequence.items.end());
  }
  return Value::sequence(sequence.kind, std::move(items));
}

bool is_list_or_tuple(const Value& value) {
  return value.is_sequence(SequenceKind::list) || value.is_sequence(SequenceKind::tuple);
}

Value add_strings(Runtime& runtime, const Value& left, const Value& right) {
  bool safe = left.is_safe() || right.is_safe();
  auto part = [&](const Value& value) {
    return safe && !value.is_safe() ? escape_html(value.string()) : value.string();
  };
  std::string result = safe ? part(left) + part(right) : left.string() + right.string();
  runtime.count_text(result.size());
  return Value(std::move(result), safe);
}

}  // namespace

Value arithmetic(Runtime& runtime, Operator operation, const Value& left, const Value& right) {
  if (left.is_integral() && right.is_integral()) {
    return integer_arithmetic(runtime, operation, left.integer(), right.integer());
  }
  if (left.is_number() && right.is_number()) {
    return real_arithmetic(runtime, operation, left.real(), right.real());
  }
  if (operation == Operator::add) {
    if (left.is_string() && right.is_string()) {
      return add_strings(runtime, left, right);
    }
    if (is_list_or_tuple(left) && right.is_sequence(left.sequence().kind)) {
      std::vector<Value> items = left.sequence().items;
      const std::vector<Value>& more = right.sequence().items;
      items.insert(items.end(), more.begin(), more.end());
      runtime.count_steps(static_cast<int64_t>(items.size()));
      return Value::sequence(left.sequence().kind, std::move(items));
    }
  }
  if (operation == Operator::multiply) {
    if ((left.is_string() || is_list_or_tuple(left)) && right.is_integral()) {
      return repeat(runtime, left, right.integer());
    }
    if ((right.is_string() || is_list_or_tuple(right)) && left.is_integral()) {
      return repeat(runtime, right, left.integer());
    }
  }
  if (operation == Operator::modulo && left.is_string()) {
    return format_percent(runtime, left.string(), right);
  }
  fail_types(runtime, operation, left, right);
}

Value negative(Runtime& runtime, const Value& value) {
  require_defined(runtime, value);
  if (value.is_integral()) {
    return integer_arithmetic(runtime, Operator::subtract, 0, value.integer());
  }
  if (!value.is_real()) {
    runtime.fail(fmt::format("'-' does not go before {}", value.type_name()));
  }
  return Value(-value.real());
}

bool less(Runtime& runtime, const Value& left, const Value& right) {
  runtime.count_steps(1);
  if (left.is_integral() && right.is_integral()) {
    return left.integer() < right.integer();
  }
  if (left.is_number() && right.is_number()) {
    return left.real() < right.real();
  }
  if (left.is_string() && right.is_string()) {
    return left.string() < right.string();  // the order of UTF-8 bytes is that of the characters
  }
  if (is_list_or_tuple(left) && right.is_sequence(left.sequence().kind)) {
    DepthGuard guard(runtime);
    const std::vector<Value>& first = left.sequence().items;
    const std::vector<Value>& second = right.sequence().items;
    for (size_t i = 0; i < std::min(first.size(), second.size()); ++i) {
      if (!equal(first[i], second[i])) {
        return less(runtime, first[i], second[i]);
      }
    }
    return first.size() < second.size();
  }
  fail_types(runtime, Operator::less, left, right);
}

bool compare(Runtime& runtime, Operator operation, const Value& left, const Value& right) {
  switch (operation) {
    case Operator::equal:
      return equal(left, right);
    case Operator::not_equal:
      return !equal(left, right);
    case Operator::less:
      return less(runtime, left, right);
    case Operator::greater:
      return less(runtime, right, left);
    case Operator::less_equal:
      return less(runtime, left, right) || equal(left, right);
    case Operator::greater_equal:
      return less(runtime, right, left) || equal(left, right);
    case Operator::in:
      return contains(runtime, right, left);
    default:
      return !contains(runtime, right, left);
  }
}

bool contains(Runtime& runtime, const Value& container, const Value& item) {
  if (container.is_undefined()) {
    return false;
  }
  if (container.is_string()) {
    if (!item.is_string()) {
      fail_types(runtime, Operator::in, item, container);
    }
    runtime.count_text(container.string().size());
    return container.string().find(item.string()) != std::string::npos;
  }
  if (container.is_dict()) {
    runtime.count_steps(static_cast<int64_t>(container.dict().items().size()));
    return container.dict().find(item) != nullptr;
  }
  if (!container.is_sequence()) {
    fail_types(runtime, Operator::in, item, container);
  }
  std::vector<Value> items = iterate(runtime, container);
  return std::any_of(items.begin(), items.end(), [&](const Value& member) { return equal(member, item); });
}

}  // namespace snug::jinja
