#include "engine/scheduler/scheduler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "engine/scheduler/simulator_helpers.h"

namespace tokamak::scheduler {
namespace {

// Arrivals over `seconds`; prompts and answers of random lengths, some cancelled at random times.
std::vector<SimulatedRequest> random_requests(size_t n, double seconds, int64_t longest, uint64_t seed,
                                              double share_cancelled = 0) {
  std::vector<SimulatedRequest> out;
  uint64_t k = 0;
  const auto random = [&] { return uniform(seed, k++); };
  for (size_t i = 0; i < n; ++i) {
    SimulatedRequest request{.arrives = random() * seconds, .client = std::string(1, static_cast<char>('a' + i % 5))};
    request.n_prompt = 1 + static_cast<int64_t>(random() * static_cast<double>(longest));
    request.n_generate = 1 + static_cast<int64_t>(random() * 60);
    if (random() < 0.3) request.n_cached = request.n_prompt / 2;
    if (random() < share_cancelled) request.cancelled_at = request.arrives + random() * 5;
    out.push_back(request);
  }
  std::ranges::sort(out, {}, &SimulatedRequest::arrives);
  return out;
}

// The worst time between two tokens of any request that was not interrupted.
double worst_gap(const Simulator& simulator) {
  double worst = 0;
  for (const Fate& fate : simulator.fates()) {
    if (fate.n_paused > 0) continue;
    for (size_t i = 1; i < fate.tokens.size(); ++i) worst = std::max(worst, fate.tokens[i] - fate.tokens[i - 1]);
  }
  return worst;
}

TEST(SchedulerTest, EveryRequestEndsAndTheCacheIsNeverOvercommitted) {
  uint64_t n_preempted = 0;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    // 64 pages of 16: two of the longest requests fill it, so that many must give way.
    Simulator simulator({.n_pages = 64, .n_cache_pages = 20, .noise = 0.2, .seed = seed},
                        {.n_parallel = 12, .n_queue = 1000, .n_batch = 128});
    const auto requests = random_requests(80, 20, 500, seed, 0.2);
    simulator.run(requests);
    for (size_t i = 0; i < requests.size(); ++i) {
      const Fate& fate = simulator.fates()[i];
      EXPECT_GE(fate.ended, 0) << "seed " << seed << " request " << i;
      EXPECT_FALSE(fate.stalled || fate.refused);
      EXPECT_TRUE(fate.cancelled || fate.n_generated == requests[i].n_generate);
    }
    EXPECT_GT(simulator.most_pages_used(), 50) << "the test is to fill the cache";
    n_preempted += simulator.scheduler().n_preempted();
  }
  EXPECT_GT(n_preempted, 20u);
}

TEST(SchedulerTest, GapsBetweenTokensStayWithinTheBound) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    Simulator simulator({.n_pages = 4096, .depth_cost = 5e-4, .noise = 0.15, .seed = seed},
                        {.n_parallel = 16, .n_queue = 1000, .max_gap_seconds = 0.25, .depth_cost = 5e-4});
    simulator.run(random_requests(60, 60, 3000, seed));
    EXPECT_LE(worst_gap(simulator), 0.25) << "seed " << seed;
    EXPECT_GT(worst_gap(simulator), 0.1) << "the bound is to be used, not wasted";
    EXPECT_NEAR(simulator.scheduler().max_gap_seconds(), worst_gap(simulator), 1e-9);
  }
}

TEST(SchedulerTest, ManyStreamsAndShortPromptsDoNotSpoilWhatALongPromptIsExpectedToCost) {
  // A crowd decodes at much less than as many times the cost of one.
  Simulator simulator({.n_pages = 20000, .step_seconds = 0.004, .decode_seconds = 0.0005, .prefill_seconds = 0.001},
                      {.n_parallel = 64, .n_queue = 1000, .max_gap_seconds = 0.25});
  std::vector<SimulatedRequest> requests = {{.client = "one", .n_prompt = 100, .n_generate = 50}};
  for (int i = 0; i < 60; ++i)
    requests.push_back({.arrives = 1 + 0.02 * i, .client = "short", .n_prompt = 5, .n_generate = 400});
  requests.push_back({.arrives = 4, .client = "long", .n_prompt = 4000, .n_generate = 5});
  simulator.run(requests);
  EXPECT_LE(worst_gap(simulator), 0.25);
}

TEST(CostModelTest, AColdFirstStepIsSoonForgottenAndASlowLaterOneIsNot) {
  CostModel costs(0);
  costs.learn({.n_decode = 0, .prefill = 16}, 0.5);
  EXPECT_LT(costs.tokens_within(0.2, 0), 10);
  for (int i = 0; i < 2; ++i) costs.learn({.n_decode = 0, .prefill = 16}, 0.016);
  EXPECT_EQ(costs.tokens_within(0.2, 0), 200);
  costs.learn({.n_decode = 0, .prefill = 100}, 0.2);
  EXPECT_LT(costs.tokens_within(0.2, 0), 150);
}

TEST(SchedulerTest, TheScheduleIsAFunctionOfTheSeed) {
  const auto schedule = [](uint64_t seed) {
    Simulator simulator({.n_pages = 100, .noise = 0.1, .seed = seed}, {.n_parallel = 8, .n_queue = 100});
    simulator.run(random_requests(40, 10, 800, seed, 0.1));
    return simulator.schedule();
  };
  EXPECT_EQ(schedule(3), schedule(3));
  EXPECT_NE(schedule(3), schedule(4));
}

TEST(SchedulerTest, AClientWithManyRequestsDoesNotHoldUpOneWithFew) {
  std::vector<SimulatedRequest> requests;
  for (int i = 0; i < 60; ++i) requests.push_back({.client = "greedy", .n_prompt = 400, .n_generate = 40});
  for (int i = 0; i < 5; ++i)
    requests.push_back({.arrives = 0.5 + i, .client = "modest", .n_prompt = 100, .n_generate = 10});
  Simulator simulator({.n_pages = 4096}, {.n_parallel = 4, .n_queue = 100});
  simulator.run(requests);
  double last_greedy = 0, worst_modest = 0;
  for (size_t i = 0; i < requests.size(); ++i) {
    const Fate& fate = simulator.fates()[i];
    if (requests[i].client == "greedy")
      last_greedy = std::max(last_greedy, fate.ended);
    else
      worst_modest = std::max(worst_modest, fate.first_token - fate.submitted);
  }
  EXPECT_GT(last_greedy, 20) << "the backlog is to last";
  // One place gets free about every second; behind the backlog the wait would be most of last_greedy.
  EXPECT_LT(worst_modest, 6);
}

TEST(SchedulerTest, TwoClientsWithBacklogsAreServedAlike) {
  std::vector<SimulatedRequest> requests;
  for (int i = 0; i < 30; ++i) requests.push_back({.client = "long", .n_prompt = 600, .n_generate = 20});
  for (int i = 0; i < 120; ++i) requests.push_back({.client = "short", .n_prompt = 130, .n_generate = 20});
  Simulator simulator({.n_pages = 4096}, {.n_parallel = 4, .n_queue = 200});
  simulator.run(requests);
  // 18,600 and 18,000 tokens: both backlogs end at nearly the same time.
  std::map<std::string, double> ends;
  for (size_t i = 0; i < requests.size(); ++i)
    ends[requests[i].client] = std::max(ends[requests[i].client], simulator.fates()[i].ended);
  EXPECT_NEAR(ends["long"] / ends["short"], 1, 0.15);
}

TEST(SchedulerTest, HigherPriorityGoesFirstAndWaitingRaisesIt) {
  std::vector<SimulatedRequest> requests = {{.client = "low", .n_prompt = 200, .n_generate = 20}};
  for (int i = 0; i < 200; ++i)
    requests.push_back({.arrives = 0.2 * i, .client = "high", .priority = 2, .n_prompt = 200, .n_generate = 20});
  requests.insert(requests.begin(), {.client = "first", .n_prompt = 200, .n_generate = 20});
  Simulator simulator({.n_pages = 4096}, {.n_parallel = 1, .n_queue = 500});
  simulator.run(requests);
  const Fate& low = simulator.fates()[1];
  int64_t n_before = 0;
  for (size_t i = 2; i < requests.size(); ++i)
    if (simulator.fates()[i].first_started < low.first_started) ++n_before;
  EXPECT_GT(n_before, 20) << "those of higher priority go first";
  EXPECT_LT(n_before, 200) << "but not for ever";
  EXPECT_GT(low.first_started, 2 * kAgingSeconds * 0.9);
}

TEST(SchedulerTest, CancelledRequestsLeaveBeforeTheNextStep) {
  // Cancelled while queued, in the middle of the prompt, and while decoding.
  const std::vector<SimulatedRequest> requests = {
      {.client = "a", .n_prompt = 20, .n_generate = 100000, .cancelled_at = 3},
      {.client = "b", .n_prompt = 100000, .n_generate = 1, .cancelled_at = 1},
      {.client = "c", .n_prompt = 10, .n_generate = 1, .cancelled_at = 0.3},
      {.arrives = 0.1, .client = "d", .n_prompt = 100, .n_generate = 10}};
  Simulator simulator({.n_pages = 10000}, {.n_parallel = 2});
  simulator.run(requests);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_TRUE(simulator.fates()[i].cancelled) << i;
    EXPECT_LT(simulator.fates()[i].ended - requests[i].cancelled_at, kIdleFactor * 0.25 + 1e-9) << i;
  }
  EXPECT_EQ(simulator.fates()[2].first_started, -1);
  EXPECT_EQ(simulator.fates()[3].n_generated, 10);
  EXPECT_EQ(simulator.n_pages_used(), 0);
}

TEST(SchedulerTest, AFullQueueRefuses) {
  std::vector<SimulatedRequest> requests(10, {.client = "a", .n_prompt = 50, .n_generate = 5});
  Simulator simulator({}, {.n_parallel = 2, .n_queue = 3});
  simulator.run(requests);
  EXPECT_EQ(std::ranges::count_if(simulator.fates(), &Fate::refused), 5);
}

TEST(SchedulerTest, TheOldestIsNeverInterruptedAndOthersComputeAgain) {
  std::vector<SimulatedRequest> requests(6, {.client = "a", .n_prompt = 90, .n_generate = 200});
  Simulator simulator({.n_pages = 30}, {.n_parallel = 6});
  simulator.run(requests);
  EXPECT_EQ(simulator.fates()[0].n_paused, 0);
  for (const Fate& fate : simulator.fates()) {
    EXPECT_EQ(fate.n_generated, 200);
  }
  EXPECT_GT(simulator.scheduler().n_preempted(), 0u);
}

TEST(SchedulerTest, OldPromptsGiveWayBeforeRunningRequests) {
  std::vector<SimulatedRequest> requests(2, {.client = "a", .n_prompt = 100, .n_generate = 100});
  Simulator simulator({.n_pages = 30, .n_cache_pages = 25}, {.n_parallel = 2});
  simulator.run(requests);
  EXPECT_EQ(simulator.scheduler().n_preempted(), 0u);
  EXPECT_LT(simulator.n_reclaimable_pages(), 10);
}

// A device that runs everything but never counts the tokens of one request.
class StuckDevice : public Device, public Clock {
 public:
  double now() const override { return now_; }
  Result<int64_t> start(RequestId) override { return 0; }
  void pause(RequestId) override {}
  void leave(RequestId id, Leaving why) override {
    EXPECT_EQ(why, Leaving::stalled);
    left.push_back(id);
  }
  int64_t pages_needed(RequestId, int64_t) const override { return 1; }
  int64_t n_free_pages() const override { return n_free; }
  int64_t n_reclaimable_pages() const override { return 0; }
  void reclaim(int64_t) override {}
  void run(std::span<const Entry> entries, std::span<Outcome> outcomes) override {
    now_ += 1;
    for (size_t i = 0; i < entries.size(); ++i)
      outcomes[i].n_done = entries[i].id == stuck ? 0 : entries[i].first + entries[i].n_tokens;
    for (size_t i = 0; i < entries.size(); ++i) outcomes[i].is_over = outcomes[i].n_done >= 40;
  }
  double now_ = 0;
  int64_t n_free = 100;
  RequestId stuck = 1;
  std::vector<RequestId> left;
};

TEST(SchedulerTest, ARequestWithoutProgressFailsAndOthersGoOn) {
  StuckDevice device;
  Scheduler scheduler({.stall_seconds = 10}, device, device);
  for (RequestId id : {1, 2}) ASSERT_TRUE(scheduler.submit({.id = id, .client = "", .n_tokens = 20, .stops = {}}));
  for (int i = 0; i < 100 && !scheduler.idle(); ++i) scheduler.step();
  EXPECT_TRUE(scheduler.idle());
  EXPECT_EQ(device.left, std::vector<RequestId>{1});
}

TEST(SchedulerTest, WhoWaitsForItsTurnIsNotStuck) {
  // The last prompt gets its first step after about 100 seconds.
  std::vector<SimulatedRequest> requests(20, {.client = "a", .n_prompt = 3000, .n_generate = 5});
  Simulator simulator({.n_pages = 10000}, {.n_parallel = 20, .stall_seconds = 10});
  simulator.run(requests);
  for (const Fate& fate : simulator.fates()) EXPECT_EQ(fate.n_generated, 5);
}

TEST(SchedulerTest, PromptsAreCutWhereTheyAskForIt) {
  class Recorder : public StuckDevice {
   public:
    void run(std::span<const Entry> entries, std::span<Outcome> outcomes) override {
      for (size_t i = 0; i < entries.size(); ++i) {
        ends.push_back(entries[i].first + entries[i].n_tokens);
        outcomes[i] = {.n_done = ends.back(), .is_over = entries[i].last};
      }
    }
    std::vector<int64_t> ends;
  } device;
  Scheduler scheduler({}, device, device);
  ASSERT_TRUE(scheduler.submit({.id = 7, .client = "", .n_tokens = 30, .max_chunk = 8, .stops = {5, 20, 90}}));
  while (scheduler.step()) {
  }
  EXPECT_EQ(device.ends, (std::vector<int64_t>{5, 13, 20, 28, 30}));
}

}  // namespace
}  // namespace tokamak::scheduler
