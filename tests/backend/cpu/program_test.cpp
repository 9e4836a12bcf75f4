#include "backend/cpu/program.h"

#include <gtest/gtest.h>

namespace tokamak::cpu {
namespace {

struct FakeStep : Step {
  void run(const RunContext&, int, int) const override {}
};

Ref arena(uint64_t offset, uint64_t n_bytes) {
  return {.where = Ref::Where::arena, .offset = offset, .n_bytes = n_bytes};
}

struct Plan {
  std::vector<std::unique_ptr<Step>> steps;

  FakeStep& add(std::vector<Ref> reads, std::vector<Ref> writes, int64_t tokens = 0) {
    auto step = std::make_unique<FakeStep>();
    step->reads = std::move(reads);
    step->writes = std::move(writes);
    if (tokens > 0) {
      step->split = Split::tokens;
      step->n_split = tokens;
    }
    FakeStep& out = *step;
    steps.push_back(std::move(step));
    return out;
  }
  std::vector<bool> barriers() {
    place_barriers(steps);
    std::vector<bool> out;
    for (const auto& step : steps) out.push_back(step->barrier_before);
    return out;
  }
};

TEST(PlaceBarriersTest, IndependentStepsShareAStage) {
  Plan p;
  p.add({arena(0, 64)}, {arena(64, 64)});
  p.add({arena(0, 64)}, {arena(128, 64)});
  p.add({arena(0, 64)}, {arena(192, 64)});
  EXPECT_EQ(p.barriers(), (std::vector<bool>{false, false, false}));
}

TEST(PlaceBarriersTest, ReadingAndOverwritingWait) {
  Plan reads;
  reads.add({}, {arena(0, 64)});
  reads.add({arena(32, 64)}, {arena(128, 64)});
  EXPECT_EQ(reads.barriers(), (std::vector<bool>{false, true}));
  Plan overwrites;
  overwrites.add({arena(0, 64)}, {arena(64, 64)});
  overwrites.add({}, {arena(0, 8)});
  EXPECT_EQ(overwrites.barriers(), (std::vector<bool>{false, true}));
}

TEST(PlaceBarriersTest, ABarrierCoversAllEarlierSteps) {
  Plan p;
  p.add({}, {arena(0, 64)});
  p.add({}, {arena(64, 64)});
  p.add({arena(0, 64)}, {arena(128, 64)});
  p.add({arena(64, 64)}, {arena(192, 64)});  // its input was complete at the barrier before
  EXPECT_EQ(p.barriers(), (std::vector<bool>{false, false, true, false}));
}

TEST(PlaceBarriersTest, SameTokenRowsStayOnTheirThread) {
  Plan p;
  p.add({arena(0, 64)}, {arena(64, 64)}, 4);
  p.add({arena(64, 64)}, {arena(128, 32)}, 4);
  EXPECT_EQ(p.barriers(), (std::vector<bool>{false, false}));
  Plan other_count;
  other_count.add({arena(0, 64)}, {arena(64, 64)}, 4);
  other_count.add({arena(64, 64)}, {arena(128, 32)}, 1);
  EXPECT_EQ(other_count.barriers(), (std::vector<bool>{false, true}));
  Plan shifted;  // rows of another width in the same memory belong to other threads
  shifted.add({arena(0, 64)}, {arena(64, 64)}, 4);
  shifted.add({arena(64, 32)}, {arena(128, 32)}, 4);
  EXPECT_EQ(shifted.barriers(), (std::vector<bool>{false, true}));
}

TEST(PlaceBarriersTest, TheCacheIsOneResource) {
  Plan p;
  p.add({}, {}, 4).writes_cache = true;
  p.add({}, {}, 4).writes_cache = true;  // other rows of it: keys and values
  p.add({}, {}).reads_cache = true;
  EXPECT_EQ(p.barriers(), (std::vector<bool>{false, false, true}));
}

}  // namespace
}  // namespace tokamak::cpu
