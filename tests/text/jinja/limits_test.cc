// What hostile templates may cost. The bombs are short templates whose plain evaluation takes more time or
// memory than any machine has; they are seeds of the fuzz harness too.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

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

// Bytes of address space that this process has now; not asked for under AddressSanitizer.
[[maybe_unused]] rlim_t address_space_bytes() {
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

// 0 if the template is refused for what it costs; else standard error says what happened.
int run_with_little(const std::string& source) {
  take_memory_and_time_away();
  std::string said = "it was rendered";
  try {
    run(source);
  } catch (const Error& error) {
    said = error.what();
  } catch (const std::exception& error) {
    said = std::string("not counted: ") + error.what();
  }
  if (said.starts_with("t.jinja:") && said.ends_with("; it may be damaged or hostile.")) {
    return 0;
  }
  std::fprintf(stderr, "%s\n", said.c_str());
  return 1;
}

// How a process of its own ends, as wait() says it. (A death test would do, but Oniguruma's library brings a
// regcomp of its own, which gtest then calls for the C library's.)
int status_of_a_process_for(const std::string& source) {
  pid_t child = fork();
  if (child == 0) {
    std::_Exit(run_with_little(source));
  }
  int status = -1;
  waitpid(child, &status, 0);
  return status;
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
  EXPECT_EQ(status_of_a_process_for(read_text_file(GetParam())), 0);
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
