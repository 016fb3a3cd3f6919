// Runs the snug program as a user would, and keeps what it printed.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "io/atomic_file.h"
#include "io/json.h"
#include "support/temporary_folder.h"
#include "test_paths.h"

namespace snug {

struct CommandResult {
  int exit_code = -1;
  std::string output;  // standard output
  std::string errors;  // standard error
};

inline std::string shell_quoted(const std::string& argument) {
  std::string text = "'";
  for (char c : argument) {
    text += c == '\'' ? "'\\''" : std::string(1, c);
  }
  return text + "'";
}

// `before` stands before the program in the shell's line, `input` is the file it reads.
inline CommandResult run_snug(const std::vector<std::string>& arguments, const std::string& before = "",
                              const std::string& input = "/dev/null") {
  unsetenv("COLUMNS");  // of the shell that the tests were started from
  TemporaryFolder folder;
  std::string errors_file = (folder.path() / "errors").string();
  std::string command = before + shell_quoted(SNUG_BINARY);
  for (const std::string& argument : arguments) {
    command += " " + shell_quoted(argument);
  }
  command += " 2>" + shell_quoted(errors_file) + " <" + shell_quoted(input);
  CommandResult result;
  std::FILE* pipe = popen(command.c_str(), "r");
  std::array<char, 4096> buffer{};
  for (size_t count = fread(buffer.data(), 1, buffer.size(), pipe); count > 0;
       count = fread(buffer.data(), 1, buffer.size(), pipe)) {
    result.output.append(buffer.data(), count);
  }
  int status = pclose(pipe);
  result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  result.errors = read_text_file(errors_file);
  return result;
}

inline Json json_output(const CommandResult& result) {
  EXPECT_EQ(result.errors, "");
  return parse_json(result.output, "output");
}

inline std::string source_path(const std::string& relative) {
  return (std::filesystem::path(SNUG_SOURCE_DIR) / relative).string();
}

}  // namespace snug
