#include "fuse/stats.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "base/log.h"
#include "fuse/matcher.h"
#include "fuse/model_graphs_helpers.h"

namespace tokamak::fuse {
namespace {

uint64_t count_of(const Stats& stats, std::string_view graph, std::string_view label) {
  for (const StatsRow& row : stats.rows())
    if (row.graph == graph && row.label == label) return row.count;
  return 0;
}

TEST(Stats, CountsPerLabelAndGraph) {
  ir::Graph g = model_graph({});
  fuse(g, {}, true);
  Stats stats;
  EXPECT_TRUE(stats.enabled());
  g.name = "prefill";
  stats.record(g);
  g.name = "decode";
  stats.record(g);
  stats.record(g);
  EXPECT_EQ(count_of(stats, "prefill", "RMS_NORM+MUL"), 5u);
  EXPECT_EQ(count_of(stats, "decode", "RMS_NORM+MUL"), 10u);
  EXPECT_EQ(count_of(stats, "decode", "MUL_MAT"), 0u) << "single nodes are no fusion";
  for (const StatsRow& row : stats.rows()) EXPECT_EQ(row.n_graphs, row.graph == "decode" ? 2u : 1u);
  stats.reset();
  EXPECT_TRUE(stats.rows().empty());
}

TEST(Stats, TheLogNamesLabelsAndNodes) {
  ir::Graph g = model_graph({});
  fuse(g, {}, true);
  g.name = "decode";
  std::vector<std::string> lines;
  set_log_sink([&](LogLevel level, std::string_view line) {
    EXPECT_EQ(level, LogLevel::debug);
    lines.emplace_back(line);
  });
  Stats stats;
  stats.record(g);
  stats.set_collecting(false);
  stats.record(g);
  set_log_sink({});
  EXPECT_EQ(lines.size(), stats.rows().size());
  EXPECT_THAT(lines, testing::Contains(testing::MatchesRegex(
                         "decode: fused 5 x RMS_NORM\\+MUL of 2 nodes, first RMS_NORM .* to MUL .*")));
}

TEST(Stats, SwitchesAndGraphsWithoutFusion) {
  ir::Graph g = model_graph({});
  fuse(g, {}, false);
  Stats stats;
  stats.set_collecting(false);
  stats.record(g);
  EXPECT_TRUE(stats.rows().empty());
  stats.set_collecting(true);
  stats.record(g);
  ASSERT_EQ(stats.rows().size(), 1u);
  EXPECT_EQ(stats.rows()[0].label, "");
  EXPECT_EQ(stats.rows()[0].count, 0u);
  stats.set_enabled(false);
  EXPECT_FALSE(stats.enabled());
}

TEST(Stats, ManyThreads) {
  ir::Graph g = model_graph({});
  fuse(g, {}, true);
  Stats stats;
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 4; ++i)
      threads.emplace_back([&] {
        for (int k = 0; k < 100; ++k) stats.record(g), (void)stats.rows();
      });
  }
  EXPECT_EQ(count_of(stats, "model", "RMS_NORM+MUL"), 2000u);
}

}  // namespace
}  // namespace tokamak::fuse
