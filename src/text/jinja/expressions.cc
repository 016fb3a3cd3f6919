// Runs a parsed template: its expressions.
#include <fmt/format.h>

#include "io/printable.h"
#include "text/jinja/builtins.h"
#include "text/jinja/evaluator.h"
#include "text/jinja/operators.h"
#include "text/jinja/print.h"

namespace snug::jinja {

Value Evaluator::evaluate(const Expression& node, Scope& scope) {
  if (node.kind == ExpressionKind::constant) {
    return node.constant;
  }
  DepthGuard guard(runtime_);
  runtime_.count_steps(1 + node.children.size() + node.named.size());
  runtime_.at(node.place);
  return evaluate_node(node, scope);
}

Value Evaluator::evaluate_node(const Expression& node, Scope& scope) {
  auto child = [&](size_t index) { return evaluate(*node.children[index], scope); };
  switch (node.kind) {
    case ExpressionKind::constant:
      return node.constant;
    case ExpressionKind::name:
      return look_up(node, scope);
    case ExpressionKind::attribute: {
      Value object = child(0);
      runtime_.at(node.place);
      return get_attribute(runtime_, object, node.text);
    }
    case ExpressionKind::item: {
      Value object = child(0);
      Value key = child(1);
      runtime_.at(node.place);
      return get_item(runtime_, object, key);
    }
    case ExpressionKind::slice:
      return evaluate_slice(node, scope);
    case ExpressionKind::call:
      return evaluate_call(node, scope);
    case ExpressionKind::filter:
      return evaluate_filter(node, scope);
    case ExpressionKind::test: {
      Value input = child(0);
      Arguments arguments = evaluate_arguments(node, scope);
      runtime_.at(node.place);
      return Value(apply_test(runtime_, node.text, input, arguments));
    }
    case ExpressionKind::arithmetic: {
      Value left = child(0);
      Value right = child(1);
      runtime_.at(node.place);
      return arithmetic(runtime_, node.operators[0], left, right);
    }
    case ExpressionKind::negative:
      return negative(runtime_, child(0));
    case ExpressionKind::positive: {
      Value input = child(0);
      Value zero(int64_t{0});
      return arithmetic(runtime_, Operator::add, zero, input);
    }
    case ExpressionKind::join: {
      TextBuilder out(runtime_);
      for (const ExpressionPtr& part : node.children) {
        append_text(out, evaluate(*part, scope));
      }
      return out.value();
    }
    case ExpressionKind::compare:
      return evaluate_compare(node, scope);
    case ExpressionKind::logical_not:
      return Value(!child(0).truth());
    case ExpressionKind::logical_and: {
      Value left = child(0);
      return left.truth() ? child(1) : left;
    }
    case ExpressionKind::logical_or: {
      Value left = child(0);
      return left.truth() ? left : child(1);
    }
    case ExpressionKind::conditional:
      if (child(0).truth()) {
        return child(1);
      }
      return node.children[2] ? child(2)
                              : runtime_.undefined("the condition is false and there is no 'else' for it");
    case ExpressionKind::list:
    case ExpressionKind::tuple:
    case ExpressionKind::dict:
      return evaluate_items(node, scope);
  }
  runtime_.fail("unknown expression");
}

Value Evaluator::look_up(const Expression& node, Scope& scope) {
  if (const Value* found = scope.find(node.symbol)) {
    return *found;
  }
  for (const auto& [known, value] : globals_) {
    if (known == node.symbol) {
      return value;
    }
  }
  const std::string& name = template_.symbols[static_cast<size_t>(node.symbol)];
  if (auto global = find_global(runtime_, name)) {
    globals_.emplace_back(node.symbol, *global);
    return std::move(*global);
  }
  return runtime_.undefined(fmt::format("'{}' is undefined", printable(name, 60)));
}

Arguments Evaluator::evaluate_arguments(const Expression& node, Scope& scope) {
  Arguments arguments;
  for (size_t i = 1; i < node.children.size(); ++i) {
    arguments.positional.push_back(evaluate(*node.children[i], scope));
  }
  for (const NamedArgument& argument : node.named) {
    arguments.named.emplace_back(argument.name, evaluate(*argument.value, scope));
  }
  return arguments;
}

Value Evaluator::evaluate_call(const Expression& node, Scope& scope) {
  const Expression& callee = *node.children[0];
  if (callee.kind == ExpressionKind::attribute) {  // a method: no need to make it a value first
    Value object = evaluate(*callee.children[0], scope);
    if (has_method(object, callee.text)) {
      Arguments arguments = evaluate_arguments(node, scope);
      runtime_.at(callee.place);
      return call_method(runtime_, object, callee.text, std::move(arguments));
    }
    runtime_.at(callee.place);
    Value function = get_attribute(runtime_, object, callee.text);
    require_defined(runtime_, function);
    Arguments arguments = evaluate_arguments(node, scope);
    runtime_.at(callee.place);
    return call_value(runtime_, function, std::move(arguments));
  }
  Value function = evaluate(callee, scope);
  Arguments arguments = evaluate_arguments(node, scope);
  runtime_.at(node.place);
  return call_value(runtime_, function, std::move(arguments));
}

Value Evaluator::evaluate_filter(const Expression& node, Scope& scope) {
  Value input = node.children[0] ? evaluate(*node.children[0], scope) : *filter_input_;
  Arguments arguments = evaluate_arguments(node, scope);
  runtime_.at(node.place);
  return apply_filter(runtime_, node.text, input, std::move(arguments));
}

Value Evaluator::evaluate_compare(const Expression& node, Scope& scope) {
  Value left = evaluate(*node.children[0], scope);
  for (size_t i = 0; i < node.operators.size(); ++i) {
    Value right = evaluate(*node.children[i + 1], scope);
    runtime_.at(node.place);
    if (!compare(runtime_, node.operators[i], left, right)) {
      return Value(false);
    }
    left = std::move(right);
  }
  return Value(true);
}

Value Evaluator::evaluate_items(const Expression& node, Scope& scope) {
  if (node.kind == ExpressionKind::dict) {
    Dict dict;
    for (size_t i = 0; i < node.children.size(); i += 2) {
      Value key = evaluate(*node.children[i], scope);
      if (key.is_dict() || key.is_sequence(SequenceKind::list)) {
        runtime_.fail(fmt::format("{} cannot be a key", key.type_name()));
      }
      set_member(runtime_, dict, std::move(key), evaluate(*node.children[i + 1], scope));
    }
    return runtime_.dict(std::move(dict));
  }
  ListBuilder items(runtime_);
  for (const ExpressionPtr& item : node.children) {
    items.append(evaluate(*item, scope));
  }
  bool is_list = node.kind == ExpressionKind::list;
  return items.value(is_list ? SequenceKind::list : SequenceKind::tuple);
}

Value Evaluator::evaluate_slice(const Expression& node, Scope& scope) {
  Value object = evaluate(*node.children[0], scope);
  auto bound = [&](size_t index) {
    return node.children[index] ? evaluate(*node.children[index], scope) : Value();
  };
  SliceBounds bounds = {.first = bound(1), .last = bound(2), .step = bound(3)};
  runtime_.at(node.place);
  return get_slice(runtime_, object, bounds);
}

}  // namespace snug::jinja
