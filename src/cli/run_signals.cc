// The handlers.
#include "cli/run_signals.h"

#include <signal.h>

#include <array>

namespace snug {
namespace {

constexpr std::array kStopSignals = {SIGINT, SIGTERM, SIGHUP, SIGUSR1};

volatile sig_atomic_t requested = 0;
std::array<volatile sig_atomic_t, kStopSignals.size()> caught = {};

// The next one ends the program, whichever it is.
extern "C" void on_stop_signal(int) {
  requested = 1;
  for (size_t i = 0; i < kStopSignals.size(); ++i) {
    if (caught[i] != 0) {
      signal(kStopSignals[i], SIG_DFL);
    }
  }
}

bool is_ignored(int signal_number) {
  struct sigaction now {};
  return sigaction(signal_number, nullptr, &now) == 0 && now.sa_handler == SIG_IGN;
}

}  // namespace

void outlive_write_signals() {
  signal(SIGPIPE, SIG_IGN);
  signal(SIGXFSZ, SIG_IGN);
}

void catch_stop_signals() {
  for (size_t i = 0; i < kStopSignals.size(); ++i) {
    if (is_ignored(kStopSignals[i])) {
      continue;
    }
    caught[i] = 1;
    struct sigaction action {};
    action.sa_handler = on_stop_signal;
    sigemptyset(&action.sa_mask);
    action.sa_flags = SA_RESTART;
    sigaction(kStopSignals[i], &action, nullptr);
  }
}

bool stop_requested() {
  return requested != 0;
}

}  // namespace snug
