// Steps that are made ahead are the steps that would be made one by one, and nothing waits for ever.
#include "data/batches/cut.h"
#include "data/batches/sequence.h"
#include "data/data_fixture.h"

namespace snug {
namespace {

class Prefetch : public testing::Test {
 protected:
  Prefetch() {
    dataset_.add(table_of_lengths(realistic_lengths(101, 20, 64, 1)), {.max_length_tokens = 64});
    dataset_.add(table_of_lengths(realistic_lengths(20, 20, 64, 2)), {.max_length_tokens = 64}, 1.5);
  }
  static BatchOptions options(Batching batching) {
    return {.effective_batch = 6,
            .micro_batch = {.sequences = batching == Batching::packed ? 16 : 3,
                            .tokens = 256,
                            .source_tokens = 0},
            .epochs = 3,
            .seed = 9,
            .batching = batching,
            .packed_tokens = 64,
            .packed_sequences = 8};
  }

  Dataset dataset_;
};

TEST_F(Prefetch, GivesTheStepsInOrder) {
  for (Batching batching : {Batching::sequences, Batching::grouped, Batching::packed}) {
    BatchSequence sequence(dataset_, options(batching));
    int64_t steps = 0;
    for (int64_t epoch = 0; epoch < 3; ++epoch) {
      EpochPieces expected = make_epoch(dataset_, options(batching), epoch);
      for (int64_t first = 0; first < expected.size(); first += 6, ++steps) {
        std::vector<Batch> step = sequence.next_step();
        int64_t last = std::min<int64_t>(first + 6, expected.size());
        std::vector<int64_t> ends =
            cut_pieces(dataset_, expected, first, last, options(batching).micro_batch);
        ASSERT_EQ(std::ssize(step), std::ssize(ends));
        int64_t begin = first;
        for (int64_t i = 0; i < std::ssize(step); ++i) {
          int64_t end = ends[static_cast<size_t>(i)];
          Batch batch = make_batch(dataset_, expected.pieces(begin, end));
          begin = end;
          const Batch& got = step[static_cast<size_t>(i)];
          ASSERT_EQ(got.ids, batch.ids);
          ASSERT_EQ(got.targets, batch.targets);
          ASSERT_EQ(got.positions, batch.positions);
          ASSERT_EQ(got.offsets, batch.offsets);
          ASSERT_EQ(got.target_count, batch.target_count);
        }
        ASSERT_EQ(sequence.next_step_index(), steps + 1);
      }
      EXPECT_DOUBLE_EQ(sequence.epoch(), static_cast<double>(epoch + 1));
    }
    EXPECT_EQ(steps, sequence.total_steps());
    EXPECT_TRUE(sequence.next_step().empty());
    EXPECT_TRUE(sequence.next_step().empty());
  }
}

TEST_F(Prefetch, MayEndAtAnyTime) {
  for (int taken = 0; taken < 40; ++taken) {
    BatchSequence sequence(dataset_, options(Batching::packed));
    for (int i = 0; i < taken; ++i) {
      sequence.next_step();
    }
    if (taken % 3 == 0) {
      sequence.seek(taken / 2);
    }
  }
}

TEST_F(Prefetch, StaysWhereItIs) {
  static_assert(!std::is_move_constructible_v<BatchSequence>, "a thread works on it");
  static_assert(!std::is_copy_constructible_v<BatchSequence>);
}

}  // namespace
}  // namespace snug
