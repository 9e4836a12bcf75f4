// Matmul epilogues: post-scale, bias, residual, gate and GLU, dense and per expert.
#include <gtest/gtest.h>

#include "fuse/rules_helpers.h"

namespace tokamak::fuse {
namespace {

// A lane y = scale * (W x) + bias with everything that may be wrong about it.
struct LaneCase {
  DType type = DType::nvfp4;
  bool scale = true, bias = false;
  int64_t n_scale = 1;
  bool scale_is_computed = false, scale_first = false, product_is_output = false, sum_is_output = false;
  bool bias_before_scale = false, bias_is_computed = false;
  DType scale_type = DType::f32;
};

ValueId lane(GraphBuilder& b, const char* name, ValueId x, const LaneCase& c) {
  const std::string prefix = name;
  const ValueId w = b.weight(prefix, c.type, {64, 64});
  ValueId scale = ir::kNone, bias = ir::kNone;
  if (c.scale) scale = b.weight(prefix + ".scale", c.scale_type, {c.n_scale});
  if (c.scale_is_computed) scale = b.scale(b.weight(prefix + ".scale", DType::f32, {1}), 2);
  if (c.bias) bias = b.weight(prefix + ".bias", DType::f32, {64});
  if (c.bias_is_computed) bias = b.scale(bias, 2);
  ValueId y = b.mul_mat(w, x);
  if (c.product_is_output) b.output(y);
  if (c.bias && c.bias_before_scale) y = b.add(y, bias);
  if (c.scale) y = c.scale_first ? b.mul(scale, y) : b.mul(y, scale);
  if (c.sum_is_output) b.output(y);
  if (c.bias && !c.bias_before_scale) y = b.add(y, bias);
  return y;
}

std::string lane_fused(const LaneCase& c) {
  return fused([&](GraphBuilder& b) { b.output(lane(b, "w", rows(b, 3, 64), c)); });
}

TEST(MulMatScale, OnlyForNvfp4) {
  EXPECT_EQ(lane_fused({}), "MUL_MAT+MUL");
  EXPECT_EQ(lane_fused({.bias = true}), "MUL_MAT+MUL+ADD");
  for (const DType type : {DType::f32, DType::q8_0, DType::mxfp4}) EXPECT_EQ(lane_fused({.type = type}), "");
  EXPECT_EQ(lane_fused({.type = DType::q8_0, .bias = true}), "") << "the scale stands between";
  EXPECT_EQ(lane_fused({.scale = false, .bias = true}), "MUL_MAT+ADD") << "a bias alone needs no NVFP4";
}

TEST(MulMatScale, IsOneConstantNumber) {
  EXPECT_EQ(lane_fused({.n_scale = 64}), "") << "a vector is no scale of the tensor";
  EXPECT_EQ(lane_fused({.scale_is_computed = true}), "");
}

TEST(MulMatScale, ProductAndSumMustStayInside) {
  EXPECT_EQ(lane_fused({.product_is_output = true}), "");
  EXPECT_EQ(lane_fused({.bias = true, .sum_is_output = true}), "MUL_MAT+MUL");
}

TEST(MulMatScale, ComesBeforeTheBias) {
  EXPECT_EQ(lane_fused({.bias = true, .bias_before_scale = true}), "MUL_MAT+ADD");
  EXPECT_EQ(lane_fused({.bias = true, .bias_is_computed = true}), "MUL_MAT+MUL") << "a bias is constant";
}

TEST(MulMatScale, ResidualAfterTheScale) {
  EXPECT_EQ(fused([](GraphBuilder& b) {
              const ValueId x = rows(b, 3, 64);
              b.output(b.add(x, lane(b, "w", x, {})));
            }),
            "MUL_MAT+MUL+ADD");
}

struct LanesCase {
  LaneCase gate, up;
  bool swapped = false, other_input = false;
};
std::string lanes_fused(const LanesCase& c) {
  return fused([&](GraphBuilder& b) {
    const ValueId x = rows(b, 3, 64), y = c.other_input ? b.scale(x, 2) : x;
    const ValueId gate = lane(b, "gate", x, c.gate), up = lane(b, "up", y, c.up);
    b.output(c.swapped ? b.glu(up, gate, ir::Glu::swiglu) : b.glu(gate, up, ir::Glu::swiglu));
  });
}

TEST(MulMatGluLanes, BothLanesHaveTheSameEpilogue) {
  EXPECT_EQ(lanes_fused({}), "MUL_MAT+MUL+MUL_MAT+MUL+GLU");
  EXPECT_EQ(lanes_fused({{.bias = true}, {.bias = true}}), "MUL_MAT+MUL+ADD+MUL_MAT+MUL+ADD+GLU");
  const LaneCase bias{.type = DType::q8_0, .scale = false, .bias = true};
  EXPECT_EQ(lanes_fused({bias, bias}), "MUL_MAT+ADD+MUL_MAT+ADD+GLU");
  EXPECT_EQ(lanes_fused({{.bias = true}, {}}), "MUL_MAT+MUL+ADD,MUL_MAT+MUL") << "one bias";
  EXPECT_EQ(lanes_fused({{}, {.scale = false}}), "MUL_MAT+MUL") << "one scale";
  EXPECT_EQ(lanes_fused({{.type = DType::q8_0}, {.type = DType::q8_0}}), "") << "a scale of another type";
}

TEST(MulMatGluLanes, GateFirstAndOneInput) {
  EXPECT_EQ(lanes_fused({.swapped = true}), "MUL_MAT+MUL,MUL_MAT+MUL");
  EXPECT_EQ(lanes_fused({.other_input = true}), "MUL_MAT+MUL,MUL_MAT+MUL");
  EXPECT_EQ(lanes_fused({{}, {.sum_is_output = true}}), "MUL_MAT+MUL,MUL_MAT+MUL") << "a lane is read elsewhere";
}

// The same per expert.
struct ExpertCase {
  DType type = DType::nvfp4;
  bool scale = true, bias = false;
  bool other_ids_of_scale = false, other_ids_of_bias = false, scale_is_computed = false, product_is_output = false;
  int64_t n_bias = 4;
};

struct Experts {
  GraphBuilder& b;
  ValueId x = b.reshape(rows(b, 3, 64), {3, 1, 64});
  ValueId router = b.get_rows(b.weight("router", DType::f32, {9, 4}), b.input(ir::InputRole::tokens, {3}));
  ValueId ids = b.view(b.argsort(router), 0, {3, 2});
  ValueId other_ids = b.view(b.argsort(b.scale(router, -1)), 0, {3, 2});

  ValueId lane(const char* name, const ExpertCase& c) {
    const std::string prefix = name;
    const ValueId w = b.weight(prefix, c.type, {4, 64, 64});
    ValueId table = b.weight(prefix + ".scale", DType::f32, {4, 1});
    if (c.scale_is_computed) table = b.scale(table, 2);
    ValueId y = b.mul_mat_id(w, x, ids);
    if (c.product_is_output) b.output(y);
    if (c.scale) y = b.mul(y, b.get_rows(table, c.other_ids_of_scale ? other_ids : ids));
    if (c.bias)
      y = b.add_id(y, b.weight(prefix + ".bias", DType::f32, {c.n_bias, 64}), c.other_ids_of_bias ? other_ids : ids);
    return y;
  }
};

std::string expert_fused(const ExpertCase& c) {
  return fused([&](GraphBuilder& b) { b.output(Experts{b}.lane("w", c)); });
}

TEST(MulMatIdScale, OfTheChosenExperts) {
  EXPECT_EQ(expert_fused({}), "MUL_MAT_ID+GET_ROWS+MUL");
  EXPECT_EQ(expert_fused({.bias = true}), "MUL_MAT_ID+GET_ROWS+MUL+ADD_ID");
  EXPECT_EQ(expert_fused({.scale = false, .bias = true}), "MUL_MAT_ID+ADD_ID");
  EXPECT_EQ(expert_fused({.scale = false}), "");
  EXPECT_EQ(expert_fused({.type = DType::q8_0}), "") << "no NVFP4";
  EXPECT_EQ(expert_fused({.other_ids_of_scale = true}), "");
  EXPECT_EQ(expert_fused({.scale = false, .bias = true, .other_ids_of_bias = true}), "");
  EXPECT_EQ(expert_fused({.bias = true, .other_ids_of_bias = true}), "MUL_MAT_ID+GET_ROWS+MUL");
  EXPECT_EQ(expert_fused({.scale_is_computed = true}), "");
  EXPECT_EQ(expert_fused({.product_is_output = true}), "");
  EXPECT_EQ(expert_fused({.bias = true, .n_bias = 5}), "MUL_MAT_ID+GET_ROWS+MUL") << "a bias of other experts";
}

std::string experts_fused(const ExpertCase& gate, const ExpertCase& up, bool swapped = false) {
  return fused([&](GraphBuilder& b) {
    Experts e{b};
    const ValueId first = e.lane("gate", gate), second = e.lane("up", up);
    b.output(swapped ? b.glu(second, first, ir::Glu::swiglu) : b.glu(first, second, ir::Glu::swiglu));
  });
}

TEST(MulMatIdGlu, BothLanesOfTheChosenExperts) {
  EXPECT_EQ(experts_fused({}, {}), "MUL_MAT_ID+GET_ROWS+MUL+MUL_MAT_ID+GET_ROWS+MUL+GLU");
  EXPECT_EQ(experts_fused({.bias = true}, {.bias = true}),
            "MUL_MAT_ID+GET_ROWS+MUL+ADD_ID+MUL_MAT_ID+GET_ROWS+MUL+ADD_ID+GLU");
  const ExpertCase plain{.type = DType::q8_0, .scale = false}, bias{.type = DType::q8_0, .scale = false, .bias = true};
  EXPECT_EQ(experts_fused(plain, plain), "MUL_MAT_ID+MUL_MAT_ID+GLU");
  EXPECT_EQ(experts_fused(bias, bias), "MUL_MAT_ID+ADD_ID+MUL_MAT_ID+ADD_ID+GLU");
  EXPECT_EQ(experts_fused(plain, bias), "MUL_MAT_ID+ADD_ID") << "one bias";
  EXPECT_EQ(experts_fused(plain, plain, true), "") << "the gate is the first product";
  EXPECT_EQ(experts_fused(plain, {.type = DType::q4_0, .scale = false}), "") << "weights of different types";
  EXPECT_EQ(experts_fused({}, {.other_ids_of_scale = true}), "MUL_MAT_ID+GET_ROWS+MUL");
}

}  // namespace
}  // namespace tokamak::fuse
