// The interpreter's errors and limits. What it renders is compared with Jinja2 in chat_template_goldens_test.
#include <gtest/gtest.h>

#include <functional>

#include "base/error.h"
#include "text/jinja/evaluator.h"
#include "text/jinja/parser.h"
#include "text/jinja/runtime.h"
#include "text/jinja/text.h"

namespace snug {
namespace {

std::string run(const std::string& source, jinja::Limits limits = {}) {
  jinja::Template parsed = jinja::parse_template(source, "t.jinja");
  jinja::Runtime runtime("t.jinja", limits, {});
  return jinja::Evaluator(parsed, runtime).render().text;
}

// What is said about a template that cannot be used; "" if it can.
std::string error_of(const std::string& source, jinja::Limits limits = {}) {
  try {
    run(source, limits);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::bad_input);
    return error.what();
  }
  return "";
}

void expect_error(const std::string& source, const std::string& part) {
  // The default limits are for people's patience; a test needs less.
  std::string error = error_of(source, {.steps = 200'000, .bytes = 10'000'000, .depth = 500});
  EXPECT_NE(error.find(part), std::string::npos) << source.substr(0, 200) << " -> " << error;
}

TEST(JinjaErrors, NameWhatIsNotSupportedAndWhere) {
  expect_error("a\n  {% include 'x' %}",
               "t.jinja:2:6: the template uses the tag 'include', which snug does not");
  expect_error("{{ 'a' | urlize }}", "t.jinja:1:10: the template uses the filter 'urlize'");
  expect_error("{{ 1 is weird }}", "t.jinja:1:9: the template uses the test 'weird'");
  expect_error("{{ 'a'.encode() }}", "the method 'encode' of str");
  expect_error("{% for x in [] recursive %}{% endfor %}",
               "t.jinja:1:16: the template uses a recursive for loop");
  expect_error("{{ f(*x) }}", "arguments by *");
  expect_error("{{ cycler('a') }}", "the function 'cycler'");
  expect_error("{{ '{:%}'.format(1) }}", "number format");
}

TEST(JinjaErrors, Syntax) {
  expect_error("{% if x %}", "t.jinja:1:11: the template ends, but 'endif' is missing");
  expect_error("{% endfor %}", "t.jinja:1:1: unexpected tag 'endfor'");
  expect_error("x {{ 'abc }}", "t.jinja:1:6: a string begins here and has no end");
  expect_error("{{ 1 + }}", "an expression is expected, found }}");
  expect_error("{{ x", "t.jinja:1:1: the tag that begins here has no end; }} is missing");
  expect_error("{# x", "comment");
  expect_error("{% raw %} x", "endraw");
  expect_error("{{ (1] }}", "unexpected ']'");
  expect_error("{{ 'é' ? }}", "t.jinja:1:8: unexpected character");
  expect_error("{% set true = 1 %}", "cannot be assigned");
  expect_error("{% break %}", "outside of a loop");
  expect_error("\xFF", "not UTF-8");
  expect_error("{{ '\\ud800' }}", "escape");
}

TEST(JinjaErrors, AsPython) {
  expect_error("{{ missing.x }}", "t.jinja:1:11: 'missing' is undefined");
  expect_error("{{ 'a' + missing }}", "'missing' is undefined");
  expect_error("{{ missing() }}", "'missing' is undefined");
  expect_error("{{ 'a' + 1 }}", "'+' does not go between str and int");
  expect_error("{{ 1 < 'a' }}", "'<' does not go between int and str");
  expect_error("{{ none | length }}", "NoneType has no length");
  expect_error("{% for x in 1 %}{% endfor %}", "int cannot be looped over");
  expect_error("{{ 1 / 0 }}", "division by zero");
  expect_error("{{ [1].append(2) }}", "would change a value");
  expect_error("{% set x = {} %}{% set x.y = 1 %}", "only a namespace");
  expect_error("{{ missing | tojson }}", "'missing' is undefined");
  expect_error("{% macro m(a) %}{% endmacro %}{{ m(1, 2) }}", "does not take");
  expect_error("{{ raise_exception('No system role!') }}", "refuses this conversation: No system role!");
  expect_error("{% set a, b = [1] %}", "1 values for 2 names");
}

TEST(JinjaLimits, HostileTemplatesStop) {
  std::string doubling =
      "{% set ns = namespace(x='aaaaaaaaaaaaaaaa') %}{% for i in range(99) %}{% set ns.x = ns.x ~ ns.x %}{% "
      "endfor %}";
  expect_error(doubling, "makes too much text");
  expect_error("{{ 'a' * 99999999999 }}", "makes too much text");
  expect_error("{{ 'a' * 9223372036854775807 }}", "makes too much text");
  expect_error("{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
               "too many steps");
  expect_error("{{ range(100001) }}", "range() of more than");
  expect_error("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "too deeply");
  expect_error("{% set ns = namespace(x=[]) %}{% for i in range(9999) %}{% set ns.x = [ns.x] %}{% endfor %}",
               "levels");
  expect_error("{{ 9223372036854775807 + 1 }}", "beyond 64 bits");
  expect_error("{{ 10 ** 99 }}", "beyond 64 bits");
  expect_error("{{ " + std::string(10'000, '(') + "1" + std::string(10'000, ')') + " }}", "too deeply");
  expect_error("{{ " + std::string(10'000, '-') + "1 }}", "too deeply");
  std::string sum = "{{ 1";
  for (int i = 0; i < 10'000; ++i) {
    sum += "+1";
  }
  expect_error(sum + " }}", "too long or too deep");
  std::string nested;
  for (int i = 0; i < 10'000; ++i) {
    nested += "{% if 1 %}";
  }
  expect_error(nested, "too deeply");
}

TEST(JinjaLimits, ObjectsMayReferToThemselves) {
  EXPECT_EQ(run("{% set ns = namespace() %}{% set ns.me = ns %}{{ ns.me.me is defined }}"), "True");
  expect_error(
      "{% set ns = namespace() %}{% for i in [1] %}{% macro m() %}{% endmacro %}{% set ns.m = m %}{% endfor "
      "%}{{ ns.m() }}",
      "outside of the block that defines it");
}

TEST(JinjaText, SplitsLikePython) {
  EXPECT_EQ(run("{{ 'a\u3000b \t c'.split() }}"), "['a', 'b', 'c']");
  EXPECT_EQ(run("{{ '  a  b  c  '.split(none, 1) }}"), "['a', 'b  c  ']");
  EXPECT_EQ(run("{{ '  a  b  c  '.split(none, 0) }}"), "['a  b  c  ']");
  EXPECT_EQ(run("{{ '  a  b  c  '.rsplit(none, 1) }}"), "['  a  b', 'c']");
  EXPECT_EQ(run("{{ ' a b '.rsplit(none, 0) }}"), "[' a b']");
  EXPECT_EQ(run("{{ ''.split() }}{{ '   '.rsplit(none, 0) }}"), "[][]");
  EXPECT_EQ(run("{{ ''.split(',') }}{{ 'aXXbXc'.rsplit('XX') }}{{ 'XXX'.rsplit('XX') }}"),
            "['']['a', 'bXc']['X', '']");
  EXPECT_EQ(jinja::count_characters("a\xFF\xE2\x82"), 4);  // each byte that is no UTF-8 counts
}

}  // namespace
}  // namespace snug
