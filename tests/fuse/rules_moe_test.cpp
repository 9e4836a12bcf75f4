// Top-k routing: every form, and what keeps it from firing.
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

}  // namespace
}  // namespace tokamak::fuse
