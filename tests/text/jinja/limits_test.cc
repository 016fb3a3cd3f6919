// What hostile templates may cost. The bombs are short templates whose plain evaluation takes more time or
// memory than any machine has; they are seeds of the fuzz harness too.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "io/atomic_file.h"
#include "test_paths.h"
#include "text/jinja/evaluator.h"
#include "text/jinja/parser.h"
#include "text/jinja/runtime.h"

namespace snug {
namespace {

namespace fs = std::filesystem;

// A hundredth of what people's templates may take: what is counted is counted alike.
constexpr jinja::Limits kSmall = {.steps = 100'000, .bytes = 8 << 20, .depth = 500};

std::string run(const std::string& source, jinja::Limits limits = kSmall) {
  jinja::Template parsed = jinja::parse_template(source, "t.jinja");
  jinja::Runtime runtime("t.jinja", limits, {});
  return jinja::Evaluator(parsed, runtime).render().text;
}

// Bytes of address space that this process has now.
rlim_t address_space_bytes() {
  rlim_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * 4096;
}

// Where what is built before it is counted cannot be had: 64 MiB more than now, eight times what is counted.
// And seconds enough for any machine, so that what goes on for ever ends.
void take_memory_and_time_away() {
#if !defined(__SANITIZE_ADDRESS__)  // its shadow is address space
  rlim_t bytes = address_space_bytes() + (rlim_t{64} << 20);
  rlimit memory = {bytes, bytes};
  setrlimit(RLIMIT_AS, &memory);
#endif
  rlimit seconds = {120, 120};
  setrlimit(RLIMIT_CPU, &seconds);
}

// In a process of its own: ends with 0 if the template is refused for what it costs. Else its standard error says
// what happened.
[[noreturn]] void expect_refusal(const std::string& source) {
  take_memory_and_time_away();
  try {
    run(source);
  } catch (const Error& error) {
    std::fputs(error.what(), stderr);
    std::string_view said = error.what();
    bool refused = said.starts_with("t.jinja:") && said.ends_with("; it may be damaged or hostile.");
    std::exit(refused && error.kind() == ErrorKind::bad_input ? 0 : 1);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "not counted: %s", error.what());
    std::exit(1);
  }
  std::fputs("rendered", stderr);
  std::exit(1);
}

std::vector<fs::path> bombs() {
  std::vector<fs::path> found;
  for (const fs::directory_entry& entry :
       fs::directory_iterator(fs::path(SNUG_SOURCE_DIR) / "fuzz/corpus/template")) {
    if (entry.path().filename().string().starts_with("bomb_")) {
      found.push_back(entry.path());
    }
  }
  std::sort(found.begin(), found.end());
  return found;
}

class JinjaBomb : public testing::TestWithParam<fs::path> {};

TEST_P(JinjaBomb, EndsInAnErrorWithinItsStepsAndBytes) {
  std::string source = read_text_file(GetParam());
  EXPECT_EXIT(expect_refusal(source), testing::ExitedWithCode(0), "");
}

INSTANTIATE_TEST_SUITE_P(Corpus, JinjaBomb, testing::ValuesIn(bombs()),
                         [](const auto& one) { return one.param.stem().string(); });

TEST(JinjaCounts, WhatIsOneAndTheSameIsNotLookedInto) {
  std::string shared =
      "{% set ns = namespace(a=[1]) %}{% for i in range(99) %}{% set ns.a = [ns.a, ns.a] %}{% endfor %}";
  EXPECT_EQ(run(shared + "{{ ns.a == ns.a }} {{ ns.a in [ns.a] }} {{ [ns.a, ns.a]|unique|list|length }}"),
            "True True 1");
}

// n characters of m that go: n + m are looked at, not n times m.
TEST(JinjaCounts, StrippingIsLinear) {
  EXPECT_EQ(run("{{ ('a' * 1000000).strip('b' * 1000000 ~ 'a')|length }}"), "0");
  EXPECT_EQ(run("{{ ('ä' * 1000).lstrip('ü' * 1000 ~ 'ä') ~ 'äxä'.strip('ä') }}"), "x");
  EXPECT_EQ(run("{{ 'ab'.strip('') }}"), "ab");
}

TEST(JinjaCounts, WhatIsGoneCountsToo) {
  jinja::Limits limits = {.steps = 5'000, .bytes = 100'000, .depth = 500};
  EXPECT_EQ(run("{{ ('a' * 90000)|length }}", limits), "90000");
  EXPECT_THROW(run("{{ ('a' * 100001)|length }}", limits), Error);
  EXPECT_THROW(run("{{ ('a' * 60000)|length }}{{ ('a' * 60000)|length }}", limits), Error);
  EXPECT_THROW(run("{% for i in range(5000) %}{% endfor %}", limits), Error);
}

TEST(JinjaCounts, ATemplateHasASize) {
  EXPECT_THROW(jinja::parse_template(std::string((1 << 20) + 1, 'x'), "t.jinja"), Error);
  EXPECT_EQ(run(std::string(1 << 20, 'x')).size(), size_t{1} << 20);
}

TEST(JinjaCounts, WidthsBelowNothing) {
  EXPECT_EQ(run("{{ 'x'.ljust(-9223372036854775807 - 1) }}"), "x");
}

}  // namespace
}  // namespace snug
