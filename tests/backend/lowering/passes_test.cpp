#include "backend/lowering/passes.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "fuse/rules_helpers.h"

namespace tokamak::lowering {
namespace {

// A product with a bias: whether the product's own result lies in memory.
bool has_place_of_its_own(const fuse::Supports& supports, const CompileOptions& options, fuse::Stats& stats) {
  ir::GraphBuilder b("g");
  b.output(b.add(b.mul_mat(b.weight("w", DType::f32, {8, 8}), fuse::rows(b)), fuse::vec(b, "bias")));
  ir::Graph graph = b.finish().value();
  const ir::Plan plan = prepare(graph, supports, options, stats).value();
  const auto product = std::ranges::find(graph.nodes, ir::Op::mul_mat, &ir::Node::op);
  return plan.is_placed(product->output);
}

TEST(Passes, WhatPassesInsideAGroupNeedsNoMemory) {
  fuse::Stats stats;
  EXPECT_FALSE(has_place_of_its_own({}, {}, stats));
  ASSERT_EQ(stats.rows().size(), 1u);
  EXPECT_EQ(stats.rows()[0].count, 1u);
}

TEST(Passes, FuseNothingWhenTold) {
  fuse::Stats stats, disabled;
  disabled.set_enabled(false);
  const auto refuses = [](const ir::Graph&, const fuse::Rule&, std::span<const ir::NodeId>) { return false; };
  EXPECT_TRUE(has_place_of_its_own(refuses, {}, stats)) << "no kernel for it";
  EXPECT_TRUE(has_place_of_its_own({}, {.fusion = false}, stats));
  EXPECT_TRUE(has_place_of_its_own({}, {.disabled_passes = {"fuse"}}, stats));
  EXPECT_TRUE(has_place_of_its_own({}, {}, disabled));
}

}  // namespace
}  // namespace tokamak::lowering
