// Memory over a step, in characters.
#include "report/memory_picture.h"

#include <gtest/gtest.h>

#include <sstream>

#include "backend/cpu/cpu_backend.h"
#include "base/bytes.h"
#include "plan/training.h"
#include "report/layout.h"
#include "support/small_llama.h"

namespace snug {
namespace {

Plan small_plan() {
  CpuBackend backend;
  return plan_training(small_recipe(), small_llama(), backend);
}

TEST(MemoryPicture, IsNoWiderThanTheTerminalAndReachesThePeak) {
  Plan plan = small_plan();
  for (size_t columns : {60, 80, 120}) {
    std::string picture = memory_picture(plan, Style(false, columns));
    std::istringstream lines(picture);
    int count = 0;
    for (std::string line; std::getline(lines, line); ++count) {
      EXPECT_LE(display_width(line), columns) << line;
    }
    EXPECT_GE(count, 10);
    // What is live at the peak, not where the placement ends.
    int64_t top = plan.largest_phase().device().lower_bound_bytes + plan.context_bytes;
    EXPECT_NE(picture.find(format_bytes(top / 8 * 8)), std::string::npos) << picture;
    EXPECT_NE(picture.find(plan.largest_phase().peak_op), std::string::npos) << picture;
  }
}

TEST(MemoryPicture, IsLeftOutWhereThereIsNoRoom) {
  EXPECT_EQ(memory_picture(small_plan(), Style(false, 30)), "");
}

}  // namespace
}  // namespace snug
