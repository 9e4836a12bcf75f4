#include "fuse/matcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "fuse/model_graphs_helpers.h"
#include "ir/builder.h"
#include "ir/random_graph_helpers.h"
#include "ir/text.h"
#include "ir/verify.h"

namespace tokamak::fuse {
namespace {

using testing::HasSubstr;

using Counts = std::map<std::string, int>;

Counts counts(ir::Graph graph, const Supports& supports = {}) {
  fuse(graph, supports, true);
  EXPECT_TRUE(ir::verify(graph));
  Counts out;
  for (const ir::Group& group : graph.groups)
    if (group.rule != UINT16_MAX) ++out[std::string(group_label(graph, group))];
  return out;
}

// A backend without kernels that rotate.
bool without_rope(const ir::Graph&, const Rule& rule, std::span<const ir::NodeId>) {
  return rule.label.find("ROPE") == std::string_view::npos;
}

TEST(Matcher, CountsOnModels) {
  EXPECT_EQ(counts(model_graph({})),
            (Counts{{"RMS_NORM+MUL", 5}, {"MUL_MAT+ADD", 4}, {"MUL_MAT+MUL_MAT+GLU", 2}, {"ROPE+VIEW+SET_ROWS", 2}}));
  EXPECT_EQ(counts(model_graph({.qkv_bias = true})),
            (Counts{{"RMS_NORM+MUL", 5}, {"MUL_MAT+ADD", 10}, {"MUL_MAT+MUL_MAT+GLU", 2}, {"ROPE+VIEW+SET_ROWS", 2}}));
  EXPECT_EQ(counts(model_graph({.qk_norm = true})), (Counts{{"RMS_NORM+MUL", 5},
                                                            {"RMS_NORM+MUL+ROPE", 2},
                                                            {"RMS_NORM+MUL+ROPE+VIEW+SET_ROWS", 2},
                                                            {"MUL_MAT+ADD", 4},
                                                            {"MUL_MAT+MUL_MAT+GLU", 2}}));
  EXPECT_EQ(counts(model_graph({.qk_norm = true, .post_norm = true, .logit_softcap = true})),
            (Counts{{"RMS_NORM+MUL", 5},
                    {"RMS_NORM+MUL+ADD", 4},
                    {"RMS_NORM+MUL+ROPE", 2},
                    {"RMS_NORM+MUL+ROPE+VIEW+SET_ROWS", 2},
                    {"MUL_MAT+MUL_MAT+GLU", 2},
                    {"SCALE+TANH+SCALE", 1}}));
}

// The published counts of a backend without rope and matmul rules: llama 5, qwen3 9, gemma2 5 + 4.
TEST(Matcher, VetoedRulesFallBackToShorterOnes) {
  EXPECT_EQ(counts(model_graph({}), without_rope)["RMS_NORM+MUL"], 5);
  EXPECT_EQ(counts(model_graph({.qk_norm = true}), without_rope)["RMS_NORM+MUL"], 9);
  EXPECT_EQ(counts(model_graph({.post_norm = true}), without_rope)["RMS_NORM+MUL+ADD"], 4);
  EXPECT_EQ(counts(model_graph({}), [](auto&&...) { return false; }), Counts{});
}

TEST(Matcher, TheVetoSeesPatternNodesOnly) {
  int calls = 0;
  counts(model_graph({.qk_norm = true}), [&](const ir::Graph& g, const Rule& rule, std::span<const ir::NodeId> nodes) {
    ++calls;
    EXPECT_EQ(nodes.size(), rule.ops.size());
    for (size_t i = 0; i < nodes.size(); ++i) {
      if (nodes[i] != ir::kNone)
        EXPECT_EQ(g.node(nodes[i]).op, rule.ops[i]);
      else
        EXPECT_TRUE(rule.optional >> i & 1) << rule.label;
    }
    return true;
  });
  EXPECT_GT(calls, 0);
}

TEST(Matcher, GroupsPartitionEveryGraphAndMatchAgain) {
  for (uint32_t seed = 0; seed < 150; ++seed) {
    ir::Graph g = ir::random_graph(seed);
    fuse(g, {}, true);
    ASSERT_TRUE(ir::verify(g)) << seed << ": " << ir::verify(g).error().message();
    ASSERT_TRUE(check_groups(g)) << seed << ": " << check_groups(g).error().message();
    const Matcher matcher(g);
    ir::NodeId next = 0;
    for (const ir::Group& group : g.groups) {
      for (ir::NodeId id : group.nodes) ASSERT_EQ(id, next++) << seed;
      const auto match = matcher.at(group.nodes.front(), Mode::structural);
      ASSERT_EQ(match.has_value(), group.rule != UINT16_MAX) << seed;
      EXPECT_TRUE(!match || match->nodes == group.nodes) << seed;
    }
    auto back = ir::parse_text(ir::to_text(g));
    ASSERT_TRUE(back) << seed << ": " << back.error().message();
    EXPECT_TRUE(*back == g) << seed;
  }
}

TEST(Matcher, SwitchedOffEveryNodeStandsAlone) {
  ir::Graph g = model_graph({});
  fuse(g, {}, false);
  ASSERT_TRUE(ir::verify(g));
  EXPECT_EQ(g.groups.size(), g.nodes.size());
  for (const ir::Group& group : g.groups) EXPECT_EQ(group.rule, UINT16_MAX);
  EXPECT_EQ(group_label(g, g.groups[0]), "GET_ROWS");
}

TEST(Matcher, ViewsTravelWithTheGroup) {
  ir::GraphBuilder b("g");
  const auto x = b.get_rows(b.weight("t", DType::f32, {9, 16}), b.input(ir::InputRole::tokens, {3}));
  const auto n = b.rms_norm(b.reshape(x, {3, 2, 8}), 1e-5);
  const auto y = b.mul(b.reshape(b.reshape(n, {48}), {3, 2, 8}), b.weight("w", DType::f32, {8}));
  b.output(b.reshape(y, {3, 16}));
  ir::Graph g = *b.finish();
  fuse(g, {}, true);
  ASSERT_EQ(g.groups.size(), 4u);  // rows, reshape, group, reshape
  EXPECT_EQ(g.groups[2].nodes, (std::vector<ir::NodeId>{2, 3, 4, 5}));
  EXPECT_EQ(pattern_nodes(g, g.groups[2]), (std::vector<ir::NodeId>{2, 5}));
  EXPECT_FALSE(match_at(g, 1, Mode::structural)) << "a group does not start with a view";
  EXPECT_FALSE(match_at(g, 99, Mode::structural));
}

TEST(Matcher, FullModeRefusesOutputsOnTopOfInputs) {
  ir::GraphBuilder b("g");
  const auto x = b.get_rows(b.weight("t", DType::f32, {9, 8}), b.input(ir::InputRole::tokens, {3}));
  const auto n = b.rms_norm(x, 1e-5);
  const auto y = b.mul(n, b.weight("w", DType::f32, {8}));
  b.output(y);
  ir::Graph g = *b.finish();
  fuse(g, {}, true);
  ir::Plan plan = *ir::plan_buffers(g);
  const auto matches = [&] { return match_at(g, 1, Mode::full, {}, &plan).has_value(); };
  EXPECT_TRUE(matches());
  plan.offsets[y] = plan.offsets[x] + 64;  // x has 96 bytes
  EXPECT_FALSE(matches());
  EXPECT_TRUE(match_at(g, 1, Mode::structural).has_value());
  plan.offsets[y] = plan.offsets[x] + 128;
  plan.offsets[n] = plan.offsets[y];  // a member may share: it never leaves the group
  EXPECT_TRUE(matches());
}

TEST(Matcher, PlannedModelsMatchInFullMode) {
  for (const bool flag : {false, true}) {
    ir::Graph g = model_graph({.qk_norm = flag, .qkv_bias = !flag, .post_norm = flag});
    fuse(g, {}, true);
    const ir::Plan plan = *ir::plan_buffers(g);
    const Matcher matcher(g, {}, &plan);
    for (const ir::Group& group : g.groups) {
      const auto match = matcher.at(group.nodes.front(), Mode::full);
      ASSERT_EQ(match.has_value(), group.rule != UINT16_MAX);
      EXPECT_TRUE(!match || static_cast<uint16_t>(match->rule) == group.rule);
    }
  }
}

TEST(CheckGroups, RefusesRulesThatDoNotMatch) {
  ir::Graph g = model_graph({});
  fuse(g, {}, true);
  ASSERT_TRUE(check_groups(g));
  for (ir::Group& group : g.groups)
    if (group.rule == static_cast<uint16_t>(RuleId::rms_norm_mul)) group.rule = static_cast<uint16_t>(RuleId::norm_mul);
  EXPECT_THAT(check_groups(g).error().message(), HasSubstr("the nodes do not match NORM+MUL"));
  for (ir::Group& group : g.groups)
    if (group.rule != UINT16_MAX) group.rule = 9999;
  EXPECT_THAT(check_groups(g).error().message(), HasSubstr("there is no fusion rule 9999"));
}

}  // namespace
}  // namespace tokamak::fuse
