// The tests: what can stand after `is`.
#include <fmt/format.h>

#include <unordered_map>

#include "text/jinja/builtins.h"
#include "text/jinja/operators.h"
#include "text/jinja/print.h"
#include "text/jinja/text.h"

namespace snug::jinja {

namespace {

using TestFunction = bool (*)(Runtime& runtime, const Value& input, const Arguments& arguments);

// A test of the value alone.
template <bool (*function)(const Value&)>
bool alone(Runtime& runtime, const Value& input, const Arguments& arguments) {
  if (!arguments.positional.empty() || !arguments.named.empty()) {
    runtime.fail("this test takes no arguments");
  }
  return function(input);
}

const Value& only_argument(Runtime& runtime, const Arguments& arguments) {
  if (arguments.positional.size() != 1 || !arguments.named.empty()) {
    runtime.fail("this test needs one value to compare with");
  }
  return arguments.positional[0];
}

template <Operator operation>
bool compared(Runtime& runtime, const Value& input, const Arguments& arguments) {
  return compare(runtime, operation, input, only_argument(runtime, arguments));
}

int64_t remainder(Runtime& runtime, const Value& input, int64_t divisor) {
  Value result = arithmetic(runtime, Operator::modulo, input, Value(divisor));
  return result.is_integral() ? result.integer() : -1;
}

bool is_iterable(const Value& value) {
  return value.is_sequence() || value.is_dict() || value.is_string() || value.is_undefined();
}

// What has a length and positions: also dicts, as Jinja asks only for the operation.
bool is_jinja_sequence(const Value& value) {
  return value.is_string() || value.is_dict() || value.is_undefined() ||
         (value.is_sequence() && value.sequence().kind != SequenceKind::generator &&
          value.sequence().kind != SequenceKind::view);
}

bool is_true(const Value& value) {
  return value.is_boolean() && value.boolean();
}
bool is_false(const Value& value) {
  return value.is_boolean() && !value.boolean();
}
bool is_defined(const Value& value) {
  return !value.is_undefined();
}
bool is_undefined(const Value& value) {
  return value.is_undefined();
}
bool is_none(const Value& value) {
  return value.is_none();
}
bool is_string(const Value& value) {
  return value.is_string();
}
bool is_mapping(const Value& value) {
  return value.is_dict();
}
bool is_number(const Value& value) {
  return value.is_number();
}
bool is_integer(const Value& value) {
  return value.is_integer();
}
bool is_real(const Value& value) {
  return value.is_real();
}
bool is_boolean(const Value& value) {
  return value.is_boolean();
}
bool is_callable(const Value& value) {
  return value.is_object() && value.object().callable() != nullptr;
}
bool is_escaped(const Value& value) {
  return value.is_safe();
}

bool is_odd(Runtime& runtime, const Value& input, const Arguments& /*arguments*/) {
  return remainder(runtime, input, 2) == 1;
}
bool is_even(Runtime& runtime, const Value& input, const Arguments& /*arguments*/) {
  return remainder(runtime, input, 2) == 0;
}
bool is_divisible(Runtime& runtime, const Value& input, const Arguments& arguments) {
  const Value& divisor = only_argument(runtime, arguments);
  return equal(runtime, arithmetic(runtime, Operator::modulo, input, divisor), Value(int64_t{0}));
}
bool is_same(Runtime& runtime, const Value& input, const Arguments& arguments) {
  const Value& other = only_argument(runtime, arguments);
  bool holds_others = input.is_sequence() || input.is_dict();
  bool same_type = input.type_name() == other.type_name();
  return holds_others ? input.is_shared_with(other) : same_type && equal(runtime, input, other);
}
Value read_text(Runtime& runtime, const Value& input) {
  Value text = to_text(runtime, input);
  runtime.count_reading(text.string().size());
  return text;
}
template <CharacterTest test>
bool has_case(Runtime& runtime, const Value& input, const Arguments& /*arguments*/) {
  return all_characters(read_text(runtime, input).string(), test);
}
bool names_filter(Runtime& runtime, const Value& input, const Arguments& /*arguments*/) {
  return has_filter(read_text(runtime, input).string());
}
bool names_test(Runtime& runtime, const Value& input, const Arguments& /*arguments*/) {
  return has_test(read_text(runtime, input).string());
}

const std::unordered_map<std::string_view, TestFunction>& tests() {
  static const std::unordered_map<std::string_view, TestFunction> kTests = {
      {"!=", compared<Operator::not_equal>},
      {"<", compared<Operator::less>},
      {"<=", compared<Operator::less_equal>},
      {"==", compared<Operator::equal>},
      {">", compared<Operator::greater>},
      {">=", compared<Operator::greater_equal>},
      {"boolean", alone<is_boolean>},
      {"callable", alone<is_callable>},
      {"defined", alone<is_defined>},
      {"divisibleby", is_divisible},
      {"eq", compared<Operator::equal>},
      {"equalto", compared<Operator::equal>},
      {"escaped", alone<is_escaped>},
      {"even", is_even},
      {"false", alone<is_false>},
      {"filter", names_filter},
      {"float", alone<is_real>},
      {"ge", compared<Operator::greater_equal>},
      {"greaterthan", compared<Operator::greater>},
      {"gt", compared<Operator::greater>},
      {"in", compared<Operator::in>},
      {"integer", alone<is_integer>},
      {"iterable", alone<is_iterable>},
      {"le", compared<Operator::less_equal>},
      {"lessthan", compared<Operator::less>},
      {"lower", has_case<CharacterTest::lower>},
      {"lt", compared<Operator::less>},
      {"mapping", alone<is_mapping>},
      {"ne", compared<Operator::not_equal>},
      {"none", alone<is_none>},
      {"number", alone<is_number>},
      {"odd", is_odd},
      {"sameas", is_same},
      {"sequence", alone<is_jinja_sequence>},
      {"string", alone<is_string>},
      {"test", names_test},
      {"true", alone<is_true>},
      {"undefined", alone<is_undefined>},
      {"upper", has_case<CharacterTest::upper>},
  };
  return kTests;
}

}  // namespace

bool has_test(std::string_view name) {
  return tests().contains(name);
}

bool apply_test(Runtime& runtime, std::string_view name, const Value& input, const Arguments& arguments) {
  runtime.count_steps(1);
  auto found = tests().find(name);
  if (found == tests().end()) {
    runtime.fail_unsupported(fmt::format("the test '{}'", name));
  }
  return found->second(runtime, input, arguments);
}

}  // namespace snug::jinja
