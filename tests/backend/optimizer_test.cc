// Gradient norm and AdamW against torch's published formulas in double.
#include <cmath>
#include <limits>

#include "base/threads.h"
#include "support/run_ops.h"
#include "support/values.h"

namespace snug {
namespace {

constexpr double kBeta1 = 0.875;  // exact in fp32, so that the reference in double means the same
constexpr double kBeta2 = 0.9375;
constexpr double kAdamEpsilon = 1e-8;
const std::vector<int64_t> kSizes = {1, 40003, 257};
const std::vector<float> kWeightDecay = {0.0F, 0.125F, 0.5F};

std::string numbered(const char* stem, size_t i) {
  return stem + std::to_string(i);
}

Program update_program(float max_norm, std::optional<DType> copies) {
  Builder builder("update");
  std::vector<BufferId> gradients;
  std::vector<BufferId> outputs;
  for (size_t i = 0; i < kSizes.size(); ++i) {
    gradients.push_back(
        builder.persistent(numbered("gradient", i), DType::f32, {fixed(kSizes[i])}, Role::gradients));
  }
  for (const char* stem : {"parameter", "first", "second", "copy"}) {
    bool is_copy = std::string_view(stem) == "copy";
    for (size_t i = 0; i < kSizes.size() && (!is_copy || copies); ++i) {
      outputs.push_back(builder.persistent(numbered(stem, i), is_copy ? *copies : DType::f32,
                                           {fixed(kSizes[i])}, Role::optimizer_states));
    }
  }
  BufferId norm = builder.temporary("norm", DType::f32, {fixed(1)});
  BufferId scalars = builder.input("scalars", DType::f32, {fixed(4)});
  builder.append(OpKind::gradient_norm, "norm", gradients, {norm});
  std::vector<BufferId> inputs = gradients;
  inputs.push_back(scalars);
  inputs.push_back(norm);
  builder.append(OpKind::adamw, "update", inputs, outputs,
                 AdamwAttributes{.beta1 = kBeta1,
                                 .beta2 = kBeta2,
                                 .epsilon = static_cast<float>(kAdamEpsilon),
                                 .max_norm = max_norm,
                                 .weight_decay = kWeightDecay,
                                 .beside = copies ? Beside::compute_copy : Beside::nothing});
  return builder.finish();
}

// torch.optim.AdamW's documented algorithm, after torch.nn.utils.clip_grad_norm_.
struct Reference {
  std::vector<std::vector<double>> parameter, first, second;

  void step(std::vector<std::vector<double>> gradients, int t, double learning_rate, double max_norm) {
    double squares = 0;
    for (const auto& gradient : gradients) {
      for (double g : gradient) {
        squares += g * g;
      }
    }
    double clip = max_norm > 0 ? std::min(1.0, max_norm / (std::sqrt(squares) + 1e-6)) : 1.0;
    for (size_t i = 0; i < parameter.size(); ++i) {
      for (size_t j = 0; j < parameter[i].size(); ++j) {
        double g = gradients[i][j] * clip;
        double& p = parameter[i][j];
        p -= learning_rate * static_cast<double>(kWeightDecay[i]) * p;
        first[i][j] = kBeta1 * first[i][j] + (1 - kBeta1) * g;
        second[i][j] = kBeta2 * second[i][j] + (1 - kBeta2) * g * g;
        double m_hat = first[i][j] / (1 - std::pow(kBeta1, t));
        double v_hat = second[i][j] / (1 - std::pow(kBeta2, t));
        p -= learning_rate * m_hat / (std::sqrt(v_hat) + kAdamEpsilon);
      }
    }
  }
};

void run_steps(float max_norm, std::optional<DType> copies) {
  OpRunner runner(update_program(max_norm, copies));
  Reference reference;
  for (size_t i = 0; i < kSizes.size(); ++i) {
    std::vector<float> start = random_values(kSizes[i], 100 + i);
    std::vector<float> zeros(static_cast<size_t>(kSizes[i]), 0.0F);
    runner.set(numbered("parameter", i), start);
    runner.set(numbered("first", i), zeros);
    runner.set(numbered("second", i), zeros);
    reference.parameter.emplace_back(start.begin(), start.end());
    reference.first.emplace_back(zeros.begin(), zeros.end());
    reference.second.emplace_back(zeros.begin(), zeros.end());
  }
  for (int t = 1; t <= 5; ++t) {
    double learning_rate = 0.01 / t;
    std::vector<std::vector<double>> gradients;
    double squares = 0;
    for (size_t i = 0; i < kSizes.size(); ++i) {
      std::vector<float> gradient = random_values(kSizes[i], 1000 * static_cast<uint64_t>(t) + i, 0.1F);
      runner.set(numbered("gradient", i), gradient);
      gradients.emplace_back(gradient.begin(), gradient.end());
      for (double g : gradients.back()) {
        squares += g * g;
      }
    }
    runner.set("scalars", {static_cast<float>(learning_rate), static_cast<float>(1 - std::pow(kBeta1, t)),
                           static_cast<float>(1 - std::pow(kBeta2, t)), 1.0F});
    runner.run();
    reference.step(gradients, t, learning_rate, static_cast<double>(max_norm));
    EXPECT_NEAR(runner.get("norm")[0], std::sqrt(squares), 1e-6 * std::sqrt(squares));
    for (size_t i = 0; i < kSizes.size(); ++i) {
      std::vector<float> parameter = runner.get(numbered("parameter", i));
      expect_close(parameter, reference.parameter[i], 1e-6);
      expect_close(runner.get(numbered("first", i)), reference.first[i], 1e-6, 0.01);
      expect_close(runner.get(numbered("second", i)), reference.second[i], 1e-6, 0.001);
      if (copies) {
        EXPECT_EQ(runner.get(numbered("copy", i)), rounded(parameter, *copies));
      }
    }
  }
}

TEST(Adamw, FollowsTorch) {
  run_steps(0, std::nullopt);
}
TEST(Adamw, ClipsLikeTorch) {
  run_steps(1.0F, std::nullopt);  // the norm is about 20: clipped
  run_steps(1e6F, std::nullopt);  // never reached: unchanged
}
TEST(Adamw, WritesComputeCopies) {
  run_steps(1.0F, DType::bf16);
  run_steps(0, DType::f32);
}

TEST(Adamw, TakesTheLossScaleOut) {
  auto parameters_with = [](float scale) {
    OpRunner runner(update_program(1.0F, std::nullopt));
    for (size_t i = 0; i < kSizes.size(); ++i) {
      std::vector<float> gradient = random_values(kSizes[i], i);
      for (float& value : gradient) {
        value *= scale;
      }
      runner.set(numbered("gradient", i), gradient);
      for (const char* stem : {"parameter", "first", "second"}) {
        runner.set(numbered(stem, i), std::vector<float>(static_cast<size_t>(kSizes[i]), 0.5F));
      }
    }
    runner.set("scalars", {0.1F, 0.1F, 0.1F, 1.0F / scale});
    runner.run();
    return runner.get("parameter1");
  };
  // By a power of two, nothing is rounded differently but the 1e-6 in the clipping.
  expect_close(parameters_with(1024.0F), parameters_with(1.0F), 1e-6);
}

TEST(Adamw, SkipsTheUpdateWhenTheGradientsAreNotFinite) {
  for (float poison : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    OpRunner runner(update_program(1.0F, DType::bf16));
    for (size_t i = 0; i < kSizes.size(); ++i) {
      for (const char* stem : {"parameter", "first", "second", "copy", "gradient"}) {
        runner.set(numbered(stem, i), random_values(kSizes[i], i));
      }
    }
    std::vector<float> gradient = random_values(kSizes[1], 4);
    gradient[39999] = poison;
    runner.set("gradient1", gradient);
    runner.set("scalars", {0.1F, 0.1F, 0.1F, 1.0F});
    runner.run();
    for (size_t i = 0; i < kSizes.size(); ++i) {
      std::vector<float> before = random_values(kSizes[i], i);
      for (const char* stem : {"parameter", "first", "second"}) {
        EXPECT_EQ(runner.get(numbered(stem, i)), before) << stem;
      }
      EXPECT_EQ(runner.get(numbered("copy", i)), rounded(before, DType::bf16));
    }
  }
}

TEST(GradientNorm, IsTheSameOnAnyNumberOfThreads) {
  auto norm_with = [](int threads) {
    set_thread_count(threads);
    OpRunner runner(update_program(0, std::nullopt));
    for (size_t i = 0; i < kSizes.size(); ++i) {
      runner.set(numbered("gradient", i), random_values(kSizes[i], i));
    }
    runner.set("scalars", {0.1F, 0.1F, 0.1F, 1.0F});
    runner.run();
    set_thread_count(0);
    return runner.get("norm")[0];
  };
  float alone = norm_with(1);
  EXPECT_EQ(alone, norm_with(2));
  EXPECT_EQ(alone, norm_with(7));
}

TEST(GradientNorm, SurvivesValuesWhoseSquaresOverflow) {
  Builder builder("norm");
  BufferId gradient = builder.input("gradient", DType::f32, {fixed(4)});
  BufferId norm = builder.temporary("norm", DType::f32, {fixed(1)});
  builder.append(OpKind::gradient_norm, "norm", {gradient}, {norm});
  OpRunner runner(builder.finish());
  runner.set("gradient", {3e30F, 4e30F, 0, 0});
  runner.run();
  EXPECT_FLOAT_EQ(runner.get("norm")[0], 5e30F);
}

}  // namespace
}  // namespace snug
