// Errors that a user or the environment causes. A programmer's mistake is SNUG_CHECK (check.h) instead.
#pragma once

#include <stdexcept>
#include <string>

namespace snug {

enum class ErrorKind {
  bad_input,    // a file, key or argument that the user can correct: exit code 2
  environment,  // the machine did not do its part (disk full, no permission): exit code 1
};

// The message names the file or key, the value found and the remedy. Only main() catches it.
class Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, const std::string& message) : std::runtime_error(message), kind_(kind) {}
  ErrorKind kind() const { return kind_; }

 private:
  ErrorKind kind_;
};

// Usage: throw bad_input(fmt::format("{}: ...", path));
inline Error bad_input(const std::string& message) {
  return Error(ErrorKind::bad_input, message);
}
inline Error environment_error(const std::string& message) {
  return Error(ErrorKind::environment, message);
}

}  // namespace snug
