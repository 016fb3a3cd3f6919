// Runs a parsed template: its statements.
#include "text/jinja/evaluator.h"

#include <fmt/format.h>

#include <algorithm>

#include "text/jinja/builtins.h"
#include "text/jinja/loop.h"
#include "text/jinja/operators.h"
#include "text/jinja/print.h"

namespace snug::jinja {

// A macro, or the body of a call block.
class Macro : public Callable {
 public:
  Macro(Evaluator& evaluator, const Statement& statement, Scope& definition)
      : evaluator_(evaluator), statement_(statement), definition_(&definition) {}
  std::string_view type_name() const override { return "macro"; }
  std::optional<Value> attribute(Runtime& /*runtime*/, std::string_view name) override {
    return name == "name" ? std::optional(Value(statement_.text)) : std::nullopt;
  }
  Value call(Runtime& runtime, Arguments arguments) override {
    if (definition_ == nullptr) {
      runtime.fail_unsupported(
          fmt::format("the macro '{}' outside of the block that defines it", statement_.text));
    }
    return evaluator_.run_macro(statement_, *definition_, std::move(arguments));
  }
  void end() { definition_ = nullptr; }

 private:
  Evaluator& evaluator_;
  const Statement& statement_;
  Scope* definition_;
};

Scope::~Scope() {
  for (Macro* macro : macros_) {
    macro->end();
  }
}

const Value* Scope::find(int symbol) const {
  for (const Scope* scope = this; scope != nullptr; scope = scope->parent_) {
    runtime_.count_names(scope->values_.size() + 1);
    for (const auto& [known, value] : scope->values_) {
      if (known == symbol) {
        return &value;
      }
    }
  }
  return nullptr;
}

void Scope::set(int symbol, Value value) {
  runtime_.count_names(values_.size());
  for (auto& [known, old] : values_) {
    if (known == symbol) {
      old = std::move(value);
      return;
    }
  }
  runtime_.count_bytes(sizeof(Value));
  values_.emplace_back(symbol, std::move(value));
}

Evaluator::Evaluator(const Template& source, Runtime& runtime)
    : template_(source),
      runtime_(runtime),
      root_(runtime, nullptr),
      out_(runtime),
      loop_symbol_(symbol("loop")),
      caller_symbol_(symbol("caller")),
      varargs_symbol_(symbol("varargs")),
      kwargs_symbol_(symbol("kwargs")) {}

std::optional<int> Evaluator::symbol(std::string_view name) const {
  auto found = std::find(template_.symbols.begin(), template_.symbols.end(), name);
  return found == template_.symbols.end()
             ? std::nullopt
             : std::optional(static_cast<int>(found - template_.symbols.begin()));
}

void Evaluator::define(std::string_view name, Value value) {
  if (auto known = symbol(name)) {  // names that the template does not mention cannot be missed
    root_.set(*known, std::move(value));
  }
}

Rendering Evaluator::render() {
  run(template_.body, root_, out_);
  rendering_.text = out_.take();
  return std::move(rendering_);
}

Evaluator::Flow Evaluator::run(const Body& body, Scope& scope, TextBuilder& out) {
  DepthGuard guard(runtime_);
  for (const Statement& statement : body) {
    runtime_.count_steps(1);
    runtime_.at(statement.place);
    Flow flow = run_statement(statement, scope, out);
    if (flow != Flow::normal) {
      return flow;
    }
  }
  return Flow::normal;
}

Evaluator::Flow Evaluator::run_statement(const Statement& statement, Scope& scope, TextBuilder& out) {
  switch (statement.kind) {
    case StatementKind::text:
      out.append(statement.text);
      break;
    case StatementKind::output: {
      Value value = evaluate(*statement.expressions[0], scope);
      runtime_.at(statement.place);
      append_text(out, value);
      break;
    }
    case StatementKind::condition:
      return run_condition(statement, scope, out);
    case StatementKind::loop:
      return run_loop(statement, scope, out);
    case StatementKind::assign:
      assign(statement.targets[0], evaluate(*statement.expressions[0], scope), scope, scope);
      break;
    case StatementKind::assign_block:
      run_assign_block(statement, scope);
      break;
    case StatementKind::macro:
      scope.set(statement.symbol, Value(make_macro(statement, scope)));
      break;
    case StatementKind::call_block:
      run_call_block(statement, scope, out);
      break;
    case StatementKind::filter_block: {
      Value text = capture(statement.bodies[0], scope);
      const Value* outer = std::exchange(filter_input_, &text);
      Value result = evaluate(*statement.expressions[0], scope);
      filter_input_ = outer;
      append_text(out, result);
      break;
    }
    case StatementKind::with: {
      Scope inner(runtime_, &scope);
      for (size_t i = 0; i < statement.targets.size(); ++i) {
        assign(statement.targets[i], evaluate(*statement.expressions[i], scope), inner, scope);
      }
      return run(statement.bodies[0], inner, out);
    }
    case StatementKind::generation:
      return run_generation(statement, scope, out);
    case StatementKind::break_loop:
      return Flow::break_loop;
    case StatementKind::continue_loop:
      return Flow::continue_loop;
  }
  return Flow::normal;
}

Evaluator::Flow Evaluator::run_condition(const Statement& statement, Scope& scope, TextBuilder& out) {
  for (size_t i = 0; i < statement.expressions.size(); ++i) {
    runtime_.count_steps(1);
    if (evaluate(*statement.expressions[i], scope).truth()) {
      return run(statement.bodies[i], scope, out);
    }
  }
  bool has_else = statement.bodies.size() > statement.expressions.size();
  return has_else ? run(statement.bodies.back(), scope, out) : Flow::normal;
}

Evaluator::Flow Evaluator::run_loop(const Statement& statement, Scope& scope, TextBuilder& out) {
  std::vector<Value> items = iterate(runtime_, evaluate(*statement.expressions[0], scope));
  if (statement.expressions.size() > 1) {
    std::vector<Value> chosen;
    for (Value& item : items) {
      Scope inner(runtime_, &scope);
      assign(statement.targets[0], item, inner, scope);
      if (evaluate(*statement.expressions[1], inner).truth()) {
        chosen.push_back(std::move(item));
      }
    }
    items = std::move(chosen);
  }
  if (items.empty()) {
    return statement.bodies.size() > 1 ? run(statement.bodies[1], scope, out) : Flow::normal;
  }
  auto* loop = runtime_.make<Loop>(std::move(items));
  for (; !loop->ended(); loop->advance()) {
    runtime_.count_steps(1);
    Scope inner(runtime_, &scope);
    if (loop_symbol_) {
      inner.set(*loop_symbol_, Value(loop));
    }
    assign(statement.targets[0], loop->item(), inner, scope);
    if (run(statement.bodies[0], inner, out) == Flow::break_loop) {
      break;
    }
  }
  return Flow::normal;
}

Evaluator::Flow Evaluator::run_generation(const Statement& statement, Scope& scope, TextBuilder& out) {
  Scope inner(runtime_, &scope);
  size_t begin = out.size();
  Flow flow = run(statement.bodies[0], inner, out);
  if (&out == &out_) {
    rendering_.generated.push_back({begin, out.size()});
  } else {
    rendering_.lost_marks = true;
  }
  return flow;
}

Value Evaluator::capture(const Body& body, Scope& scope) {
  Scope inner(runtime_, &scope);
  TextBuilder text(runtime_);
  run(body, inner, text);
  return text.value();
}

void Evaluator::run_assign_block(const Statement& statement, Scope& scope) {
  Value value = capture(statement.bodies[0], scope);
  if (!statement.expressions.empty()) {
    const Value* outer = std::exchange(filter_input_, &value);
    Value filtered = evaluate(*statement.expressions[0], scope);
    filter_input_ = outer;
    value = std::move(filtered);
  }
  assign(statement.targets[0], std::move(value), scope, scope);
}

void Evaluator::assign(const Target& target, Value value, Scope& scope, Scope& outer) {
  if (!target.parts.empty()) {
    runtime_.at(target.place);
    std::vector<Value> items = iterate(runtime_, value);
    if (items.size() != target.parts.size()) {
      runtime_.fail(
          fmt::format("{} values for {} names to assign them to", items.size(), target.parts.size()));
    }
    for (size_t i = 0; i < items.size(); ++i) {
      assign(target.parts[i], std::move(items[i]), scope, outer);
    }
    return;
  }
  if (target.attribute.empty()) {
    scope.set(target.symbol, std::move(value));
    return;
  }
  runtime_.at(target.place);
  const Value* object = outer.find(target.symbol);
  auto* space =
      object != nullptr && object->is_object() ? dynamic_cast<Namespace*>(&object->object()) : nullptr;
  if (space == nullptr) {
    runtime_.fail("only a namespace's attributes can be assigned to");
  }
  space->set(runtime_, target.attribute, std::move(value));
}

Macro* Evaluator::make_macro(const Statement& statement, Scope& scope) {
  auto* macro = runtime_.make<Macro>(*this, statement, scope);
  scope.own(macro);
  return macro;
}

void Evaluator::run_call_block(const Statement& statement, Scope& scope, TextBuilder& out) {
  Scope inner(runtime_, &scope);
  const Expression& call = *statement.expressions[0];
  Value callee = evaluate(*call.children[0], scope);
  Arguments arguments = evaluate_arguments(call, scope);
  arguments.named.emplace_back("caller", Value(make_macro(statement, inner)));
  runtime_.at(call.place);
  append_text(out, call_value(runtime_, callee, std::move(arguments)));
}

Value Evaluator::run_macro(const Statement& statement, Scope& definition, Arguments arguments) {
  Place called_at = runtime_.place();
  Scope scope(runtime_, &definition);
  const std::vector<Parameter>& parameters = statement.parameters;
  ListBuilder surplus(runtime_);
  Dict surplus_named;
  std::vector<bool> given(parameters.size());
  for (size_t i = 0; i < arguments.positional.size(); ++i) {
    if (i < parameters.size()) {
      scope.set(parameters[i].symbol, std::move(arguments.positional[i]));
      given[i] = true;
    } else {
      surplus.append(std::move(arguments.positional[i]));
    }
  }
  for (auto& [name, value] : arguments.named) {
    runtime_.count_names(parameters.size());
    size_t i = 0;
    while (i < parameters.size() && parameters[i].name != name) {
      ++i;
    }
    if (i < parameters.size() && !given[i]) {
      scope.set(parameters[i].symbol, std::move(value));
      given[i] = true;
    } else if (name == "caller" && caller_symbol_) {
      scope.set(*caller_symbol_, std::move(value));
    } else {
      set_member(runtime_, surplus_named, runtime_.text(name), std::move(value));
    }
  }
  if ((surplus.size() > 0 && !varargs_symbol_) || (!surplus_named.items().empty() && !kwargs_symbol_)) {
    runtime_.fail(fmt::format("the macro '{}' was given arguments that it does not take", statement.text));
  }
  if (varargs_symbol_) {
    scope.set(*varargs_symbol_, surplus.value(SequenceKind::tuple));
  }
  if (kwargs_symbol_) {
    scope.set(*kwargs_symbol_, runtime_.dict(std::move(surplus_named)));
  }
  for (size_t i = 0; i < parameters.size(); ++i) {
    if (!given[i]) {
      scope.set(parameters[i].symbol, parameters[i].fallback
                                          ? evaluate(*parameters[i].fallback, scope)
                                          : runtime_.undefined(fmt::format("the parameter '{}' was not given",
                                                                           parameters[i].name)));
    }
  }
  TextBuilder out(runtime_);
  run(statement.bodies[0], scope, out);
  runtime_.at(called_at);
  return out.value();
}

}  // namespace snug::jinja
