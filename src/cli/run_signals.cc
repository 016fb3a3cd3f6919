// The handlers.
#include "cli/run_signals.h"

#include <signal.h>

#include <initializer_list>

namespace snug {
namespace {

volatile sig_atomic_t requested = 0;

extern "C" void on_stop_signal(int) {
  requested = 1;
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
  for (int signal_number : {SIGINT, SIGTERM, SIGHUP, SIGUSR1}) {
    if (is_ignored(signal_number)) {
      continue;
    }
    struct sigaction action {};
    action.sa_handler = on_stop_signal;
    sigemptyset(&action.sa_mask);
    action.sa_flags = SA_RESTART | static_cast<int>(SA_RESETHAND);
    sigaction(signal_number, &action, nullptr);
  }
}

bool stop_requested() {
  return requested != 0;
}

}  // namespace snug
