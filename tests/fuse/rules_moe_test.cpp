// Top-k routing and the sum over experts: every form, and what keeps it from firing.
#include <gtest/gtest.h>

#include "fuse/rules_helpers.h"

namespace tokamak::fuse {
namespace {

enum class Scores { softmax, sigmoid, softplus, tanh };

struct RouterCase {
  Scores scores = Scores::softmax;
  bool bias = false, groups = false, norm = false, scale = false;
  bool one_bias = false, looks_up_biased = false, reads_all_ids = false, looks_up_all = false, other_slice = false,
       later_slice = false, probs_are_output = false, clamp = true, scale_has_bias = false, sums_other = false,
       bias_is_computed = false, ids_are_used = true, offset = false;
};

ValueId scores_of(GraphBuilder& b, ValueId logits, Scores kind) {
  switch (kind) {
    case Scores::softmax:
      return b.soft_max(logits);
    case Scores::sigmoid:
      return b.unary(logits, ir::Unary::sigmoid);
    case Scores::softplus:
      return b.unary(b.unary(logits, ir::Unary::softplus), ir::Unary::sqrt);
    case Scores::tanh:
      break;
  }
  return b.unary(logits, ir::Unary::tanh);
}

std::string router_fused(const RouterCase& c) {
  return fused([&](GraphBuilder& b) {
    const ValueId logits = rows(b, 3, 8), x = b.reshape(more(b), {3, 1, 8});
    ValueId vector = vec(b, "bias", c.one_bias ? 1 : 8);
    if (c.bias_is_computed) vector = b.scale(vector, 2);
    const ValueId probs = scores_of(b, logits, c.scores);
    if (c.probs_are_output) b.output(probs);
    ValueId choice = probs;
    if (c.bias) choice = b.add(choice, vector);
    if (c.groups) choice = b.mask_groups(choice, 4, 2, 1);
    const ValueId sorted = b.argsort(choice);
    const ValueId ids = b.view(sorted, c.offset ? 1 : 0, {3, 2});
    ValueId weights = b.get_rows(b.reshape(c.looks_up_biased ? choice : probs, {3, 8, 1}), ids);
    if (c.norm) {
      weights = b.reshape(weights, {3, 2});
      ValueId sum = b.sum_rows(c.sums_other ? logits : weights);
      if (c.clamp) sum = b.clamp(sum, 1e-9, 1e9);
      weights = b.reshape(b.div(weights, sum), {3, 2, 1});
    }
    if (c.scale) weights = b.scale(weights, 2.5, c.scale_has_bias ? 1 : 0);
    const ValueId experts = b.weight("experts", DType::q8_0, {8, 32, 32});
    const ValueId wide = b.reshape(rows(b, 3, 32), {3, 1, 32});
    const ValueId used = c.reads_all_ids ? sorted
                         : c.other_slice ? b.view(sorted, 0, {3, 3})
                         : c.later_slice ? b.view(sorted, 2, {3, 2})
                                         : ids;
    if (c.looks_up_all) b.output(b.get_rows(b.weight("digits", DType::f32, {8, 1}), sorted));
    if (c.ids_are_used) b.output(b.mul_mat_id(experts, wide, used));
    b.output(weights);
    b.output(x);
  });
}

TEST(TopkMoe, SoftmaxWithAndWithoutItsParts) {
  EXPECT_EQ(router_fused({}), "SOFT_MAX+ARGSORT+GET_ROWS");
  EXPECT_EQ(router_fused({.norm = true}), "SOFT_MAX+ARGSORT+GET_ROWS+SUM_ROWS+CLAMP+DIV");
  EXPECT_EQ(router_fused({.scale = true}), "SOFT_MAX+ARGSORT+GET_ROWS+SCALE");
  EXPECT_EQ(router_fused({.groups = true}), "SOFT_MAX+MASK_GROUPS+ARGSORT+GET_ROWS");
  EXPECT_EQ(router_fused({.bias = true, .groups = true, .norm = true, .scale = true}),
            "SOFT_MAX+ADD+MASK_GROUPS+ARGSORT+GET_ROWS+SUM_ROWS+CLAMP+DIV+SCALE");
  EXPECT_EQ(router_fused({.ids_are_used = false}), "SOFT_MAX+ARGSORT+GET_ROWS");
}

TEST(TopkMoe, OtherScores) {
  EXPECT_EQ(router_fused({.scores = Scores::sigmoid, .bias = true, .norm = true, .scale = true}),
            "SIGMOID+ADD+ARGSORT+GET_ROWS+SUM_ROWS+CLAMP+DIV+SCALE");
  EXPECT_EQ(router_fused({.scores = Scores::softplus, .bias = true, .norm = true, .scale = true}),
            "SOFTPLUS+SQRT+ADD+ARGSORT+GET_ROWS+SUM_ROWS+CLAMP+DIV+SCALE");
  EXPECT_EQ(router_fused({.scores = Scores::softplus}), "SOFTPLUS+SQRT+ARGSORT+GET_ROWS");
  EXPECT_EQ(router_fused({.scores = Scores::tanh}), "");
}

TEST(TopkMoe, WeightsComeFromTheUnbiasedScores) {
  EXPECT_EQ(router_fused({.bias = true, .looks_up_biased = true}), "");
  EXPECT_EQ(router_fused({.bias = true, .bias_is_computed = true}), "") << "a bias is constant";
  EXPECT_EQ(router_fused({.bias = true, .one_bias = true}), "") << "one number for all experts";
}

TEST(TopkMoe, OnlyTheFirstColumnsAreRead) {
  EXPECT_EQ(router_fused({.reads_all_ids = true}), "") << "a reader of all sorted indices";
  EXPECT_EQ(router_fused({.other_slice = true}), "") << "a reader of more columns than were looked up";
  EXPECT_EQ(router_fused({.later_slice = true}), "") << "a reader of others";
  EXPECT_EQ(router_fused({.looks_up_all = true}), "") << "another look-up of all sorted indices";
  EXPECT_EQ(router_fused({.offset = true}), "") << "not the best ones";
}

TEST(TopkMoe, ProbabilitiesMustStayInside) { EXPECT_EQ(router_fused({.probs_are_output = true}), ""); }

TEST(TopkMoe, ShorterWhenTheTailDoesNotFit) {
  EXPECT_EQ(router_fused({.norm = true, .clamp = false}), "SOFT_MAX+ARGSORT+GET_ROWS");
  EXPECT_EQ(router_fused({.norm = true, .sums_other = true}), "SOFT_MAX+ARGSORT+GET_ROWS");
  EXPECT_EQ(router_fused({.scale = true, .scale_has_bias = true}), "SOFT_MAX+ARGSORT+GET_ROWS");
}

struct LateCase {
  bool sigmoid = false, other_table = false, one_row = true, reads_all_ids = false, gathered_is_output = false,
       view_inside = false;
};
std::string late_fused(const LateCase& c) {
  return fused([&](GraphBuilder& b) {
    const ValueId logits = rows(b, 3, 8), other = b.reshape(more(b), {3, 8, 1});
    ValueId table = b.reshape(logits, {3, 8, 1});
    const ValueId sorted = b.argsort(logits);
    const ValueId ids = b.view(sorted, 0, {3, 2});
    if (c.view_inside) table = b.reshape(logits, {3, 8, 1});
    const ValueId picked = b.get_rows(c.other_table ? other : table, ids);
    if (c.gathered_is_output) b.output(picked);
    const ValueId in = c.one_row ? b.reshape(picked, {3, 2}) : picked;
    b.output(c.sigmoid ? b.unary(in, ir::Unary::sigmoid) : b.soft_max(in));
    if (c.reads_all_ids) b.output(b.get_rows(b.weight("digits", DType::f32, {8, 1}), b.view(sorted, 0, {3, 4})));
  });
}

TEST(TopkMoeLate, SoftmaxOrSigmoidOfTheChosen) {
  EXPECT_EQ(late_fused({}), "ARGSORT+GET_ROWS+SOFT_MAX");
  EXPECT_EQ(late_fused({.sigmoid = true}), "ARGSORT+GET_ROWS+SIGMOID");
  EXPECT_EQ(late_fused({.sigmoid = true, .one_row = false}), "ARGSORT+GET_ROWS+SIGMOID");
  EXPECT_EQ(late_fused({.one_row = false}), "") << "a softmax over rows of one";
  EXPECT_EQ(late_fused({.other_table = true}), "");
  EXPECT_EQ(late_fused({.reads_all_ids = true}), "");
  EXPECT_EQ(late_fused({.view_inside = true}), "") << "a view of the logits, made inside the group";
  EXPECT_EQ(late_fused({.gathered_is_output = true}), "");
}

struct SumCase {
  int64_t n_used = 2, n_tokens = 3;
  int addends = 0;
  bool addend_first = false, weight_first = false, one_weight = false, swapped = false, skips_one = false,
       later_addend = false, vector_addend = false, weighted_is_output = false, sum_is_output = false,
       total_is_output = false, part_is_read = false, node_between = false, view_between = false, wider = false;
};
std::string sum_fused(const SumCase& c) {
  constexpr int64_t kEmbd = 8;
  return fused([&](GraphBuilder& b) {
    const int64_t n = c.n_tokens, width = c.n_used * kEmbd;
    const ValueId tokens = b.input(ir::InputRole::tokens, {n});
    const auto made = [&](const char* name, int64_t elems) {
      return b.get_rows(b.weight(name, DType::f32, {9, elems}), tokens);
    };
    std::vector<ValueId> addends;
    for (const char* name : {"a", "b", "c"}) addends.push_back(made(name, kEmbd));
    if (c.vector_addend) addends[0] = vec(b, "bias", kEmbd);
    const ValueId x = b.reshape(made("x", width), {n, c.n_used, kEmbd});
    const ValueId w = b.reshape(made("w", c.one_weight ? 1 : c.n_used), {n, c.one_weight ? 1 : c.n_used, 1});
    const ValueId weighted = c.weight_first ? b.mul(b.reshape(made("v", width), {n, c.n_used, kEmbd}), x)
                                            : b.mul(x, c.one_weight ? vec(b, "one", 1) : w);
    if (c.weighted_is_output) b.output(weighted);
    const ValueId flat = b.reshape(weighted, {n, width});
    const auto part = [&](int64_t i) { return b.view(flat, i * kEmbd + (c.wider ? 1 : 0), {n, kEmbd - c.wider}); };
    ValueId sum = c.n_used == 1 ? flat : part(0);
    if (c.part_is_read) b.output(b.scale(sum, 2));
    for (int64_t i = 1; i < c.n_used; ++i) {
      const ValueId more = part(c.skips_one ? i - 1 : i);
      sum = c.swapped ? b.add(more, sum) : b.add(sum, more);
      if (c.sum_is_output && i == 1) b.output(sum);
    }
    if (c.total_is_output) b.output(sum);
    if (c.later_addend) addends[0] = b.scale(addends[0], 2);
    if (c.node_between) sum = b.scale(sum, 2);
    if (c.view_between) addends[0] = b.reshape(b.reshape(addends[0], {n * kEmbd}), {n, kEmbd});
    for (int i = 0; i < c.addends; ++i) {
      const ValueId addend = addends[static_cast<size_t>(i)];
      sum = c.addend_first ? b.add(addend, sum) : b.add(sum, addend);
    }
    b.output(sum);
  });
}
std::string sum_label(int n_adds) { return n_adds == 1 ? "MUL+ADD" : "MUL+ADD*" + std::to_string(n_adds); }

TEST(MoeSum, AnyNumberOfExperts) {
  for (int n_used : {2, 3, 8, 16, 40})
    for (int64_t n_tokens : {1, 3})
      for (int addends : {0, 1, 2}) {
        const SumCase c{.n_used = n_used, .n_tokens = n_tokens, .addends = addends};
        EXPECT_EQ(sum_fused(c), sum_label(n_used - 1 + addends)) << n_used << " " << n_tokens << " " << addends;
      }
}

TEST(MoeSum, OneExpert) {
  EXPECT_EQ(sum_fused({.n_used = 1}), "") << "nothing to sum";
  EXPECT_EQ(sum_fused({.n_used = 1, .addends = 1}), "MUL+ADD");
  EXPECT_EQ(sum_fused({.n_used = 1, .addends = 2}), "MUL+ADD*2");
}

TEST(MoeSum, AddendsOnEitherSide) {
  EXPECT_EQ(sum_fused({.addends = 2, .addend_first = true}), "MUL+ADD*3");
  EXPECT_EQ(sum_fused({.n_used = 1, .addends = 1, .addend_first = true}), "MUL+ADD");
}

TEST(MoeSum, ShorterWhenTheTailDoesNotFit) {
  EXPECT_EQ(sum_fused({.n_used = 4, .addends = 3}), sum_label(3 + 2)) << "more addends than kernels take";
  EXPECT_EQ(sum_fused({.addends = 2, .total_is_output = true}), "MUL+ADD,ADD+ADD") << "the sum without them is read";
  EXPECT_EQ(sum_fused({.addends = 1, .later_addend = true}), "MUL+ADD") << "made behind the sum";
  EXPECT_EQ(sum_fused({.addends = 1, .vector_addend = true}), "MUL+ADD") << "one row for all tokens";
  EXPECT_EQ(sum_fused({.addends = 1, .view_between = true}), "MUL+ADD") << "a view of something from outside";
  EXPECT_EQ(sum_fused({.addends = 1, .node_between = true}), "MUL+ADD");
}

TEST(MoeSum, NeedsTheExpertsInOrder) {
  EXPECT_EQ(sum_fused({.n_used = 3, .swapped = true}), "") << "another order of additions";
  EXPECT_EQ(sum_fused({.n_used = 3, .skips_one = true}), "") << "a part twice, another not at all";
  EXPECT_EQ(sum_fused({.wider = true}), "") << "parts of the rows";
}

TEST(MoeSum, NeedsOneWeightPerExpert) {
  EXPECT_EQ(sum_fused({.weight_first = true}), "") << "a weight per element";
  EXPECT_EQ(sum_fused({.one_weight = true}), "") << "one for all";
}

TEST(MoeSum, WhatIsInsideStaysInside) {
  EXPECT_EQ(sum_fused({.weighted_is_output = true}), "");
  EXPECT_EQ(sum_fused({.n_used = 3, .sum_is_output = true}), "");
  EXPECT_EQ(sum_fused({.part_is_read = true}), "");
}

// A backend may decline the long forms.
TEST(MoeSum, VetoedFormsFallBackToShorterOnes) {
  GraphBuilder b("g");
  const ValueId tokens = b.input(ir::InputRole::tokens, {3});
  const ValueId residual = rows(b), x = b.reshape(b.get_rows(b.weight("x", DType::f32, {9, 16}), tokens), {3, 2, 8});
  const ValueId w = b.reshape(b.get_rows(b.weight("w", DType::f32, {9, 2}), tokens), {3, 2, 1});
  const ValueId flat = b.reshape(b.mul(x, w), {3, 16});
  b.output(b.add(b.add(b.view(flat, 0, {3, 8}), b.view(flat, 8, {3, 8})), residual));
  ir::Graph graph = b.finish().value();
  fuse(
      graph, [](const ir::Graph&, const Rule&, std::span<const ir::NodeId> nodes) { return nodes.size() < 3; }, true);
  int found = 0;
  for (const ir::Group& group : graph.groups)
    if (group.rule == static_cast<uint16_t>(RuleId::moe_sum)) {
      ++found;
      EXPECT_EQ(group_label(graph, group), "MUL+ADD");
      EXPECT_EQ(pattern_nodes(graph, group).size(), 2u);
    }
  EXPECT_EQ(found, 1);
}

}  // namespace
}  // namespace tokamak::fuse
