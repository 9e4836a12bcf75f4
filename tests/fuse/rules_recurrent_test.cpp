// Convolutions, delta nets, and small element-wise rules.
#include <gtest/gtest.h>

#include <functional>

#include "fuse/rules_helpers.h"

namespace tokamak::fuse {
namespace {

ir::RecurrentInputs recurrent(GraphBuilder& b, int64_t n_snapshots = 1) {
  return {.seq_ids = b.input(ir::InputRole::seq_ids, {3}),
          .state_src = b.input(ir::InputRole::state_src, {2}),
          .state_rows = b.input(ir::InputRole::state_rows, {2}),
          .n_snapshots = n_snapshots};
}
ValueId conv_state(GraphBuilder& b, int32_t layer = 0) {
  return b.state(ir::StateRole::conv, layer, DType::f32, {9, 24});
}

struct ConvCase {
  bool bias = false, one_bias = false, bias_is_computed = false, conv_is_output = false, other_input = false;
  ir::Unary function = ir::Unary::silu;
};
std::string conv_fused(const ConvCase& c) {
  return fused([&](GraphBuilder& b) {
    const ValueId x = rows(b);
    ValueId bias = vec(b, "bias", c.one_bias ? 1 : 8);
    if (c.bias_is_computed) bias = b.scale(bias, 2);
    ValueId y = b.ssm_conv(x, b.weight("taps", DType::f32, {8, 4}), conv_state(b), recurrent(b));
    if (c.conv_is_output) b.output(y);
    if (c.bias) y = b.add(y, bias);
    b.output(b.unary(c.other_input ? x : y, c.function));
    if (c.other_input) b.output(y);
  });
}

TEST(SsmConvSilu, WithAndWithoutBias) {
  EXPECT_EQ(conv_fused({}), "SSM_CONV+SILU");
  EXPECT_EQ(conv_fused({.bias = true}), "SSM_CONV+ADD+SILU");
  EXPECT_EQ(conv_fused({.bias = true, .one_bias = true}), "") << "one number for all channels";
  EXPECT_EQ(conv_fused({.function = ir::Unary::gelu}), "");
  EXPECT_EQ(conv_fused({.bias = true, .bias_is_computed = true}), "");
  EXPECT_EQ(conv_fused({.conv_is_output = true}), "");
  EXPECT_EQ(conv_fused({.other_input = true}), "");
}

TEST(ConvStateCpy, GoesBackWhereItCameFrom) {
  const auto with = [](int32_t layer, bool is_output) {
    return fused([&](GraphBuilder& b) {
      const ir::RecurrentInputs in = recurrent(b, 2);
      const ValueId states = b.ssm_conv_state(rows(b), conv_state(b), in);
      b.cpy(conv_state(b, layer), states, in.state_rows);
      if (is_output) b.output(states);
    });
  };
  EXPECT_EQ(with(0, false), "SSM_CONV_STATE+CPY");
  EXPECT_EQ(with(1, false), "") << "another layer's state";
  EXPECT_EQ(with(0, true), "") << "the states leave the group";
}

struct NetCase {
  int64_t n_snapshots = 2;
  bool state_part_read = false, whole_is_output = false, states_are_output = false, gaps_read = false,
       other_state = false, first_half_only = false, scores_written = false, reads_y = true;
};
std::string net_fused(const NetCase& c) {
  return fused([&](GraphBuilder& b) {
    const ir::RecurrentInputs in = recurrent(b, c.n_snapshots);
    const ValueId x = b.reshape(rows(b, 3, 8), {3, 2, 4}), g = rows(b, 3, 2);
    const ValueId state = b.state(ir::StateRole::recurrent, 0, DType::f32, {9, 32});
    const ValueId net = b.gated_delta_net(x, x, x, g, g, state, in, 1, ir::HeadMap::tiled);
    const int64_t n_states = 2 * c.n_snapshots;
    const ValueId states = b.view(net, 24, {n_states * 32});
    ValueId written = b.reshape(states, {n_states, 32});
    if (c.first_half_only) written = b.reshape(b.view(net, 24, {n_states * 16}), {n_states / 2, 32});
    if (c.scores_written) written = b.reshape(b.view(net, 8, {n_states * 32}), {n_states, 32});
    const ValueId target = c.other_state ? b.state(ir::StateRole::recurrent, 1, DType::f32, {9, 32}) : state;
    b.cpy(target, written, in.state_rows);
    if (c.reads_y) b.output(b.scale(b.view(net, 0, {24}), 2));
    if (c.state_part_read) b.output(b.scale(states, 2));
    if (c.whole_is_output) b.output(net);
    if (c.states_are_output) b.output(states);
    // Starts in y and holds no more elements than it, but reaches into the states.
    if (c.gaps_read)
      b.output(b.scale(b.view(b.reshape(net, {(24 + n_states * 32) / 8, 8}), 0, {3 + n_states * 4, 1}), 2));
  });
}

TEST(DeltaNetCpy, WritesAllStatesAndNothingElse) {
  EXPECT_EQ(net_fused({}), "GATED_DELTA_NET+CPY");
  EXPECT_EQ(net_fused({.n_snapshots = 1}), "GATED_DELTA_NET+CPY");
  EXPECT_EQ(net_fused({.reads_y = false}), "GATED_DELTA_NET+CPY");
  EXPECT_EQ(net_fused({.state_part_read = true}), "") << "the states are read elsewhere";
  EXPECT_EQ(net_fused({.whole_is_output = true}), "");
  EXPECT_EQ(net_fused({.states_are_output = true}), "");
  EXPECT_EQ(net_fused({.gaps_read = true}), "");
  EXPECT_EQ(net_fused({.other_state = true}), "") << "not the state that was read";
  EXPECT_EQ(net_fused({.first_half_only = true}), "");
  EXPECT_EQ(net_fused({.scores_written = true}), "");
}

struct PairCase {
  ir::Unary function = ir::Unary::silu;
  bool unary_second = false, vector = false, squared = false, other_is_later = false, unary_is_output = false;
};
std::string pair_fused(const PairCase& c) {
  return fused([&](GraphBuilder& b) {
    const ValueId x = rows(b), y = more(b);
    const ValueId f = b.unary(x, c.function);
    if (c.unary_is_output) b.output(f);
    const ValueId other = c.squared ? f : c.vector ? vec(b) : y;
    b.output(c.unary_second ? b.mul(other, f) : b.mul(f, other));
  });
}

TEST(UnaryMul, SiluSigmoidSoftplusOnEitherSide) {
  EXPECT_EQ(pair_fused({}), "SILU+MUL");
  EXPECT_EQ(pair_fused({.function = ir::Unary::sigmoid, .unary_second = true}), "SIGMOID+MUL");
  EXPECT_EQ(pair_fused({.function = ir::Unary::softplus}), "SOFTPLUS+MUL");
  EXPECT_EQ(pair_fused({.function = ir::Unary::gelu}), "");
  EXPECT_EQ(pair_fused({.vector = true}), "") << "shapes differ";
  EXPECT_EQ(pair_fused({.squared = true}), "");
  EXPECT_EQ(pair_fused({.unary_is_output = true}), "");
}

TEST(ReluSqr, InThatOrder) {
  const auto with = [](ir::Unary first, ir::Unary second) {
    return fused([&](GraphBuilder& b) { b.output(b.unary(b.unary(rows(b), first), second)); });
  };
  EXPECT_EQ(with(ir::Unary::relu, ir::Unary::sqr), "RELU+SQR");
  EXPECT_EQ(with(ir::Unary::sqr, ir::Unary::relu), "");
  EXPECT_EQ(with(ir::Unary::relu, ir::Unary::sqrt), "");
}

TEST(MulChain, OfEqualFactors) {
  EXPECT_EQ(fused([](GraphBuilder& b) { b.output(b.mul(b.mul(rows(b), vec(b)), vec(b, "v2"))); }), "MUL+MUL");
  EXPECT_EQ(fused([](GraphBuilder& b) { b.output(b.mul(b.mul(rows(b), vec(b)), vec(b, "one", 1))); }), "");
  EXPECT_EQ(fused([](GraphBuilder& b) {
              ValueId x = rows(b);
              const ValueId y = more(b);
              for (int i = 0; i < 7; ++i) x = b.mul(x, y);
              b.output(x);
            }),
            "MUL+MUL+MUL+MUL+MUL+MUL+MUL");
}

struct SnakeCase {
  bool wide_a = false, wide_b = false, other_x = false, sum_swapped = false, inner_is_output = false;
  ir::Unary first = ir::Unary::sin, second = ir::Unary::sqr;
};
std::string snake_fused(const SnakeCase& c) {
  return fused([&](GraphBuilder& b) {
    const ValueId x = rows(b), y = more(b);
    const ValueId a = b.weight("a", DType::f32, {3, c.wide_a ? 8 : 1});
    const ValueId inverse = b.weight("inverse b", DType::f32, {3, c.wide_b ? 8 : 1});
    const ValueId s = b.unary(b.unary(b.mul(x, a), c.first), c.second);
    const ValueId scaled = b.mul(s, inverse);
    if (c.inner_is_output) b.output(s);
    const ValueId left = c.other_x ? y : x;
    b.output(c.sum_swapped ? b.add(scaled, left) : b.add(left, scaled));
  });
}

TEST(Snake, NeedsItsWholeShape) {
  EXPECT_EQ(snake_fused({}), "MUL+SIN+SQR+MUL+ADD");
  EXPECT_EQ(snake_fused({.sum_swapped = true}), "MUL+SIN+SQR+MUL+ADD");
  EXPECT_EQ(snake_fused({.wide_a = true}), "");
  EXPECT_EQ(snake_fused({.wide_b = true}), "");
  EXPECT_EQ(snake_fused({.other_x = true}), "") << "the sum must read the same x";
  EXPECT_EQ(snake_fused({.inner_is_output = true}), "");
  EXPECT_EQ(snake_fused({.first = ir::Unary::tanh}), "");
  EXPECT_EQ(snake_fused({.second = ir::Unary::relu}), "");
}

}  // namespace
}  // namespace tokamak::fuse
