// Routing, experts and small row-wise ops, on values worked out by hand.
#include <gtest/gtest.h>

#include <cmath>

#include "backend/reference/ops_helpers.h"

namespace tokamak::reference {
namespace {

using ir::ValueId;

TEST(ReferenceOpsTest, SubAndDivRepeatAColumnOrOneNumber) {
  Fixture f;
  const ValueId x = f.rows("x", 2, 3, {1, 2, 3, 4, 5, 6});
  const ValueId sums = f.b.sum_rows(x);  // 6, 15
  expect_near(f.run(f.b.div(f.b.sub(x, sums), f.values("two", {1}, {2}))), {-2.5, -2, -1.5, -5.5, -5, -4.5});
}

TEST(ReferenceOpsTest, ClampCutsBothEnds) {
  Fixture f;
  expect_near(f.run(f.b.clamp(f.rows("x", 1, 4, {-3, -0.5, 0.5, 3}), -1, 2)), {-1, -0.5, 0.5, 2});
}

TEST(ReferenceOpsTest, L2NormDividesByTheLength) {
  Fixture f;
  expect_near(f.run(f.b.l2_norm(f.rows("x", 1, 2, {3, 4}), 0)), {0.6, 0.8}, 1e-7);
  Fixture g;  // eps stands inside the root
  expect_near(g.run(g.b.l2_norm(g.rows("x", 2, 2, {3, 4, 0, 0}), 0.75)),
              {3 / std::sqrt(25.75), 4 / std::sqrt(25.75), 0, 0});
}

TEST(ReferenceOpsTest, MoreUnaryFunctions) {
  const std::map<ir::Unary, std::vector<double>> wanted = {
      {ir::Unary::softplus, {0.31326168751822286, 2.1269280110429727}},
      {ir::Unary::exp, {0.36787944117144233, 7.38905609893065}},
      {ir::Unary::sqr, {1, 4}},
      {ir::Unary::sin, {-0.8414709848078965, 0.9092974268256817}}};
  for (const auto& [function, expected] : wanted) {
    Fixture f;
    expect_near(f.run(f.b.unary(f.rows("x", 1, 2, {-1, 2}), function)), expected, 1e-6);
  }
  Fixture f;
  expect_near(f.run(f.b.unary(f.rows("x", 1, 2, {0, 9}), ir::Unary::sqrt)), {0, 3});
}

TEST(ReferenceOpsTest, SwigluOaiCutsAndShifts) {
  Fixture f;
  const ValueId gate = f.rows("gate", 1, 3, {1, 9, -9}), up = f.rows("up", 1, 3, {2, -9, 9});
  const auto sigmoid = [](double x) { return 1 / (1 + std::exp(-x)); };
  // The gate has an upper limit only.
  expect_near(f.run(f.b.glu(gate, up, {.kind = ir::Glu::swiglu_oai, .alpha = 2, .limit = 4})),
              {3 * sigmoid(2), -3 * 4 * sigmoid(8), 5 * -9 * sigmoid(-18)});
}

TEST(ReferenceOpsTest, SoftMaxOfLargeNumbers) {
  Fixture f;
  const double e = std::exp(1);
  expect_near(f.run(f.b.soft_max(f.rows("x", 2, 2, {1000, 1001, -5, -5}))), {1 / (1 + e), e / (1 + e), 0.5, 0.5});
}

TEST(ReferenceOpsTest, ArgsortFallsAndKeepsTheOrderOfEquals) {
  Fixture f;
  const ValueId x = f.rows("x", 2, 4, {1, 3, 3, 2, 0, 0, 0, 7});
  const ValueId sorted = f.b.get_rows(f.values("digits", {4, 1}, {0, 1, 2, 3}), f.b.argsort(x));
  expect_near(f.run(sorted), {1, 2, 3, 0, 3, 0, 1, 2});
}

TEST(ReferenceOpsTest, NanRanksLast) {
  Fixture f;
  const ValueId x = f.rows("x", 1, 4, {NAN, 1, 2, NAN});
  expect_near(f.run(f.b.get_rows(f.values("digits", {4, 1}, {0, 1, 2, 3}), f.b.argsort(x))), {2, 1, 0, 3});
  Fixture g;  // by their best: 1, 3, NaN
  const std::vector<double> none(2, -INFINITY);
  expect_near(g.run(g.b.mask_groups(g.rows("x", 1, 6, {NAN, 1, 3, 0, NAN, NAN}), 3, 1, 1)),
              {none[0], none[0], 3, 0, none[0], none[0]});
}

TEST(ReferenceOpsTest, GetRowsOfOneTablePerToken) {
  Fixture f;
  const ValueId x = f.rows("x", 2, 3, {10, 30, 20, 60, 50, 40});
  const ValueId best = f.b.view(f.b.argsort(x), 0, {2, 2});
  expect_near(f.run(f.b.get_rows(f.b.reshape(x, {2, 3, 1}), best)), {30, 20, 60, 50});
}

TEST(ReferenceOpsTest, MaskGroupsKeepsTheBestGroups) {
  const double none = -INFINITY;
  const std::vector<float> scores = {9, 0, 5, 5, 1, 2};
  Fixture f;  // by their best: 9, 5, 2
  expect_near(f.run(f.b.mask_groups(f.rows("x", 1, 6, scores), 3, 1, 1)), {9, 0, none, none, none, none});
  Fixture g;  // by their two best: 9, 10, 3
  expect_near(g.run(g.b.mask_groups(g.rows("x", 1, 6, scores), 3, 1, 2)), {none, none, 5, 5, none, none});
  Fixture h;
  expect_near(h.run(h.b.mask_groups(h.rows("x", 1, 6, scores), 3, 2, 2)), {9, 0, 5, 5, none, none});
}

TEST(ReferenceOpsTest, ConcatAndContOfSlices) {
  Fixture f;
  const ValueId x = f.rows("x", 2, 4, {1, 2, 3, 4, 5, 6, 7, 8});
  const ValueId middle = f.b.cont(f.b.view(x, 1, {2, 2}));
  expect_near(f.run(f.b.concat(middle, f.b.view(x, 3, {2, 1}))), {2, 3, 4, 6, 7, 8});
}

// Two experts [[1, 0], [0, 2]] and [[0, 3], [4, 0]]; the tokens choose (1, 0) and (0, 0).
ValueId chosen(Fixture& f, ValueId& ids) {
  ids = f.b.view(f.b.argsort(f.rows("router", 2, 2, {1, 2, 5, 5})), 0, {2, 2});
  return f.values("experts", {2, 2, 2}, {1, 0, 0, 2, 0, 3, 4, 0});
}

TEST(ReferenceOpsTest, MulMatIdWithOneInputPerTokenOrPerExpert) {
  Fixture f;
  ValueId ids = ir::kNone;
  const ValueId experts = chosen(f, ids);
  const ValueId x = f.rows("x", 2, 2, {1, 10, 2, 20});
  const ValueId y = f.b.mul_mat_id(experts, f.b.reshape(x, {2, 1, 2}), ids);  // [2, 2, 2]
  expect_near(f.run(y), {30, 4, 1, 20, 2, 40, 60, 8});
  Fixture g;
  const ValueId same = chosen(g, ids);
  const ValueId wide = g.rows("x", 2, 4, {1, 10, 3, 5, 2, 20, 7, 9});
  expect_near(g.run(g.b.mul_mat_id(same, g.b.reshape(wide, {2, 2, 2}), ids)), {30, 4, 3, 10, 2, 40, 27, 28});
}

TEST(ReferenceOpsTest, AddIdAddsTheBiasOfTheExpert) {
  Fixture f;
  ValueId ids = ir::kNone;
  chosen(f, ids);
  const ValueId x = f.b.reshape(f.rows("x", 2, 4, {1, 2, 3, 4, 5, 6, 7, 8}), {2, 2, 2});
  const ValueId bias = f.values("bias", {2, 2}, {10, 20, 100, 200});
  expect_near(f.run(f.b.add_id(x, bias, ids)), {101, 202, 13, 24, 15, 26, 107, 208});
}

TEST(ReferenceOpsTest, MulMatWithOneMatrixPerHead) {
  Fixture f;
  const ValueId x = f.b.reshape(f.rows("x", 2, 4, {1, 2, 3, 4, 5, 6, 7, 8}), {2, 2, 2});
  const ValueId w = f.values("w", {2, 1, 2}, {1, 0, 1, 1});
  expect_near(f.run(f.b.mul_mat(w, x)), {1, 7, 5, 15});
}

TEST(ReferenceOpsTest, AttnTempGrowsWithThePosition) {
  Fixture f;
  const ValueId x = f.b.reshape(f.rows("x", 3, 2, {1, 2, 1, 2, 1, 2}), {3, 2, 1});
  const double a = 1 + 0.1 * std::log(2), b = 1 + 0.1 * std::log(3);
  const ValueId y = f.b.attn_temp(x, f.positions({0, 15, 19}), {.scale = 0.1, .length = 10, .offset = 1});
  expect_near(f.run(y), {1, 2, a, 2 * a, b, 2 * b});
}

TEST(ReferenceOpsTest, CrossEntropyIsTheMeanOverRows) {
  Fixture f;
  const ValueId x = f.rows("x", 2, 2, {0, 1, 3, 3}), labels = f.rows("labels", 2, 2, {1, 0, 0.5, 0.5});
  const double first = std::log(1 + std::exp(1)), second = std::log(2);
  expect_near(f.run(f.b.node(ir::Op::cross_entropy_loss, {x, labels})), {(first + second) / 2});
}

TEST(ReferenceOpsTest, AttentionChunksHideEarlierOnes) {
  // Position 3 starts the second chunk of 3 and sees itself only; position 4 sees 3 and 4.
  Fixture f;
  const auto heads = [&](ValueId x) { return f.b.reshape(x, {5, 1, 1}); };
  const ValueId q = heads(f.rows("q", 5, 1, {0, 0, 0, 0, 0})), v = heads(f.rows("v", 5, 1, {1, 2, 6, 8, 16}));
  f.kv_config.layers = {{1, 1, 1}};
  const ValueId slots = f.slots({16, 17, 18, 19, 20});
  const ValueId keys = f.b.set_rows(f.b.state(ir::StateRole::kv_k, 0, DType::f32, {32, 1, 1}), q, slots);
  const ValueId values = f.b.set_rows(f.b.state(ir::StateRole::kv_v, 0, DType::f32, {32, 1, 1}), v, slots);
  const ValueId positions = f.positions({0, 1, 2, 3, 4}), seq_ids = f.seq_ids({0, 0, 0, 0, 0});
  expect_near(f.run(f.b.flash_attn_ext(q, keys, values, positions, seq_ids, {.chunk = 3})), {1, 1.5, 3, 8, 12});
}

}  // namespace
}  // namespace tokamak::reference
