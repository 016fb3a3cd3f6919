// Reads a template's source into statements and expressions: the tokens, and the statements.
#include "text/jinja/parser.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "io/printable.h"
#include "text/jinja/parser_tokens.h"

namespace snug::jinja {

namespace {
constexpr int kMaxParserDepth = 200;
}  // namespace

Token ParserTokens::take() {
  Token token = tokens_[at_];
  if (at_ + 1 < tokens_.size()) {
    ++at_;
  }
  return token;
}

bool ParserTokens::is_any_name(std::initializer_list<std::string_view> names) const {
  return std::any_of(names.begin(), names.end(), [&](std::string_view name) { return is_name(name); });
}

bool ParserTokens::skip_symbol(std::string_view symbol) {
  bool found = is_symbol(symbol);
  at_ += found ? 1 : 0;
  return found;
}

bool ParserTokens::skip_name(std::string_view name) {
  bool found = is_name(name);
  at_ += found ? 1 : 0;
  return found;
}

void ParserTokens::expect_symbol(std::string_view symbol) {
  if (!skip_symbol(symbol)) {
    fail(current().place, fmt::format("'{}' is expected, found {}", symbol, found()));
  }
}

void ParserTokens::expect_name(std::string_view name) {
  if (!skip_name(name)) {
    fail(current().place, fmt::format("'{}' is expected, found {}", name, found()));
  }
}

void ParserTokens::expect(TokenKind kind, std::string_view what) {
  if (current().kind != kind) {
    fail(current().place, fmt::format("{} is expected, found {}", what, found()));
  }
  take();
}

std::string ParserTokens::take_name(std::string_view what) {
  if (current().kind != TokenKind::name) {
    fail(current().place, fmt::format("{} is expected, found {}", what, found()));
  }
  return take().text;
}

int ParserTokens::symbol(const std::string& name) {
  auto [entry, is_new] = symbols_.try_emplace(name, static_cast<int>(template_.symbols.size()));
  if (is_new) {
    template_.symbols.push_back(name);
  }
  return entry->second;
}

void ParserTokens::fail(Place place, const std::string& message) const {
  throw bad_input(fmt::format("{}:{}:{}: {}.", template_.name, place.line, place.column, message));
}

void ParserTokens::fail_unsupported(Place place, const std::string& construct) const {
  throw bad_input(
      fmt::format("{}:{}:{}: the template uses {}, which snug does not support. Change the template there, "
                  "or give one of "
                  "your own.",
                  template_.name, place.line, place.column, construct));
}

std::string ParserTokens::found() const {
  switch (current().kind) {
    case TokenKind::text:
    case TokenKind::end:
      return "the end of the tag";
    case TokenKind::output_begin:
    case TokenKind::block_begin:
      return "the begin of a tag";
    case TokenKind::output_end:
      return "}}";
    case TokenKind::block_end:
      return "%}";
    default:
      return in_quotes(current().text, 60);
  }
}

void ParserTokens::enter(Place place) {
  if (++depth_ > kMaxParserDepth) {
    fail(place, "the template nests its blocks or expressions too deeply");
  }
}

namespace {

class StatementParser {
 public:
  explicit StatementParser(ParserTokens& tokens) : tokens_(tokens), expressions_(tokens) {}

  Body whole() { return statements({}); }

 private:
  // Up to a tag with one of these names, which stays; without names, up to the end of the template.
  Body statements(std::initializer_list<std::string_view> ends) {
    ParserDepth guard(tokens_);
    Body body;
    while (tokens_.current().kind != TokenKind::end) {
      Token token = tokens_.current();
      if (token.kind == TokenKind::text) {
        body.push_back(begin(StatementKind::text));
        body.back().text = tokens_.take().text;
      } else if (token.kind == TokenKind::output_begin) {
        tokens_.take();
        body.push_back(begin(StatementKind::output));
        body.back().expressions.push_back(expressions_.tuple(true));
        tokens_.expect(TokenKind::output_end, "}}");
      } else {
        const Token& tag = tokens_.next();
        if (tag.kind != TokenKind::name) {
          tokens_.fail(token.place, "a tag without a name");
        }
        if (std::find(ends.begin(), ends.end(), tag.text) != ends.end()) {
          return body;
        }
        if (tag.text.starts_with("end") || tag.text == "else" || tag.text == "elif") {
          std::string open =
              ends.size() == 0 ? "nothing is open" : fmt::format("'{}' is expected first", *(ends.end() - 1));
          tokens_.fail(token.place, fmt::format("unexpected tag '{}': {}", printable(tag.text, 40), open));
        }
        tokens_.take();
        body.push_back(statement());
      }
    }
    if (ends.size() > 0) {
      tokens_.fail(tokens_.current().place,
                   fmt::format("the template ends, but '{}' is missing", *(ends.end() - 1)));
    }
    return body;
  }

  Statement begin(StatementKind kind) const {
    Statement statement;
    statement.kind = kind;
    statement.place = tokens_.current().place;
    return statement;
  }

  Statement statement() {
    const std::string& tag = tokens_.current().text;
    if (tag == "if") {
      return condition();
    }
    if (tag == "for") {
      return loop();
    }
    if (tag == "set") {
      return assignment();
    }
    if (tag == "macro") {
      return macro();
    }
    if (tag == "call") {
      return call_block();
    }
    if (tag == "filter") {
      return filter_block();
    }
    if (tag == "with") {
      return with();
    }
    if (tag == "generation") {
      Statement result = begin(StatementKind::generation);
      tokens_.take();
      tokens_.result().has_generation = true;
      result.bodies.push_back(body_until("endgeneration"));
      return result;
    }
    if (tag == "break" || tag == "continue") {
      Statement result = begin(tag == "break" ? StatementKind::break_loop : StatementKind::continue_loop);
      if (loop_depth_ == 0) {
        tokens_.fail(result.place, fmt::format("'{}' outside of a loop", tag));
      }
      tokens_.take();
      end_tag();
      return result;
    }
    tokens_.fail_unsupported(tokens_.current().place, fmt::format("the tag '{}'", printable(tag, 40)));
  }

  void end_tag() { tokens_.expect(TokenKind::block_end, "%}"); }

  // The rest of the opening tag, the body, and the closing tag.
  Body body_until(std::string_view closing) {
    end_tag();
    Body body = statements({closing});
    close(closing);
    return body;
  }

  void close(std::string_view closing) {
    tokens_.expect(TokenKind::block_begin, "{%");
    tokens_.expect_name(closing);
    end_tag();
  }

  Statement condition() {
    Statement result = begin(StatementKind::condition);
    tokens_.take();
    while (true) {
      result.expressions.push_back(expressions_.tuple(false));
      end_tag();
      result.bodies.push_back(statements({"elif", "else", "endif"}));
      tokens_.expect(TokenKind::block_begin, "{%");
      if (tokens_.skip_name("elif")) {
        continue;
      }
      if (tokens_.skip_name("else")) {
        result.bodies.push_back(body_until("endif"));
      } else {
        tokens_.expect_name("endif");
        end_tag();
      }
      return result;
    }
  }

  Statement loop() {
    Statement result = begin(StatementKind::loop);
    tokens_.take();
    result.targets.push_back(target(false));
    tokens_.expect_name("in");
    result.expressions.push_back(expressions_.tuple(false));
    if (tokens_.skip_name("if")) {
      result.expressions.push_back(expressions_.expression());
    }
    if (tokens_.is_name("recursive")) {
      tokens_.fail_unsupported(tokens_.current().place, "a recursive for loop");
    }
    end_tag();
    ++loop_depth_;
    result.bodies.push_back(statements({"else", "endfor"}));
    --loop_depth_;
    tokens_.expect(TokenKind::block_begin, "{%");
    if (tokens_.skip_name("else")) {
      result.bodies.push_back(body_until("endfor"));
    } else {
      tokens_.expect_name("endfor");
      end_tag();
    }
    return result;
  }

  Target one_target(bool with_attribute) {
    Target result;
    result.place = tokens_.current().place;
    if (tokens_.skip_symbol("(")) {
      result = target(with_attribute);
      tokens_.expect_symbol(")");
      return result;
    }
    std::string name = tokens_.take_name("the name of a variable");
    for (const char* reserved : {"true", "false", "none", "True", "False", "None"}) {
      if (name == reserved) {
        tokens_.fail(result.place, fmt::format("'{}' cannot be assigned to", name));
      }
    }
    result.symbol = tokens_.symbol(name);
    if (with_attribute && tokens_.skip_symbol(".")) {
      result.attribute = tokens_.take_name("the name of an attribute");
    }
    return result;
  }

  Target target(bool with_attribute) {
    ParserDepth guard(tokens_);
    Target first = one_target(with_attribute);
    if (!tokens_.is_symbol(",")) {
      return first;
    }
    Target result;
    result.place = first.place;
    result.parts.push_back(std::move(first));
    while (tokens_.skip_symbol(",")) {
      if (tokens_.current().kind != TokenKind::name && !tokens_.is_symbol("(")) {
        break;
      }
      result.parts.push_back(one_target(with_attribute));
    }
    return result;
  }

  Statement assignment() {
    Statement result = begin(StatementKind::assign);
    tokens_.take();
    result.targets.push_back(target(true));
    if (tokens_.skip_symbol("=")) {
      result.expressions.push_back(expressions_.tuple(true));
      end_tag();
      return result;
    }
    result.kind = StatementKind::assign_block;
    if (tokens_.is_symbol("|")) {
      result.expressions.push_back(filter_chain(false));
    }
    result.bodies.push_back(body_until("endset"));
    return result;
  }

  // Filters one after the other, whose first takes a text that is not known yet.
  ExpressionPtr filter_chain(bool first_is_bare) {
    if (!first_is_bare) {
      tokens_.expect_symbol("|");
    }
    ExpressionPtr chain = expressions_.one_filter(nullptr);
    return expressions_.filters(std::move(chain));
  }

  std::vector<Parameter> parameters() {
    std::vector<Parameter> result;
    tokens_.expect_symbol("(");
    while (!tokens_.is_symbol(")")) {
      Parameter parameter;
      parameter.name = tokens_.take_name("the name of a parameter");
      parameter.symbol = tokens_.symbol(parameter.name);
      if (tokens_.skip_symbol("=")) {
        parameter.fallback = expressions_.expression();
      } else if (!result.empty() && result.back().fallback) {
        tokens_.fail(tokens_.current().place, "a parameter without a default cannot follow one with it");
      }
      result.push_back(std::move(parameter));
      if (!tokens_.skip_symbol(",")) {
        break;
      }
    }
    tokens_.expect_symbol(")");
    return result;
  }

  // A macro's body is a world of its own: `break` in it cannot leave a loop around it.
  Body macro_body(std::string_view closing) {
    int outer_loops = std::exchange(loop_depth_, 0);
    Body body = body_until(closing);
    loop_depth_ = outer_loops;
    return body;
  }

  Statement macro() {
    Statement result = begin(StatementKind::macro);
    tokens_.take();
    result.text = tokens_.take_name("the macro's name");
    result.symbol = tokens_.symbol(result.text);
    result.parameters = parameters();
    result.bodies.push_back(macro_body("endmacro"));
    return result;
  }

  Statement call_block() {
    Statement result = begin(StatementKind::call_block);
    tokens_.take();
    if (tokens_.is_symbol("(")) {
      result.parameters = parameters();
    }
    Place place = tokens_.current().place;
    result.expressions.push_back(expressions_.expression());
    if (result.expressions[0]->kind != ExpressionKind::call) {
      tokens_.fail(place, "a call block needs a call of a macro");
    }
    result.text = "caller";
    result.symbol = tokens_.symbol("caller");
    result.bodies.push_back(macro_body("endcall"));
    return result;
  }

  Statement filter_block() {
    Statement result = begin(StatementKind::filter_block);
    tokens_.take();
    result.expressions.push_back(filter_chain(true));
    result.bodies.push_back(body_until("endfilter"));
    return result;
  }

  Statement with() {
    Statement result = begin(StatementKind::with);
    tokens_.take();
    while (tokens_.current().kind != TokenKind::block_end) {
      result.targets.push_back(one_target(false));
      tokens_.expect_symbol("=");
      result.expressions.push_back(expressions_.expression());
      if (!tokens_.skip_symbol(",")) {
        break;
      }
    }
    result.bodies.push_back(body_until("endwith"));
    return result;
  }

  ParserTokens& tokens_;
  ExpressionParser expressions_;
  int loop_depth_ = 0;
};

}  // namespace

Template parse_template(std::string_view source, std::string name) {
  Template result;
  result.name = std::move(name);
  ParserTokens tokens(cut_into_tokens(source, result.name), result);
  result.body = StatementParser(tokens).whole();
  return result;
}

}  // namespace snug::jinja
