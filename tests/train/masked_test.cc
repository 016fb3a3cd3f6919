// Tokens without a target on the CPU: they change neither losses nor gradients.
#include "support/masked_case.h"

namespace snug {
namespace {

TEST(MaskedTargets, HalvesAddUp) {
  for (const char* name : {"gqa_untied", "qwen2_tied", "t5_tied_head"}) {
    SCOPED_TRACE(name);
    TrainFixture fixture(masked_recipe(name));
    expect_halves_add_up(fixture, 1e-5);
  }
}

TEST(MaskedTargets, AMicroBatchMayHaveNone) {
  for (const char* name : {"gqa_untied", "t5_tied_head"}) {
    SCOPED_TRACE(name);
    TrainFixture fixture(masked_recipe(name));
    expect_nothing_of_no_targets(fixture, 0);
  }
}

}  // namespace
}  // namespace snug
