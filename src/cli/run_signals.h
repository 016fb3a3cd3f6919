// Signals and a training run: those that ask it to end let it save first, and those that only say that nobody
// reads its output or that a file is too large do not end it at all.
#pragma once

namespace snug {

// A closed pipe and a file beyond the limit become errors of the write, which are dealt with there.
void outlive_write_signals();

// From now on SIGINT, SIGTERM, SIGHUP and SIGUSR1 set stop_requested(); each ends the process when it comes a
// second time. One that was ignored at the start (nohup) stays ignored.
void catch_stop_signals();
bool stop_requested();

}  // namespace snug
