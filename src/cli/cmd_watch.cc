// snug watch [RUN...]
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "cli/commands.h"
#include "cli/run_signals.h"
#include "io/atomic_file.h"
#include "io/printable.h"
#include "report/console.h"
#include "report/layout.h"
#include "report/pages.h"
#include "watch/run_feed.h"
#include "watch/web_server.h"

namespace snug {
namespace {

struct WatchOptions {
  std::vector<std::string> runs;
  std::string page;
  std::string address = "127.0.0.1";
  std::optional<int> port;
  bool with_token = false;
};

std::string machine_name() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "this-machine";
}

std::string user_name() {
  const char* user = std::getenv("USER");
  return user != nullptr && *user != '\0' ? user : "user";
}

std::string beginning(const WatchOptions& options, const std::string& token, int port) {
  bool is_everywhere = options.address == "0.0.0.0" || options.address == "::";
  std::string host = is_everywhere ? machine_name() : options.address;
  host = host.find(':') != std::string::npos ? "[" + host + "]" : host;
  std::string path = token.empty() ? "/" : "/?token=" + token;
  std::string text = fmt::format("  the page        http://{}:{}{}\n", host, port, path);
  if (is_loopback(options.address)) {
    text += fmt::format(
        "  from elsewhere  ssh -N -L {0}:{1}:{0} {2}@{3}\n"
        "                  and there http://localhost:{0}{4}\n",
        port, host, printable(user_name()), printable(machine_name()), path);
  }
  return text + "  Ctrl-C ends this; runs go on without it\n";
}

void write_page(RunFeed& feed, const std::string& path) {
  Json everything = feed.everything();
  if (everything["runs"].empty()) {
    throw bad_input(fmt::format("{} is not written: there is no run to show", in_quotes(path)));
  }
  size_t runs = everything["runs"].size();
  write_file_atomically(path, page_with(kPage_watch, everything));
  say(fmt::format("  {}: {} run{}, in one file that needs nothing else\n", printable(path, 400), runs,
                  runs == 1 ? "" : "s"));
}

int watch_command(const WatchOptions& options) {
  std::vector<std::filesystem::path> folders = run_folders(options.runs);
  if (folders.empty()) {
    throw bad_input(no_runs_text(options.runs));
  }
  RunFeed feed(folders);
  if (!options.page.empty()) {
    write_page(feed, options.page);
    return kExitOk;
  }
  feed.runs();  // a folder that is not there is said now
  std::string token = options.with_token || !is_loopback(options.address) ? new_token() : "";
  catch_stop_signals();
  outlive_write_signals();
  WebServer server(feed, {.address = options.address, .port = options.port, .token = token});
  say(fit_lines(beginning(options, token, server.port()), Style::for_stdout()));
  server.serve([] { return stop_requested(); });
  return kExitOk;
}

}  // namespace

void add_watch_command(CLI::App& app, Action& action) {
  auto options = std::make_shared<WatchOptions>();
  CLI::App* command =
      app.add_subcommand("watch", "A web page of runs as they go: curves, samples, memory, side by side");
  command->add_option("run", options->runs, "Runs, or folders with runs in them; by default runs/");
  command->add_option("--export", options->page, "Write the page as it is now to this file, for no server");
  command->add_option("--bind", options->address,
                      "The address to serve at; one that others can reach asks for a token");
  command
      ->add_option("--port", options->port, "The port; 0: any that is free. By default 8788 or one after it")
      ->check(CLI::Range(0, 65535));
  command->add_flag("--token", options->with_token,
                    "Ask for a token at a loopback address too: others may use this machine");
  command->footer(
      "\nThe page follows runs that are running and finds new ones. It is served to this\n"
      "machine alone, and asks nobody else for anything. With --bind others reach it, by\n"
      "an address with a token; the traffic is not encrypted, so prefer the ssh line.\n"
      "\nExamples:\n"
      "  snug watch\n"
      "  snug watch runs/monday runs/tuesday\n"
      "  snug watch runs/monday --export monday.html\n"
      "  snug watch --bind 0.0.0.0 --port 9000");
  command->callback([options, &action] { action = [options] { return watch_command(*options); }; });
}

}  // namespace snug
