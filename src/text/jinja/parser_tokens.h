// What the parsers of statements and of expressions share: the tokens, names and nodes of one template.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "text/jinja/lexer.h"
#include "text/jinja/syntax.h"

namespace snug::jinja {

class ParserTokens {
 public:
  ParserTokens(std::vector<Token> tokens, Template& result) : tokens_(std::move(tokens)), template_(result) {}

  const Token& current() const { return tokens_[at_]; }
  const Token& next() const { return tokens_[at_ + 1 < tokens_.size() ? at_ + 1 : at_]; }
  Token take();
  bool is_symbol(std::string_view symbol) const {
    return current().kind == TokenKind::symbol && current().text == symbol;
  }
  bool is_name(std::string_view name) const {
    return current().kind == TokenKind::name && current().text == name;
  }
  bool is_any_name(std::initializer_list<std::string_view> names) const;
  bool skip_symbol(std::string_view symbol);
  bool skip_name(std::string_view name);
  void expect_symbol(std::string_view symbol);
  void expect_name(std::string_view name);
  void expect(TokenKind kind, std::string_view what);
  std::string take_name(std::string_view what);

  int symbol(const std::string& name);
  Template& result() { return template_; }

  [[noreturn]] void fail(Place place, const std::string& message) const;
  [[noreturn]] void fail_unsupported(Place place, const std::string& construct) const;
  // The current token as a message names it.
  std::string found() const;

  // Recursion of the parser itself is bounded like the trees it makes.
  void enter(Place place);
  void leave() { --depth_; }

 private:
  std::vector<Token> tokens_;
  size_t at_ = 0;
  Template& template_;
  std::unordered_map<std::string, int> symbols_;
  int depth_ = 0;
};

// Held while the parser is one level deeper.
class ParserDepth {
 public:
  explicit ParserDepth(ParserTokens& tokens) : tokens_(tokens) { tokens_.enter(tokens_.current().place); }
  ~ParserDepth() { tokens_.leave(); }
  ParserDepth(const ParserDepth&) = delete;
  ParserDepth& operator=(const ParserDepth&) = delete;

 private:
  ParserTokens& tokens_;
};

class ExpressionParser {
 public:
  explicit ExpressionParser(ParserTokens& tokens) : tokens_(tokens) {}

  ExpressionPtr expression();                    // with `a if b else c`
  ExpressionPtr expression_without_condition();  // what `for x in` takes, so that its own `if` is left
  // One expression, or several with commas between them: a tuple.
  ExpressionPtr tuple(bool with_condition);
  // |name(arguments)...; the first takes `input`.
  ExpressionPtr filters(ExpressionPtr input);
  ExpressionPtr one_filter(ExpressionPtr input);

 private:
  ExpressionPtr make(ExpressionKind kind, Place place, std::vector<ExpressionPtr> children = {}) const;
  void settle_depth(Expression& node) const;
  ExpressionPtr or_expression();
  ExpressionPtr and_expression();
  ExpressionPtr not_expression();
  ExpressionPtr comparison();
  ExpressionPtr sum();
  ExpressionPtr joined();
  ExpressionPtr product();
  ExpressionPtr power();
  ExpressionPtr unary(bool with_filters);
  ExpressionPtr primary();
  ExpressionPtr name_or_constant();
  ExpressionPtr list();
  ExpressionPtr dict();
  ExpressionPtr postfix(ExpressionPtr node);
  ExpressionPtr subscript(ExpressionPtr object);
  ExpressionPtr slice_or_index(ExpressionPtr object, Place place);
  ExpressionPtr call(ExpressionPtr callee);
  ExpressionPtr test(ExpressionPtr input);
  void arguments(Expression& node);
  bool at_tuple_end() const;

  ParserTokens& tokens_;
};

}  // namespace snug::jinja
