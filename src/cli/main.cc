// snug: the command line. The only place that catches errors.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <exception>

#include "base/error.h"
#include "base/threads.h"
#include "cli/commands.h"
#include "report/terminal.h"

namespace {

constexpr const char* kDescription =
    "snug: fine-tunes language models in the memory you have.\n"
    "Every byte is planned before anything is loaded.";

constexpr const char* kFooter =
    "\nExamples:\n"
    "  snug inspect models/tiny-story --rank 16     what a model is, to the parameter\n"
    "  snug plan recipes/ship_log.yml               every byte, before anything is loaded\n"
    "  snug plan recipes/ship_log.yml --memory 24GB does it fit? (exit code 3: no)\n"
    "  snug train recipes/ship_log.yml --set training.learning_rate=1e-4\n"
    "  snug generate models/tiny-story --adapter runs/ship_log --prompt \"Log: fox, river, lantern\"\n"
    "\nExit codes: 0 fine, 1 the machine failed (disk full, no permission), 2 bad input, 3 does not fit.";

bool processor_is_supported() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0;
#else
  return true;
#endif
}

int report_error(const std::string& message, int code) {
  fmt::print(stderr, "{} {}\n", snug::Style::for_stderr().bad("error:"), message);
  return code;
}

int run(int argc, char** argv) {
  CLI::App app(kDescription, "snug");
  app.footer(kFooter);
  app.set_version_flag("--version", SNUG_VERSION);
  app.require_subcommand(1);
  app.fallthrough();
  int threads = 0;
  app.add_option("--threads", threads, "Threads to compute with; 0: one a core")->check(CLI::Range(0, 1024));

  snug::Action action;
  snug::add_inspect_command(app, action);
  snug::add_plan_command(app, action);
  snug::add_data_command(app, action);
  snug::add_train_command(app, action);
  snug::add_generate_command(app, action);
  snug::add_synth_command(app, action);
  snug::add_tokenize_command(app, action);
  snug::add_docs_command(app, action);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    bool asked_for_help = error.get_exit_code() == 0;
    int code = app.exit(error);
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
    return run(argc, argv);
  } catch (const snug::Error& error) {
    return report_error(error.what(), error.kind() == snug::ErrorKind::bad_input ? snug::kExitBadInput
                                                                                 : snug::kExitEnvironment);
  } catch (const std::bad_alloc&) {
    return report_error("the machine has no memory left for the program itself", snug::kExitEnvironment);
  } catch (const std::exception& error) {
    return report_error(error.what(), snug::kExitEnvironment);
  }
}
