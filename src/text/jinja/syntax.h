// A parsed template: expressions and statements as plain data.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "text/jinja/value.h"

namespace snug::jinja {

struct Place {
  int line = 1;
  int column = 1;
};

struct Expression;
using ExpressionPtr = std::unique_ptr<Expression>;

enum class ExpressionKind : uint8_t {
  constant,
  name,         // `symbol`
  attribute,    // object.text
  item,         // object[key]
  slice,        // object[first:last:step]; parts that are left out are null
  call,         // callee(arguments...)
  filter,       // input|text(arguments...); the input is null in a filter block
  test,         // input is text(arguments...)
  arithmetic,   // left `operators[0]` right
  negative,     // -input
  positive,     // +input
  join,         // a ~ b ~ c
  compare,      // first `operators[0]` second `operators[1]` third ...
  logical_not,  // not input
  logical_and,  // left and right
  logical_or,   // left or right
  conditional,  // children: condition, value, other value or null
  list,
  tuple,
  dict,  // children: key, value, key, value, ...
};

enum class Operator : uint8_t {
  add,
  subtract,
  multiply,
  divide,
  floor_divide,
  modulo,
  power,
  equal,
  not_equal,
  less,
  less_equal,
  greater,
  greater_equal,
  in,
  not_in,
};

struct NamedArgument {
  std::string name;
  ExpressionPtr value;
};

struct Expression {
  ExpressionKind kind = ExpressionKind::constant;
  Place place;
  int depth = 1;     // of the tree below, to bound recursion
  int symbol = -1;   // a name's number in Template::symbols
  std::string text;  // the name of an attribute, filter or test
  Value constant;
  std::vector<ExpressionPtr> children;  // object, callee or input first, then arguments
  std::vector<NamedArgument> named;
  std::vector<Operator> operators;
};

// What `set` and `for` assign to: a name, an attribute of a namespace, or several of these.
struct Target {
  Place place;
  int symbol = -1;
  std::string attribute;  // "" for the name itself
  std::vector<Target> parts;
};

struct Statement;
using Body = std::vector<Statement>;

enum class StatementKind : uint8_t {
  text,          // `text`
  output,        // {{ expressions[0] }}
  condition,     // if/elif: expressions[i] guards bodies[i]; one body more is the else
  loop,          // for target in expressions[0] if expressions[1]: bodies[0], else bodies[1]
  assign,        // set target = expressions[0]
  assign_block,  // set target: bodies[0], through the filters expressions[0] if there are any
  macro,         // bodies[0]
  call_block,    // call (parameters) expressions[0]: bodies[0]
  filter_block,  // filter expressions[0]: bodies[0]
  with,          // with targets = expressions: bodies[0]
  generation,    // what the model is to learn: bodies[0]
  break_loop,
  continue_loop,
};

struct Parameter {
  int symbol = -1;
  std::string name;
  ExpressionPtr fallback;  // null: undefined if it is not given
};

struct Statement {
  StatementKind kind = StatementKind::text;
  Place place;
  std::string text;  // text, or a macro's name
  int symbol = -1;   // a macro's
  std::vector<ExpressionPtr> expressions;
  std::vector<Target> targets;
  std::vector<Parameter> parameters;
  std::vector<Body> bodies;
};

struct Template {
  std::string name;  // for messages: a path, or a built-in template's name
  Body body;
  std::vector<std::string> symbols;  // every name that occurs, by number
  bool has_generation = false;
};

}  // namespace snug::jinja
