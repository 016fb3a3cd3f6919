// Each trouble is found where it is, named, and told once; a healthy run has none.
#include "train/run_watch.h"

#include <gtest/gtest.h>

#include <limits>

namespace snug {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinite = std::numeric_limits<double>::infinity();

class Listener : public RunListener {
 public:
  void on_trouble(const Trouble& trouble) override {
    names.emplace_back(trouble.name);
    texts.push_back(trouble.text());
  }
  std::vector<std::string> names;
  std::vector<std::string> texts;
};

class Watch : public testing::Test {
 protected:
  explicit Watch(RunWatch::Run run = {.vocabulary = 32000, .learning_rate = 2e-4}) : run_(run) {
    events_.listen(listener_);
    restart();
  }
  void restart() { watch_.emplace(run_, events_); }
  void step(double loss, double norm = 1) {
    StepMetrics metrics;
    metrics.step = ++steps_;
    metrics.loss = loss;
    metrics.gradient_norm = norm;
    metrics.learning_rate = 1e-3;
    skipped_ += metrics.was_skipped() ? 1 : 0;
    metrics.skipped_updates = skipped_;
    watch_->on_step(metrics);
  }
  void evaluation(double loss) { watch_->on_evaluation({.step = ++steps_, .loss = loss}); }
  std::string reason() const {
    return watch_->reason_to_stop() ? std::string(watch_->reason_to_stop()->name) : "";
  }
  void expect_told(const std::string& name, const std::string& words) const {
    ASSERT_EQ(listener_.names, std::vector<std::string>{name});
    EXPECT_NE(listener_.texts[0].find(words), std::string::npos) << listener_.texts[0];
  }

  RunWatch::Run run_;
  RunEvents events_;
  Listener listener_;
  std::optional<RunWatch> watch_;
  int64_t steps_ = 0;
  int64_t skipped_ = 0;
};

class WarningWatch : public Watch {
 protected:
  WarningWatch() : Watch({.vocabulary = 32000, .on_trouble = OnTrouble::warn, .learning_rate = 2e-4}) {}
};

class Fp16Watch : public Watch {
 protected:
  Fp16Watch() : Watch({.vocabulary = 32000, .scales_loss = true, .learning_rate = 2e-4}) {}
};

TEST_F(Watch, AHealthyRunHasNoTrouble) {
  for (int i = 1; i <= 300; ++i) {
    step(10.0 / i + 1 + (i % 7 == 0 ? 2.0 : 0.0));
    if (i % 50 == 0) {
      evaluation(2.0 - i * 1e-3);
    }
  }
  watch_->see_adapters({}, 7);
  watch_->see_data_wait(30);
  watch_->see_disk_wait(30);
  for (int i = 0; i < 10; ++i) {
    watch_->on_card({.celsius = 60, .watts = 200});
  }
  EXPECT_TRUE(listener_.names.empty());
  EXPECT_EQ(reason(), "");
  EXPECT_FALSE(watch_->is_suspicious());
}

TEST_F(Watch, ALossThatIsNoNumberEndsTheRun) {
  step(2);
  step(kNan, kNan);
  EXPECT_EQ(reason(), "loss is not finite");
  EXPECT_NE(watch_->reason_to_stop()->text().find("training.learning_rate (now 0.0002)"), std::string::npos);
  EXPECT_FALSE(watch_->loss_is_finite());
}

TEST_F(WarningWatch, ALossThatIsNoNumberIsToldOnceAndGoneOnWith) {
  for (int i = 0; i < 5; ++i) {
    step(kInfinite, kNan);
  }
  expect_told("loss is not finite", "the loss of step 1 is infinite");
  EXPECT_EQ(reason(), "");
}

TEST_F(Watch, TenSkippedUpdatesInARowEndTheRun) {
  for (int i = 1; i <= 18; ++i) {
    step(2, i == 9 ? 1.0 : kNan);
    EXPECT_EQ(reason(), "") << i;
  }
  expect_told("gradients are not finite", "step 1 is not finite, though its loss is 2");
  step(2, kNan);
  EXPECT_EQ(reason(), "no update is made");
  EXPECT_NE(watch_->reason_to_stop()->what.find("last 10 steps"), std::string::npos);
}

// Two of three, never ten in a row.
TEST_F(Watch, UpdatesThatAreSkippedAgainAndAgainAreTold) {
  for (int i = 0; i < 150; ++i) {
    step(2, i % 3 == 0 ? 1.0 : kNan);
  }
  ASSERT_EQ(listener_.names.size(), 2U);
  EXPECT_EQ(listener_.names[1], "updates are skipped again and again");
  EXPECT_EQ(reason(), "");
}

// It starts at 2^16: 16 halvings lead to 1.
TEST_F(Fp16Watch, AScaleThatIsFoundIsNoTrouble) {
  for (int i = 0; i < 16; ++i) {
    step(2, kInfinite);
  }
  for (int i = 0; i < 5000; ++i) {
    step(2, i % 2001 == 2000 ? kInfinite : 1.0);
  }
  EXPECT_TRUE(listener_.names.empty());
  EXPECT_EQ(reason(), "");
}

TEST_F(Fp16Watch, AScaleThatCollapsesIsToldAndEndsTheRun) {
  for (int i = 0; i < 17; ++i) {
    step(2, kInfinite);
  }
  expect_told("the loss scale has collapsed", "model.dtype: bf16");
  for (int i = 0; i < 8; ++i) {
    step(2, kInfinite);
    EXPECT_EQ(reason(), "");
  }
  step(2, kInfinite);
  EXPECT_EQ(reason(), "the loss scale has collapsed");
}

// It has grown for 16,000 steps; the run is taken up again, and its memory with it.
TEST_F(Fp16Watch, TheScaleIsRemembered) {
  for (int i = 0; i < 16'000; ++i) {
    step(2);
  }
  RunProgress progress;
  progress.watch = watch_->memory();
  restart();
  watch_->recall(progress_from_json(progress_to_json(progress), "progress.json").watch);
  for (int i = 0; i < 24; ++i) {
    step(2, kInfinite);
  }
  EXPECT_EQ(listener_.names, std::vector<std::string>{});
  step(2, kInfinite);
  EXPECT_EQ(listener_.names, std::vector<std::string>{"the loss scale has collapsed"});
}

TEST_F(Watch, ALossThatStaysAtNothingEndsTheRun) {
  for (int i = 0; i < 19; ++i) {
    step(0, 0);
    EXPECT_EQ(reason(), "");
    EXPECT_TRUE(watch_->is_suspicious());
  }
  step(0, 0);
  EXPECT_EQ(reason(), "the loss stays at 0");
}

TEST_F(Watch, AFirstLossThatIsAbsurdIsTold) {
  step(190621);
  step(190621);
  expect_told("the loss explodes", "190621; guessing among all tokens of the vocabulary would give 10.37");
  EXPECT_NE(listener_.texts[0].find("do not belong together"), std::string::npos);
}

// Slowly, and never above the loss of guessing.
TEST_F(Watch, ALossThatExplodesIsToldAndEndsTheRunIfItStays) {
  for (int i = 0; i < 20; ++i) {
    step(1);
  }
  int high = 0;
  for (; high < 200 && reason().empty(); ++high) {
    step(7);
  }
  expect_told("the loss explodes", "has risen from 1 to");
  EXPECT_EQ(reason(), "the loss has exploded");
  // 1 + 6 (1 - 0.9^n) > 3 from n = 4 on; 50 steps then.
  EXPECT_EQ(high, 53);
}

TEST_F(Watch, ALossThatComesBackEndsNothing) {
  for (int round = 0; round < 5; ++round) {
    for (int i = 0; i < 40; ++i) {
      step(1);
    }
    for (int i = 0; i < 20; ++i) {
      step(7);
    }
    EXPECT_TRUE(watch_->is_suspicious());
  }
  expect_told("the loss explodes", "has risen");
  EXPECT_EQ(reason(), "");
}

TEST_F(Watch, EvaluationsThatOnlyRiseAreTold) {
  for (double loss : {2.0, 1.5, 1.6, 1.55, 1.6, 1.7}) {
    evaluation(loss);
  }
  EXPECT_TRUE(listener_.names.empty());
  evaluation(1.8);
  expect_told("evaluations only rise", "training.early_stopping_patience");
  EXPECT_EQ(reason(), "");
}

TEST_F(Watch, AdaptersThatLearnNothingAreNamed) {
  for (int i = 0; i < 20; ++i) {
    EXPECT_FALSE(watch_->is_time_for_adapters());
    step(2, i == 3 ? kNan : 1.0);
  }
  EXPECT_FALSE(watch_->is_time_for_adapters());  // one update was skipped
  step(2);
  EXPECT_TRUE(watch_->is_time_for_adapters());
  watch_->see_adapters({"model.layers.1.self_attn.q_proj"}, 14);
  EXPECT_FALSE(watch_->is_time_for_adapters());
  EXPECT_EQ(listener_.names.back(), "adapters learn nothing");
  EXPECT_NE(listener_.texts.back().find("1 of 14 adapters"), std::string::npos);
  EXPECT_NE(listener_.texts.back().find("model.layers.1.self_attn.q_proj"), std::string::npos);
  EXPECT_EQ(reason(), "");
  watch_->see_adapters({"a", "b"}, 2);  // every one
  EXPECT_EQ(reason(), "adapters learn nothing");
}

TEST_F(Watch, ADiskThatStallsIsTold) {
  watch_->see_disk_wait(75);
  expect_told("the disk stalls", "nothing of a checkpoint was written for 75 s");
  watch_->see_data_wait(90);
  EXPECT_EQ(listener_.names.back(), "the data stalls");
  EXPECT_EQ(reason(), "");
}

TEST_F(Watch, ACardThatIsHeldBackIsTold) {
  CardHealth hot{.celsius = 88, .watts = 300, .is_slowed_by_heat = true};
  watch_->on_card(hot);
  watch_->on_card(hot);
  watch_->on_card({.celsius = 80, .watts = 200});
  watch_->on_card(hot);
  watch_->on_card(hot);
  EXPECT_TRUE(listener_.names.empty());
  watch_->on_card(hot);
  expect_told("the card is slowed down", "by its heat (88 °C)");
}

}  // namespace
}  // namespace snug
