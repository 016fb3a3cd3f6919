// Against transformers' EarlyStoppingCallback and Trainer's choice of the best metric, followed by hand.
#include "train/best_evaluation.h"

#include <gtest/gtest.h>

#include <vector>

namespace snug {
namespace {

struct Seen {
  std::vector<bool> best;
  std::vector<int64_t> no_better;
};

Seen see(const TrainingSection& training, const std::vector<double>& losses) {
  RunProgress progress;
  Seen seen;
  for (double loss : losses) {
    EvaluationMetrics row{.step = 1, .loss = loss, .targets = 1, .sets = {{"it", -loss, 1}}};
    seen.best.push_back(note_evaluation(row, training, progress));
    seen.no_better.push_back(progress.evaluations_no_better);
  }
  return seen;
}

// An improvement below the threshold makes a new best, and does not reset the count.
TEST(BestEvaluation, CountsAsTheCallbackDoes) {
  TrainingSection training;
  training.early_stopping_threshold = 0.1;
  Seen seen = see(training, {2.0, 1.5, 1.45, 1.42, 1.3, 1.6});
  EXPECT_EQ(seen.best, (std::vector<bool>{true, true, true, true, true, false}));
  EXPECT_EQ(seen.no_better, (std::vector<int64_t>{0, 0, 1, 2, 0, 1}));
}

TEST(BestEvaluation, FollowsTheSetAndTheDirectionThatAreAskedFor) {
  TrainingSection training;
  training.metric_for_best_model = "eval_it_loss";  // the negative of the loss here
  EXPECT_EQ(see(training, {1, 2, 1.5}).best, (std::vector<bool>{true, true, false}));
  training.greater_is_better = true;
  EXPECT_EQ(see(training, {1, 2, 0.5}).best, (std::vector<bool>{true, false, true}));
}

TEST(BestEvaluation, CanBeTheMostAccurate) {
  TrainingSection training;
  training.metric_for_best_model = "eval_token_accuracy";  // and greater_is_better is left open
  RunProgress progress;
  std::vector<bool> best;
  for (int64_t hits : {5, 7, 6, 8}) {
    EvaluationMetrics row{.step = hits, .loss = static_cast<double>(hits), .targets = 10, .hits = hits};
    best.push_back(note_evaluation(row, training, progress));
  }
  EXPECT_EQ(best, (std::vector<bool>{true, true, false, true}));
  EXPECT_EQ(progress.best->value, 0.8);
}

TEST(BestEvaluation, PatienceEnds) {
  TrainingSection training;
  RunProgress progress;
  progress.evaluations_no_better = 3;
  EXPECT_FALSE(has_lost_patience(training, progress));
  training.early_stopping_patience = 4;
  EXPECT_FALSE(has_lost_patience(training, progress));
  training.early_stopping_patience = 3;
  EXPECT_TRUE(has_lost_patience(training, progress));
}

}  // namespace
}  // namespace snug
