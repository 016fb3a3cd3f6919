// Tokens without a target on the card: they change neither losses nor gradients.
#include "cuda/training/card_fixture.h"
#include "support/masked_case.h"

namespace snug {
namespace {

TEST(CudaMaskedTargets, HalvesAddUp) {
  SKIP_WITHOUT_CARD();
  for (const char* name : {"gqa_untied", "qwen2_tied", "t5_tied_head"}) {
    SCOPED_TRACE(name);
    CardFixture fixture(masked_recipe(name));
    expect_halves_add_up(fixture, 2e-5);
  }
}

TEST(CudaMaskedTargets, AMicroBatchMayHaveNone) {
  SKIP_WITHOUT_CARD();
  for (const char* name : {"gqa_untied", "t5_tied_head"}) {
    SCOPED_TRACE(name);
    CardFixture fixture(masked_recipe(name));
    expect_nothing_of_no_targets(fixture, 2e-5);
  }
}

}  // namespace
}  // namespace snug
