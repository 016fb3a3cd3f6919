// What small optimizer states cost in quality, on the embedded model.
#include <gtest/gtest.h>

#include <cmath>

#include "support/run_snug.h"

namespace snug {
namespace {

class SmallStates : public testing::Test {
 protected:
  double final_eval_loss(const std::vector<std::string>& settings) const {
    std::string run = (folder_.path() / "run").string();
    std::vector<std::string> all = {"train", source_path("recipes/ship_log.yml"), "--json", "--overwrite"};
    std::vector<std::string> common = {"output_dir=" + run,
                                       "data.cache_dir=" + (folder_.path() / "cache").string(), "lora=null",
                                       "training.learning_rate=5e-4", "training.save_strategy=no"};
    common.insert(common.end(), settings.begin(), settings.end());
    for (const std::string& set : common) {
      all.insert(all.end(), {"--set", set});
    }
    CommandResult result = run_snug(all);
    EXPECT_EQ(result.exit_code, 0) << result.errors;
    return read_json(run + "/summary.json")["evaluations"].back()["eval_loss"].get<double>();
  }

  TemporaryFolder folder_;
};

// All weights trained, as the embedded model's adapters are too small for codes.
TEST_F(SmallStates, EightBitsEvaluateLikeFp32Slow) {
  for (const char* dtype : {"bf16", "fp32"}) {
    std::string weights = std::string("model.dtype=") + dtype;
    double exact = final_eval_loss({weights});
    double coded = final_eval_loss({weights, "training.optimizer_states=8bit"});
    std::printf("%s weights: evaluation loss %.4f with fp32 states, %.4f with 8-bit states\n", dtype, exact,
                coded);
    EXPECT_NEAR(coded, exact, 0.01 * exact) << dtype;
  }
}

}  // namespace
}  // namespace snug
