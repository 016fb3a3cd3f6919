// Expressions of a template, in Jinja's order of precedence.
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "io/printable.h"
#include "text/jinja/parser_tokens.h"

namespace snug::jinja {

namespace {

constexpr int kMaxDepth = 150;

std::vector<ExpressionPtr> children_of(ExpressionPtr first, ExpressionPtr second = nullptr) {
  std::vector<ExpressionPtr> children;
  children.push_back(std::move(first));
  if (second) {
    children.push_back(std::move(second));
  }
  return children;
}

}  // namespace

ExpressionPtr ExpressionParser::make(ExpressionKind kind, Place place,
                                     std::vector<ExpressionPtr> children) const {
  auto node = std::make_unique<Expression>();
  node->kind = kind;
  node->place = place;
  node->children = std::move(children);
  settle_depth(*node);
  return node;
}

void ExpressionParser::settle_depth(Expression& node) const {
  auto include = [&](const ExpressionPtr& child) {
    node.depth = std::max(node.depth, child ? child->depth + 1 : 1);
  };
  std::for_each(node.children.begin(), node.children.end(), include);
  std::for_each(node.named.begin(), node.named.end(),
                [&](const NamedArgument& argument) { include(argument.value); });
  if (node.depth > kMaxDepth) {
    tokens_.fail(node.place, "the expression is too long or too deep");
  }
}

ExpressionPtr ExpressionParser::expression() {
  ParserDepth guard(tokens_);
  ExpressionPtr value = or_expression();
  while (tokens_.is_name("if")) {
    Place place = tokens_.take().place;
    std::vector<ExpressionPtr> parts = children_of(or_expression(), std::move(value));
    parts.push_back(tokens_.skip_name("else") ? expression() : nullptr);
    value = make(ExpressionKind::conditional, place, std::move(parts));
  }
  return value;
}

ExpressionPtr ExpressionParser::expression_without_condition() {
  return or_expression();
}

bool ExpressionParser::at_tuple_end() const {
  return tokens_.current().kind == TokenKind::block_end || tokens_.current().kind == TokenKind::output_end ||
         tokens_.is_symbol(")") || tokens_.is_symbol("=") || tokens_.is_any_name({"if", "recursive"});
}

ExpressionPtr ExpressionParser::tuple(bool with_condition) {
  Place place = tokens_.current().place;
  std::vector<ExpressionPtr> items;
  bool is_tuple = false;
  while (!at_tuple_end()) {
    items.push_back(with_condition ? expression() : expression_without_condition());
    if (!tokens_.skip_symbol(",")) {
      break;
    }
    is_tuple = true;
  }
  if (items.empty()) {
    tokens_.fail(place, fmt::format("an expression is missing before {}", tokens_.found()));
  }
  return is_tuple ? make(ExpressionKind::tuple, place, std::move(items)) : std::move(items[0]);
}

ExpressionPtr ExpressionParser::or_expression() {
  ExpressionPtr left = and_expression();
  while (tokens_.is_name("or")) {
    Place place = tokens_.take().place;
    left = make(ExpressionKind::logical_or, place, children_of(std::move(left), and_expression()));
  }
  return left;
}

ExpressionPtr ExpressionParser::and_expression() {
  ExpressionPtr left = not_expression();
  while (tokens_.is_name("and")) {
    Place place = tokens_.take().place;
    left = make(ExpressionKind::logical_and, place, children_of(std::move(left), not_expression()));
  }
  return left;
}

ExpressionPtr ExpressionParser::not_expression() {
  if (tokens_.is_name("not")) {
    ParserDepth guard(tokens_);
    Place place = tokens_.take().place;
    return make(ExpressionKind::logical_not, place, children_of(not_expression()));
  }
  return comparison();
}

ExpressionPtr ExpressionParser::comparison() {
  constexpr std::pair<std::string_view, Operator> kSymbols[] = {
      {"==", Operator::equal},      {"!=", Operator::not_equal}, {"<", Operator::less},
      {"<=", Operator::less_equal}, {">", Operator::greater},    {">=", Operator::greater_equal}};
  Place place = tokens_.current().place;
  std::vector<ExpressionPtr> operands = children_of(sum());
  std::vector<Operator> operators;
  auto take_operator = [&]() -> std::optional<Operator> {
    for (const auto& [symbol, meaning] : kSymbols) {
      if (tokens_.skip_symbol(symbol)) {
        return meaning;
      }
    }
    if (tokens_.skip_name("in")) {
      return Operator::in;
    }
    if (tokens_.is_name("not") && tokens_.next().kind == TokenKind::name && tokens_.next().text == "in") {
      tokens_.take();
      tokens_.take();
      return Operator::not_in;
    }
    return std::nullopt;
  };
  for (auto found = take_operator(); found; found = take_operator()) {
    operators.push_back(*found);
    operands.push_back(sum());
  }
  if (operators.empty()) {
    return std::move(operands[0]);
  }
  ExpressionPtr node = make(ExpressionKind::compare, place, std::move(operands));
  node->operators = std::move(operators);
  return node;
}

ExpressionPtr ExpressionParser::sum() {
  ExpressionPtr left = joined();
  while (tokens_.is_symbol("+") || tokens_.is_symbol("-")) {
    Token symbol = tokens_.take();
    left = make(ExpressionKind::arithmetic, symbol.place, children_of(std::move(left), joined()));
    left->operators = {symbol.text == "+" ? Operator::add : Operator::subtract};
  }
  return left;
}

ExpressionPtr ExpressionParser::joined() {
  Place place = tokens_.current().place;
  std::vector<ExpressionPtr> parts = children_of(product());
  while (tokens_.skip_symbol("~")) {
    parts.push_back(product());
  }
  return parts.size() == 1 ? std::move(parts[0]) : make(ExpressionKind::join, place, std::move(parts));
}

ExpressionPtr ExpressionParser::product() {
  constexpr std::pair<std::string_view, Operator> kSymbols[] = {{"*", Operator::multiply},
                                                                {"/", Operator::divide},
                                                                {"//", Operator::floor_divide},
                                                                {"%", Operator::modulo}};
  ExpressionPtr left = power();
  while (true) {
    auto found = std::find_if(std::begin(kSymbols), std::end(kSymbols),
                              [&](const auto& known) { return tokens_.is_symbol(known.first); });
    if (found == std::end(kSymbols)) {
      return left;
    }
    Place place = tokens_.take().place;
    left = make(ExpressionKind::arithmetic, place, children_of(std::move(left), power()));
    left->operators = {found->second};
  }
}

ExpressionPtr ExpressionParser::power() {
  ExpressionPtr left = unary(true);
  while (tokens_.is_symbol("**")) {
    Place place = tokens_.take().place;
    left = make(ExpressionKind::arithmetic, place, children_of(std::move(left), unary(true)));
    left->operators = {Operator::power};
  }
  return left;
}

ExpressionPtr ExpressionParser::unary(bool with_filters) {
  ParserDepth guard(tokens_);
  ExpressionPtr node;
  if (tokens_.is_symbol("-") || tokens_.is_symbol("+")) {
    Token sign = tokens_.take();
    ExpressionKind kind = sign.text == "-" ? ExpressionKind::negative : ExpressionKind::positive;
    node = make(kind, sign.place, children_of(unary(false)));
  } else {
    node = primary();
  }
  node = postfix(std::move(node));
  return with_filters ? filters(std::move(node)) : std::move(node);
}

ExpressionPtr ExpressionParser::name_or_constant() {
  Token token = tokens_.take();
  auto constant = [&](Value value) {
    ExpressionPtr node = make(ExpressionKind::constant, token.place);
    node->constant = std::move(value);
    return node;
  };
  if (token.text == "true" || token.text == "True") {
    return constant(Value(true));
  }
  if (token.text == "false" || token.text == "False") {
    return constant(Value(false));
  }
  if (token.text == "none" || token.text == "None") {
    return constant(Value());
  }
  ExpressionPtr node = make(ExpressionKind::name, token.place);
  node->symbol = tokens_.symbol(token.text);
  return node;
}

ExpressionPtr ExpressionParser::primary() {
  Place place = tokens_.current().place;
  switch (tokens_.current().kind) {
    case TokenKind::name:
      return name_or_constant();
    case TokenKind::string: {
      std::string text;
      while (tokens_.current().kind == TokenKind::string) {
        text += tokens_.take().text;
      }
      ExpressionPtr node = make(ExpressionKind::constant, place);
      node->constant = Value(std::move(text));
      return node;
    }
    case TokenKind::integer:
    case TokenKind::real: {
      Token token = tokens_.take();
      ExpressionPtr node = make(ExpressionKind::constant, place);
      node->constant = token.kind == TokenKind::integer ? Value(token.integer) : Value(token.real);
      return node;
    }
    default:
      break;
  }
  if (tokens_.skip_symbol("(")) {
    if (tokens_.skip_symbol(")")) {
      return make(ExpressionKind::tuple, place);
    }
    ExpressionPtr node = tuple(true);
    tokens_.expect_symbol(")");
    return node;
  }
  if (tokens_.is_symbol("[")) {
    return list();
  }
  if (tokens_.is_symbol("{")) {
    return dict();
  }
  tokens_.fail(place, fmt::format("an expression is expected, found {}", tokens_.found()));
}

ExpressionPtr ExpressionParser::list() {
  Place place = tokens_.take().place;
  std::vector<ExpressionPtr> items;
  while (!tokens_.is_symbol("]")) {
    items.push_back(expression());
    if (!tokens_.skip_symbol(",")) {
      break;
    }
  }
  tokens_.expect_symbol("]");
  return make(ExpressionKind::list, place, std::move(items));
}

ExpressionPtr ExpressionParser::dict() {
  Place place = tokens_.take().place;
  std::vector<ExpressionPtr> items;
  while (!tokens_.is_symbol("}")) {
    items.push_back(expression());
    tokens_.expect_symbol(":");
    items.push_back(expression());
    if (!tokens_.skip_symbol(",")) {
      break;
    }
  }
  tokens_.expect_symbol("}");
  return make(ExpressionKind::dict, place, std::move(items));
}

ExpressionPtr ExpressionParser::postfix(ExpressionPtr node) {
  while (true) {
    if (tokens_.is_symbol(".") || tokens_.is_symbol("[")) {
      node = subscript(std::move(node));
    } else if (tokens_.is_symbol("(")) {
      node = call(std::move(node));
    } else {
      return node;
    }
  }
}

ExpressionPtr ExpressionParser::subscript(ExpressionPtr object) {
  Token opening = tokens_.take();
  if (opening.text == "[") {
    ExpressionPtr node = slice_or_index(std::move(object), opening.place);
    tokens_.expect_symbol("]");
    return node;
  }
  if (tokens_.current().kind == TokenKind::integer) {
    ExpressionPtr index = make(ExpressionKind::constant, tokens_.current().place);
    index->constant = Value(tokens_.take().integer);
    return make(ExpressionKind::item, opening.place, children_of(std::move(object), std::move(index)));
  }
  ExpressionPtr node = make(ExpressionKind::attribute, opening.place, children_of(std::move(object)));
  node->text = tokens_.take_name("the name of an attribute");
  return node;
}

ExpressionPtr ExpressionParser::slice_or_index(ExpressionPtr object, Place place) {
  std::vector<ExpressionPtr> parts = children_of(std::move(object));
  auto at_end_of_part = [&] { return tokens_.is_symbol(":") || tokens_.is_symbol("]"); };
  ExpressionPtr first = at_end_of_part() ? nullptr : expression();
  if (tokens_.is_symbol(",")) {
    tokens_.fail_unsupported(tokens_.current().place, "several subscripts in one pair of brackets");
  }
  if (!tokens_.is_symbol(":")) {
    if (!first) {
      tokens_.fail(place, "a subscript is missing between the brackets");
    }
    return make(ExpressionKind::item, place, children_of(std::move(parts[0]), std::move(first)));
  }
  parts.push_back(std::move(first));
  while (parts.size() < 4 && tokens_.skip_symbol(":")) {
    parts.push_back(at_end_of_part() ? nullptr : expression());
  }
  parts.resize(4);
  return make(ExpressionKind::slice, place, std::move(parts));
}

ExpressionPtr ExpressionParser::call(ExpressionPtr callee) {
  Place place = callee->place;
  ExpressionPtr node = make(ExpressionKind::call, place, children_of(std::move(callee)));
  arguments(*node);
  return node;
}

void ExpressionParser::arguments(Expression& node) {
  tokens_.expect_symbol("(");
  while (!tokens_.is_symbol(")")) {
    Place place = tokens_.current().place;
    if (tokens_.is_symbol("*") || tokens_.is_symbol("**")) {
      tokens_.fail_unsupported(place, "arguments by " + tokens_.current().text);
    }
    bool is_named = tokens_.current().kind == TokenKind::name && tokens_.next().kind == TokenKind::symbol &&
                    tokens_.next().text == "=";
    if (is_named) {
      std::string name = tokens_.take().text;
      tokens_.take();
      node.named.push_back({std::move(name), expression()});
    } else if (!node.named.empty()) {
      tokens_.fail(place, "an argument without a name cannot follow one with a name");
    } else {
      node.children.push_back(expression());
    }
    if (!tokens_.skip_symbol(",")) {
      break;
    }
  }
  tokens_.expect_symbol(")");
  settle_depth(node);
}

ExpressionPtr ExpressionParser::filters(ExpressionPtr input) {
  while (true) {
    if (tokens_.is_symbol("|")) {
      tokens_.take();
      input = one_filter(std::move(input));
    } else if (tokens_.is_name("is")) {
      tokens_.take();
      input = test(std::move(input));
    } else if (tokens_.is_symbol("(")) {
      input = call(std::move(input));
    } else {
      return input;
    }
  }
}

ExpressionPtr ExpressionParser::one_filter(ExpressionPtr input) {
  Place place = tokens_.current().place;
  std::vector<ExpressionPtr> children;
  children.push_back(std::move(input));
  ExpressionPtr node = make(ExpressionKind::filter, place, std::move(children));
  node->text = tokens_.take_name("the name of a filter");
  while (tokens_.skip_symbol(".")) {
    node->text += "." + tokens_.take_name("the name of a filter");
  }
  if (tokens_.is_symbol("(")) {
    arguments(*node);
  }
  return node;
}

ExpressionPtr ExpressionParser::test(ExpressionPtr input) {
  bool negated = tokens_.skip_name("not");
  Place place = tokens_.current().place;
  ExpressionPtr node = make(ExpressionKind::test, place, children_of(std::move(input)));
  node->text = tokens_.take_name("the name of a test");
  TokenKind kind = tokens_.current().kind;
  bool at_value = kind == TokenKind::name || kind == TokenKind::string || kind == TokenKind::integer ||
                  kind == TokenKind::real || tokens_.is_symbol("[") || tokens_.is_symbol("{");
  if (tokens_.is_symbol("(")) {
    arguments(*node);
  } else if (tokens_.is_name("is")) {
    tokens_.fail(tokens_.current().place, "two tests in a row; put the first into parentheses");
  } else if (at_value && !tokens_.is_any_name({"else", "or", "and", "if"})) {
    node->children.push_back(postfix(primary()));
    settle_depth(*node);
  }
  return negated ? make(ExpressionKind::logical_not, place, children_of(std::move(node))) : std::move(node);
}

}  // namespace snug::jinja
