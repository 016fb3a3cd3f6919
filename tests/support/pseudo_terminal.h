// A pseudo-terminal of a given width, and what was written to it.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <string>

namespace snug {

class PseudoTerminal {
 public:
  explicit PseudoTerminal(size_t columns) : master_(posix_openpt(O_RDWR | O_NOCTTY)) {
    EXPECT_EQ(grantpt(master_), 0);
    EXPECT_EQ(unlockpt(master_), 0);
    slave_ = open(ptsname(master_), O_RDWR | O_NOCTTY);
    resize(columns);
  }
  ~PseudoTerminal() {
    close_slave();
    close(master_);
  }
  PseudoTerminal(const PseudoTerminal&) = delete;
  PseudoTerminal& operator=(const PseudoTerminal&) = delete;

  int slave() const { return slave_; }
  void resize(size_t columns) const {
    winsize size{};
    size.ws_col = static_cast<unsigned short>(columns);
    size.ws_row = 50;
    EXPECT_EQ(ioctl(master_, TIOCSWINSZ, &size), 0);
  }
  // When all that write to it have it open themselves: reading ends with the last of them.
  void close_slave() {
    if (slave_ >= 0) {
      close(slave_);
      slave_ = -1;
    }
  }
  // What was written so far.
  std::string read_waiting() const {
    fcntl(master_, F_SETFL, O_NONBLOCK);
    return read_all();
  }
  // Until the last writer is gone.
  std::string read_all() const {
    std::string text;
    std::array<char, 4096> buffer{};
    for (ssize_t count = read(master_, buffer.data(), buffer.size()); count > 0;
         count = read(master_, buffer.data(), buffer.size())) {
      text.append(buffer.data(), static_cast<size_t>(count));
    }
    return text;
  }

 private:
  int master_;
  int slave_ = -1;
};

}  // namespace snug
