// Runs a parsed template: statements write text, expressions give values.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/jinja/builders.h"
#include "text/jinja/runtime.h"
#include "text/jinja/syntax.h"
#include "text/jinja/value.h"

namespace snug::jinja {

class Macro;

// The variables of a loop round, a macro or the template. A name is looked up outwards.
class Scope {
 public:
  Scope(Runtime& runtime, Scope* parent) : runtime_(runtime), parent_(parent) {}
  ~Scope();
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

  const Value* find(int symbol) const;
  void set(int symbol, Value value);
  // A macro looks up names where it was defined; after that it can no longer be called.
  void own(Macro* macro) { macros_.push_back(macro); }

 private:
  Runtime& runtime_;
  Scope* parent_;
  std::vector<std::pair<int, Value>> values_;
  std::vector<Macro*> macros_;
};

struct TextRange {
  size_t begin = 0;
  size_t end = 0;
};

struct Rendering {
  std::string text;
  std::vector<TextRange> generated;  // what {% generation %} blocks wrote, in order
  bool lost_marks = false;           // a {% generation %} block ran where its place in the text is not known
};

class Evaluator {
 public:
  Evaluator(const Template& source, Runtime& runtime);

  void define(std::string_view name, Value value);
  Rendering render();

  // For macros.
  Value run_macro(const Statement& statement, Scope& definition, Arguments arguments);

 private:
  enum class Flow : uint8_t { normal, break_loop, continue_loop };

  // Statements: evaluator.cc
  Flow run(const Body& body, Scope& scope, TextBuilder& out);
  Flow run_statement(const Statement& statement, Scope& scope, TextBuilder& out);
  Flow run_condition(const Statement& statement, Scope& scope, TextBuilder& out);
  Flow run_loop(const Statement& statement, Scope& scope, TextBuilder& out);
  Flow run_generation(const Statement& statement, Scope& scope, TextBuilder& out);
  void run_call_block(const Statement& statement, Scope& scope, TextBuilder& out);
  void run_assign_block(const Statement& statement, Scope& scope);
  // The text that a body writes, in a scope of its own.
  Value capture(const Body& body, Scope& scope);
  void assign(const Target& target, Value value, Scope& scope, Scope& outer);
  Macro* make_macro(const Statement& statement, Scope& scope);
  std::optional<int> symbol(std::string_view name) const;

  // Expressions: expressions.cc
  Value evaluate(const Expression& node, Scope& scope);
  Value evaluate_node(const Expression& node, Scope& scope);
  Value look_up(const Expression& node, Scope& scope);
  Value evaluate_call(const Expression& node, Scope& scope);
  Value evaluate_filter(const Expression& node, Scope& scope);
  Value evaluate_compare(const Expression& node, Scope& scope);
  Value evaluate_items(const Expression& node, Scope& scope);
  Value evaluate_slice(const Expression& node, Scope& scope);
  Arguments evaluate_arguments(const Expression& node, Scope& scope);

  const Template& template_;
  Runtime& runtime_;
  Scope root_;
  TextBuilder out_;
  Rendering rendering_;
  // The names that loops and macros define, if the template mentions them.
  std::optional<int> loop_symbol_;
  std::optional<int> caller_symbol_;
  std::optional<int> varargs_symbol_;
  std::optional<int> kwargs_symbol_;
  std::vector<std::pair<int, Value>> globals_;  // functions that were looked up, by symbol
  const Value* filter_input_ = nullptr;         // what a filter block's first filter takes
};

}  // namespace snug::jinja
