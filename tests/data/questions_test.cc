// Rows as questions and answers.
#include "data/questions.h"

#include <gtest/gtest.h>

namespace snug {
namespace {

using Ids = std::vector<int32_t>;

Example with_learned(const Ids& ids, const std::vector<bool>& learned) {
  Example example;
  for (size_t i = 0; i < ids.size(); ++i) {
    example.tokens.emplace_back(ids[i], learned[i]);
  }
  return example;
}

// All before the last answer, earlier answers included; not what a template writes behind it.
TEST(Questions, AskForTheLastAnswer) {
  Dataset dataset =
      make_dataset({with_learned({1, 2, 3, 4, 5, 6, 7}, {false, true, true, false, true, true, false})});
  std::vector<Question> questions = questions_of(dataset, 10);
  ASSERT_EQ(questions.size(), 1U);
  EXPECT_EQ(questions[0].prompt, (Ids{1, 2, 3, 4}));
  EXPECT_EQ(questions[0].answer, (Ids{5, 6}));
  EXPECT_TRUE(questions[0].source.empty());
}

TEST(Questions, AreTheFirstRowsThatHaveOne) {
  Dataset dataset =
      make_dataset({make_example({1, 2, 3}, 0), make_example({4, 5, 6}, 2), make_example({7, 8}, 1),
                    make_example({9, 10, 11, 12}, 3), make_example({13, 14, 15}, 2)});
  std::vector<Question> questions = questions_of(dataset, 2);
  ASSERT_EQ(questions.size(), 2U);  // of the first and the third, all is learned
  EXPECT_EQ(questions[0].prompt, (Ids{4, 5}));
  EXPECT_EQ(questions[1].prompt, (Ids{9, 10, 11}));
  EXPECT_EQ(questions[1].answer, Ids{12});
}

TEST(Questions, BehindAnEncoderBeginWithTheStartToken) {
  Dataset dataset = make_dataset({make_pair_example({5, 6, 7}, {8, 9})}, 3);
  std::vector<Question> questions = questions_of(dataset, 10);
  ASSERT_EQ(questions.size(), 1U);
  EXPECT_EQ(questions[0].source, (Ids{5, 6, 7}));
  EXPECT_EQ(questions[0].prompt, Ids{3});
  EXPECT_EQ(questions[0].answer, (Ids{8, 9}));
}

}  // namespace
}  // namespace snug
