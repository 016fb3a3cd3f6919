// Python's operators: arithmetic.
#include "text/jinja/operators.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "text/jinja/builders.h"
#include "text/jinja/builtins.h"
#include "text/jinja/text.h"

namespace snug::jinja {

namespace {

constexpr std::string_view kSigns[] = {
    "+", "-", "*", "/", "//", "%", "**", "==", "!=", "<", "<=", ">", ">=", "in", "not in"};

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

Value repeat(Runtime& runtime, const Value& value, int64_t given_times) {
  auto times = static_cast<size_t>(std::max<int64_t>(given_times, 0));
  if (value.is_string()) {
    TextBuilder out(runtime);
    out.append_repeated(value.string(), times);
    return out.value(value.is_safe());
  }
  const Sequence& sequence = value.sequence();
  ListBuilder out(runtime);
  for (size_t i = 0; !sequence.items.empty() && i < times; ++i) {
    out.append_all(sequence.items);
  }
  return out.value(sequence.kind);
}

Value add_strings(Runtime& runtime, const Value& left, const Value& right) {
  bool safe = left.is_safe() || right.is_safe();
  TextBuilder out(runtime);
  for (const Value* part : {&left, &right}) {
    safe && !part->is_safe() ? append_escaped_html(out, part->string()) : out.append(part->string());
  }
  return out.value(safe);
}

}  // namespace

bool is_list_or_tuple(const Value& value) {
  return value.is_sequence(SequenceKind::list) || value.is_sequence(SequenceKind::tuple);
}

void fail_types(const Runtime& runtime, Operator operation, const Value& left, const Value& right) {
  require_defined(runtime, left);
  require_defined(runtime, right);
  runtime.fail(fmt::format("'{}' does not go between {} and {}", kSigns[static_cast<size_t>(operation)],
                           left.type_name(), right.type_name()));
}

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
      ListBuilder out(runtime);
      out.append_all(left.sequence().items);
      out.append_all(right.sequence().items);
      return out.value(left.sequence().kind);
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

}  // namespace snug::jinja
