// snug in a process of its own that a test can watch and send signals to.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "support/run_snug.h"

namespace snug {

class ChildSnug {
 public:
  // `prepare` runs in the child before the program. Standard output and error go to `log`.
  ChildSnug(const std::vector<std::string>& arguments, const std::filesystem::path& log,
            const std::function<void()>& prepare = {})
      : log_(log) {
    std::vector<char*> pointers = {const_cast<char*>(SNUG_BINARY)};
    for (const std::string& argument : arguments) {
      pointers.push_back(const_cast<char*>(argument.c_str()));
    }
    pointers.push_back(nullptr);
    child_ = fork();
    if (child_ == 0) {
      int file = open(log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0666);
      dup2(file, 1);
      dup2(file, 2);
      // Tests that run in the background, or under nohup, were started with these ignored, and what is
      // ignored at the start stays so: no signal would ever end the child.
      for (int ignored : {SIGHUP, SIGINT, SIGQUIT}) {
        signal(ignored, SIG_DFL);
      }
      if (prepare) {
        prepare();
      }
      execv(SNUG_BINARY, pointers.data());
      _exit(127);
    }
  }
  ~ChildSnug() { kill_now(); }
  ChildSnug(const ChildSnug&) = delete;
  ChildSnug& operator=(const ChildSnug&) = delete;

  // To the child alone: a number below 1 would mean every process there is.
  void send(int signal_number) const {
    ASSERT_GT(child_, 0) << "the child has ended already\n" << output();
    kill(child_, signal_number);
  }
  void kill_now() {
    if (child_ > 0) {
      kill(child_, SIGKILL);
      waitpid(child_, nullptr, 0);
      child_ = -1;
    }
  }
  std::string output() const { return read_text_file(log_); }
  // Whether it would catch this signal now.
  bool catches(int signal_number) const {
    std::string status = read_text_file("/proc/" + std::to_string(child_) + "/status");
    std::string mask = status.substr(status.find("SigCgt:") + 7);
    return (std::stoull(mask, nullptr, 16) >> (signal_number - 1) & 1U) != 0;
  }

  // Until `condition` holds or the child ends.
  void wait_until(const std::function<bool()>& condition) {
    while (!condition() && !has_ended()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  }
  // The exit code, or 128 + the signal that ended it.
  int wait() {
    if (child_ > 0) {
      waitpid(child_, &status_, 0);
      child_ = -1;
    }
    return WIFEXITED(status_) ? WEXITSTATUS(status_) : 128 + WTERMSIG(status_);
  }

 private:
  bool has_ended() {
    if (child_ > 0 && waitpid(child_, &status_, WNOHANG) == child_) {
      child_ = -1;
    }
    return child_ < 0;
  }

  std::filesystem::path log_;
  pid_t child_ = -1;
  int status_ = 0;
};

}  // namespace snug
