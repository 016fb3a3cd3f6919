// What people see on terminals of any width, on dumb ones, and through pipes.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include "report/layout.h"
#include "support/pseudo_terminal.h"
#include "support/run_snug.h"
#include "support/screen.h"

namespace snug {
namespace {

class Terminal : public testing::Test {
 protected:
  // The bytes that snug wrote to a terminal; it is started where the recipes are found.
  static std::string run_on_terminal(size_t columns, const std::vector<std::string>& arguments,
                                     const std::string& before = "TERM=xterm ") {
    PseudoTerminal terminal(columns);
    std::string command = "cd " + shell_quoted(SNUG_SOURCE_DIR) + " && " + before + shell_quoted(SNUG_BINARY);
    for (const std::string& argument : arguments) {
      command += " " + shell_quoted(argument);
    }
    unsetenv("COLUMNS");
    pid_t child = fork();
    if (child == 0) {
      dup2(terminal.slave(), 1);
      dup2(terminal.slave(), 2);
      execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
      _exit(127);
    }
    terminal.close_slave();
    std::string text = terminal.read_all();
    waitpid(child, nullptr, 0);
    return text;
  }
  static Screen screen_after(size_t columns, const std::vector<std::string>& arguments,
                             const std::string& before = "TERM=xterm ") {
    Screen screen(columns);
    screen.write(run_on_terminal(columns, arguments, before));
    EXPECT_TRUE(screen.understood_everything());
    return screen;
  }
  std::vector<std::string> training(int steps) const {
    std::vector<std::string> arguments = {"train", "recipes/ship_log.yml"};
    for (const std::string& set :
         {"output_dir=" + (folder_.path() / "run").string(), "data.cache_dir=" + folder_.path().string(),
          "training.max_steps=" + std::to_string(steps), std::string("training.eval_steps=3")}) {
      arguments.insert(arguments.end(), {"--set", set});
    }
    arguments.push_back("--overwrite");
    return arguments;
  }

  TemporaryFolder folder_;
};

TEST_F(Terminal, PlansAndHelpFitEveryWidth) {
  for (size_t columns : {60, 80, 120, 200}) {
    for (const std::vector<std::string>& arguments :
         {std::vector<std::string>{"plan", "recipes/ship_log.yml", "--memory", "20MB"},
          {"data", "recipes/ship_log.yml", "--set", "data.cache_dir=" + folder_.path().string()},
          {"inspect", "models/tiny-story"},
          {"plan", "recipes/ship_log.yml", "--gpu", "3090", "--what-if"},
          {"plan", "recipes/ship_log.yml", "--gpu", "3090", "--as", "transformers"},
          {"--help"},
          {"plan", "--help"},
          {"trian"}}) {
      Screen screen = screen_after(columns, arguments);
      EXPECT_EQ(screen.wrapped_rows(), 0U) << columns << "\n" << screen.text();
    }
  }
}

// What has to be typed can be pasted from a narrow screen.
TEST_F(Terminal, SettingsThatTakeSeveralLinesGoOnAsShellsHaveIt) {
  std::string text = screen_after(80, {"plan", "recipes/ship_log.yml", "--memory", "12MB"}).text();
  EXPECT_NE(text.find("--set training.per_device_eval_batch_size=auto \\\n"
                      "                --set training.optimizer_states=8bit\n"),
            std::string::npos)
      << text;
}

TEST_F(Terminal, ARunLeavesNothingOfItsLiveLine) {
  for (size_t columns : {60, 80, 120}) {
    std::string bytes = run_on_terminal(columns, training(7));
    EXPECT_NE(bytes.find("1/7"), std::string::npos) << "a line was shown";
    Screen screen(columns);
    screen.write(bytes);
    EXPECT_TRUE(screen.understood_everything());
    EXPECT_EQ(screen.wrapped_rows(), 0U) << screen.text();
    EXPECT_EQ(screen.text().find("█"), std::string::npos) << screen.text();
    EXPECT_EQ(screen.text().find("░"), std::string::npos) << screen.text();
    EXPECT_NE(screen.text().find("done: 7 of 7 steps"), std::string::npos) << screen.text();
    EXPECT_NE(screen.text().find("evaluation step 3: loss"), std::string::npos) << screen.text();
  }
}

// Wherever there is room for it; what matters most is there at every width.
TEST_F(Terminal, ALiveLineTellsMoreWhereThereIsRoom) {
  auto has = [](const std::string& bytes, const char* words) {
    return bytes.find(words) != std::string::npos;
  };
  for (size_t columns : {60, 80, 120}) {
    std::string bytes = run_on_terminal(columns, training(24));
    Screen screen(columns);
    screen.write(bytes);
    EXPECT_EQ(screen.wrapped_rows(), 0U) << screen.text();
    EXPECT_TRUE(has(bytes, "/24")) << columns;
    EXPECT_TRUE(has(bytes, "loss ")) << columns;
    EXPECT_TRUE(has(bytes, " left")) << columns;
    EXPECT_EQ(has(bytes, "mem "), columns == 120) << columns;
    if (columns > 60) {  // below that it depends on how long the other figures are
      EXPECT_TRUE(has(bytes, "▁")) << columns;
    }
  }
}

TEST_F(Terminal, DumbOnesGetPlainLinesThatFit) {
  std::string bytes = run_on_terminal(60, training(4), "TERM=dumb ");
  EXPECT_EQ(bytes.find('\x1b'), std::string::npos);
  Screen screen(60);
  screen.write(bytes);
  EXPECT_EQ(screen.wrapped_rows(), 0U) << screen.text();
  EXPECT_NE(screen.text().find("4/4  loss"), std::string::npos) << screen.text();
}

TEST_F(Terminal, WithoutColoursALineIsStillWrittenOver) {
  std::string bytes = run_on_terminal(80, training(4), "NO_COLOR=1 TERM=xterm ");
  EXPECT_EQ(bytes.find("\x1b[2m"), std::string::npos);
  EXPECT_NE(bytes.find("\r\x1b[J"), std::string::npos);
}

TEST_F(Terminal, PipesHaveNoWidthUnlessColumnsSaysOne) {
  CommandResult whole = run_snug({"plan", source_path("recipes/ship_log.yml"), "--memory", "12MB"});
  EXPECT_NE(whole.output.find("--set training.per_device_eval_batch_size=auto --set "
                              "training.optimizer_states=8bit\n"),
            std::string::npos);
  CommandResult narrow =
      run_snug({"plan", source_path("recipes/ship_log.yml"), "--memory", "12MB"}, "COLUMNS=60 ");
  size_t memory = narrow.output.find("memory on cpu");
  ASSERT_NE(memory, std::string::npos);
  for (size_t begin = memory; begin < narrow.output.size();) {
    size_t end = narrow.output.find('\n', begin);
    EXPECT_LE(display_width(narrow.output.substr(begin, end - begin)), 60U);
    begin = end + 1;
  }
}

}  // namespace
}  // namespace snug
