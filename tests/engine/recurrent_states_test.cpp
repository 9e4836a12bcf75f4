#include "engine/recurrent_states.h"

#include <gtest/gtest.h>

namespace tokamak {
namespace {

constexpr std::array<int32_t, 8> kTokens = {3, 1, 4, 1, 5, 9, 2, 6};

// A step over `n` tokens from `begin` on; the row that was written first.
int32_t step(RecurrentStates& states, int32_t seq_id, size_t begin, size_t n) {
  const auto row = states.target_row(seq_id);
  EXPECT_TRUE(row);
  states.advance(seq_id, std::span(kTokens).subspan(begin, n));
  return row ? *row : -1;
}

TEST(RecurrentStates, ANewSequenceStartsFromZeros) {
  RecurrentStates states(2, 3, 0);
  EXPECT_EQ(states.n_rows(), 6);
  EXPECT_EQ(states.source_row(0), -1);
  EXPECT_EQ(step(states, 0, 0, 2), 0);
  EXPECT_EQ(step(states, 1, 0, 1), 3);
  EXPECT_EQ(states.source_row(0), 0);
  EXPECT_EQ(states.source_row(1), 3);
}

TEST(RecurrentStates, AllSlotsTakenIsAnErrorUntilOneIsFreed) {
  RecurrentStates states(1, 1, 0);
  step(states, 0, 0, 1);
  const auto refused = states.target_row(1);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::context_full);
  states.free_sequence(0);
  EXPECT_TRUE(states.target_row(1));
  EXPECT_EQ(states.source_row(1), -1);
}

TEST(RecurrentStates, RollsBackToSnapshotsOfTheLastStepOnly) {
  RecurrentStates states(1, 3, 0);
  step(states, 0, 0, 2);
  step(states, 0, 2, 4);  // snapshots after 6, 5 and 4 tokens
  auto back = states.roll_back(0, 5);
  EXPECT_EQ(back.n_tokens, 5);
  EXPECT_EQ(back.row, 1);
  EXPECT_EQ(back.checkpoint, nullptr);
  EXPECT_EQ(states.source_row(0), 1);
  back = states.roll_back(0, 4);
  EXPECT_EQ(back.n_tokens, 4);
  EXPECT_EQ(back.row, 2);
  // 3 tokens had a state once, but it was overwritten.
  back = states.roll_back(0, 3);
  EXPECT_EQ(back.n_tokens, 0);
  EXPECT_EQ(states.source_row(0), -1);
}

TEST(RecurrentStates, AStepShorterThanTheSnapshotsHasFewerOfThem) {
  RecurrentStates states(1, 4, 0);
  step(states, 0, 0, 5);
  step(states, 0, 5, 1);
  EXPECT_EQ(states.roll_back(0, 5).n_tokens, 0);
}

TEST(RecurrentStates, CheckpointsOutliveStepsAndTheOldestGivesWay) {
  RecurrentStates states(1, 1, 2);
  const auto keep = [&](float value) {
    states.add_checkpoint(0, 1, [value](int32_t, std::span<float> out) { out[0] = value; });
  };
  for (size_t i = 0; i < 3; ++i) {
    step(states, 0, i, 1);
    keep(static_cast<float>(i + 1));
  }
  step(states, 0, 3, 1);
  EXPECT_EQ(states.checkpoint_bytes(), 2 * sizeof(float));
  const auto back = states.roll_back(0, 2);
  EXPECT_EQ(back.n_tokens, 2);
  ASSERT_NE(back.checkpoint, nullptr);
  EXPECT_EQ(back.checkpoint->at(0), 2.0f);
  EXPECT_EQ(states.source_row(0), back.row);
  EXPECT_EQ(states.roll_back(0, 1).n_tokens, 0);  // the copy after 1 token gave way to that after 3
}

TEST(RecurrentStates, OtherTokensAfterARollbackDoNotBringOldStatesBack) {
  RecurrentStates states(1, 1, 4);
  const auto keep = [&] { states.add_checkpoint(0, 1, [](int32_t, std::span<float>) {}); };
  step(states, 0, 0, 2);
  keep();
  step(states, 0, 2, 2);
  keep();
  EXPECT_EQ(states.roll_back(0, 3).n_tokens, 2);
  step(states, 0, 5, 2);  // not the tokens that stood here before
  EXPECT_EQ(states.roll_back(0, 4).n_tokens, 4);
  step(states, 0, 0, 1);
  EXPECT_EQ(states.roll_back(0, 4).n_tokens, 2);
}

TEST(RecurrentStates, AFailedStepLeavesNothing) {
  RecurrentStates states(1, 1, 1);
  step(states, 0, 0, 2);
  states.invalidate(0);
  EXPECT_EQ(states.source_row(0), -1);
  EXPECT_EQ(step(states, 0, 0, 1), 0);
}

}  // namespace
}  // namespace tokamak
