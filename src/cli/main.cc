// snug: the command line. The only place that catches errors.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <filesystem>
#include <sstream>
#include <vector>

#include "base/error.h"
#include "base/names.h"
#include "base/threads.h"
#include "cli/commands.h"
#include "cli/version.h"
#include "io/printable.h"
#include "report/console.h"
#include "report/layout.h"
#include "report/terminal.h"

namespace {

constexpr const char* kDescription =
    "snug: fine-tunes language models in the memory you have.\n"
    "Every byte is planned before anything is loaded.";

constexpr const char* kFooter =
    "\nExamples:\n"
    "  snug inspect models/tiny-story          what a model is, to the parameter\n"
    "  snug plan recipes/ship_log.yml          every byte, before anything is loaded\n"
    "  snug plan recipes/ship_log.yml --memory 24GB\n"
    "                                          does it fit? (exit code 3: no)\n"
    "  snug train recipes/ship_log.yml --set training.learning_rate=1e-4\n"
    "  snug generate models/tiny-story --adapter runs/ship_log \\\n"
    "      --prompt \"Log: fox, river, lantern\"\n"
    "\nExit codes: 0 fine, 1 the machine failed (disk full, no permission),\n"
    "2 bad input, 3 does not fit, 4 stopped by a signal, with what was learned saved.";

bool processor_is_supported() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0;
#else
  return true;
#endif
}

int report_error(const std::string& message, int code) {
  snug::Style style = snug::Style::for_stderr();
  std::string text = fmt::format("{} {}\n", style.bad("error:"), snug::printable_lines(message));
  snug::say(snug::fit_lines(text, style), stderr);
  return code;
}

// CLI11 would say that an argument was not expected, and not which commands there are.
void refuse_unknown_command(const CLI::App& app, std::string_view word) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(command->get_name());
  }
  bool is_known = std::find(names.begin(), names.end(), word) != names.end();
  if (is_known || word.starts_with('-')) {
    return;
  }
  std::string nearest = snug::nearest_name(word, names);
  throw snug::bad_input(fmt::format("unknown command {}; {}", snug::in_quotes(word),
                                    nearest.empty()
                                        ? fmt::format("the commands are: {}", fmt::join(names, ", "))
                                        : fmt::format("did you mean \"{}\"?", nearest)));
}

int run(int argc, char** argv) {
  CLI::App app(kDescription, "snug");
  app.footer(kFooter);
  app.set_version_flag("--version", snug::version_text());
  app.require_subcommand(1);
  app.fallthrough();
  app.option_defaults()->always_capture_default();
  int threads = 0;
  app.add_option("--threads", threads, "Threads to compute with; 0: one a core")
      ->envname("SNUG_THREADS")
      ->check(CLI::Range(0, snug::kMostThreads));

  snug::Action action;
  snug::add_inspect_command(app, action);
  snug::add_plan_command(app, action);
  snug::add_init_command(app, action);
  snug::add_fit_command(app, action);
  snug::add_data_command(app, action);
  snug::add_train_command(app, action);
  snug::add_generate_command(app, action);
  snug::add_synth_command(app, action);
  snug::add_tokenize_command(app, action);
  snug::add_diff_command(app, action);
  snug::add_runs_command(app, action);
  snug::add_watch_command(app, action);
  snug::add_doctor_command(app, action);
  snug::add_explain_command(app, action);
  snug::add_cache_command(app, action);
  snug::add_docs_command(app, action);
  if (argc < 2) {
    snug::say(snug::fit_lines(app.help(), snug::Style::for_stdout()));
    return snug::kExitBadInput;
  }
  refuse_unknown_command(app, argv[1]);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    bool asked_for_help = error.get_exit_code() == 0;
    std::ostringstream output;
    std::ostringstream errors;
    int code = app.exit(error, output, errors);
    snug::say(snug::fit_lines(output.str(), snug::Style::for_stdout()));
    snug::say(snug::fit_lines(errors.str(), snug::Style::for_stderr()), stderr);
    return asked_for_help ? code : snug::kExitBadInput;
  }
  snug::set_thread_count(threads);
  return action();
}

}  // namespace

int main(int argc, char** argv) {
  if (!processor_is_supported()) {
    return report_error("this build needs a processor with AVX2 and FMA (x86-64-v3)", snug::kExitEnvironment);
  }
  try {
    int code = run(argc, argv);
    // What is still on its way to a file may not get there. (What a run says is sent at once, and is not
    // worth the run.)
    if (std::fflush(stdout) != 0) {
      return report_error(fmt::format("standard output: cannot be written: {}", std::strerror(errno)),
                          snug::kExitEnvironment);
    }
    return code;
  } catch (const std::filesystem::filesystem_error& error) {
    return report_error(
        fmt::format("{}: cannot be reached: {}; let this user look there, or name another place",
                    error.path1().string(), error.code().message()),
        snug::kExitEnvironment);
  } catch (const snug::Error& error) {
    return report_error(error.what(), error.kind() == snug::ErrorKind::bad_input ? snug::kExitBadInput
                                                                                 : snug::kExitEnvironment);
  } catch (const std::bad_alloc&) {
    return report_error("the machine has no memory left for the program itself", snug::kExitEnvironment);
  } catch (const std::exception& error) {
    return report_error(error.what(), snug::kExitEnvironment);
  }
}
