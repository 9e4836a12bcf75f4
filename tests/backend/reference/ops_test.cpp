// The reference backend defines the ops, so it is tested on values worked out by hand.
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "backend/reference/ops_helpers.h"

namespace tokamak::reference {
namespace {

TEST(ReferenceOpsTest, AddAndMulRepeatTheSecondOperand) {
  Fixture f;
  const auto x = f.rows("x", 2, 3, {1, 2, 3, 4, 5, 6});
  const auto v = f.values("v", {3}, {10, 20, 30});
  expect_near(f.run(f.b.add(f.b.mul(x, v), x)), {11, 42, 93, 44, 105, 186});
}

TEST(ReferenceOpsTest, ScaleIsFactorThenBias) {
  Fixture f;
  expect_near(f.run(f.b.scale(f.rows("x", 1, 2, {3, -4}), 2, 1)), {7, -7});
}

TEST(ReferenceOpsTest, MulMatIsOneDotPerOutputRow) {
  Fixture f;
  const auto x = f.rows("x", 2, 3, {1, 0, -1, 2, 2, 2});
  const auto w = f.values("w", {2, 3}, {1, 2, 3, 4, 5, 6});
  expect_near(f.run(f.b.mul_mat(w, x)), {-2, -2, 12, 30});
}

TEST(ReferenceOpsTest, Norms) {
  Fixture f;
  const auto x = f.rows("x", 1, 4, {1, 3, 5, 7});
  const double rms = std::sqrt((1.0 + 9 + 25 + 49) / 4 + 0.5);
  expect_near(f.run(f.b.rms_norm(x, 0.5)), {1 / rms, 3 / rms, 5 / rms, 7 / rms});
  Fixture g;
  const auto y = g.rows("y", 1, 4, {1, 3, 5, 7});
  const double deviation = std::sqrt(5.0 + 0.5);
  expect_near(g.run(g.b.norm(y, 0.5)), {-3 / deviation, -1 / deviation, 1 / deviation, 3 / deviation});
}

TEST(ReferenceOpsTest, UnaryFunctions) {
  const std::map<ir::Unary, std::vector<double>> wanted = {
      {ir::Unary::silu, {-0.2689414213699951, 1.7615941559557649}},
      {ir::Unary::gelu, {-0.15880800939172324, 1.954597694087775}},
      {ir::Unary::gelu_erf, {-0.15865525393145707, 1.9544997361036416}},
      {ir::Unary::gelu_quick, {-0.15420423, 1.9356586}},
      {ir::Unary::relu, {0, 2}},
      {ir::Unary::sigmoid, {0.2689414213699951, 0.8807970779778823}},
      {ir::Unary::tanh, {-0.7615941559557649, 0.9640275800758169}}};
  for (const auto& [function, expected] : wanted) {
    Fixture f;
    expect_near(f.run(f.b.unary(f.rows("x", 1, 2, {-1, 2}), function)), expected, 2e-6);
  }
}

TEST(ReferenceOpsTest, GluActsOnTheGate) {
  Fixture f;
  const auto gate = f.rows("gate", 1, 2, {-1, 2}), up = f.rows("up", 1, 2, {3, 5});
  expect_near(f.run(f.b.glu(gate, up, ir::Glu::swiglu)), {-0.2689414 * 3, 1.7615942 * 5});
  Fixture g;
  const auto both = g.rows("both", 1, 4, {-1, 2, 3, 5});
  expect_near(g.run(g.b.glu_halves(both, {.kind = ir::Glu::reglu})), {0, 10});
}

TEST(ReferenceOpsTest, RopePairsAndPartialRotation) {
  for (const bool neox : {false, true}) {
    Fixture f;
    const auto x = f.b.reshape(f.rows("x", 1, 6, {1, 2, 3, 4, 5, 6}), {1, 1, 6});
    const ir::RopeParams params{
        .n_rot = 4, .pairing = neox ? ir::RopePairing::neox : ir::RopePairing::norm, .theta = 100, .attn_factor = 2};
    const double a = 3, b = 3 * 0.1;  // position 3; the second pair turns with 100^(-1/2)
    const auto turn = [](double x0, double x1, double angle) {
      return std::pair(2 * (x0 * std::cos(angle) - x1 * std::sin(angle)),
                       2 * (x0 * std::sin(angle) + x1 * std::cos(angle)));
    };
    const auto first = neox ? turn(1, 3, a) : turn(1, 2, a), second = neox ? turn(2, 4, b) : turn(3, 4, b);
    const std::vector<double> expected =
        neox ? std::vector<double>{first.first, second.first, first.second, second.second, 5, 6}
             : std::vector<double>{first.first, first.second, second.first, second.second, 5, 6};
    expect_near(f.run(f.b.rope(x, f.positions({3}), params)), expected, 2e-6);
  }
}

TEST(ReferenceOpsTest, RopeFactorsDivideTheFrequencies) {
  Fixture f;
  const auto x = f.b.reshape(f.rows("x", 1, 2, {1, 0}), {1, 1, 2});
  const auto factors = f.values("factors", {1}, {4});
  expect_near(f.run(f.b.rope(x, f.positions({8}), {.n_rot = 2}, factors)), {std::cos(2), std::sin(2)});
}

// Three tokens of one sequence whose pages are out of order; head_dim 2.
std::vector<float> attend(const ir::AttentionParams& params, std::optional<float> sink = {}) {
  Fixture f;
  const auto as_heads = [&](ir::ValueId x) { return f.b.reshape(x, {3, 1, 2}); };
  const auto q = as_heads(f.rows("q", 3, 2, {1, 0, 1, 0, 1, 0}));
  const auto k = as_heads(f.rows("k", 3, 2, {0, 0, 1, 0, 2, 0}));
  const auto v = as_heads(f.rows("v", 3, 2, {1, 0, 0, 1, 5, 5}));
  const auto slots = f.slots({16, 17, 18});  // page 1 comes first
  const auto keys = f.b.set_rows(f.b.state(ir::StateRole::kv_k, 0, DType::f32, {32, 1, 2}), k, slots);
  const auto values = f.b.set_rows(f.b.state(ir::StateRole::kv_v, 0, DType::f32, {32, 1, 2}), v, slots);
  std::optional<ir::ValueId> sinks;
  if (sink) sinks = f.values("sinks", {1}, {*sink});
  const auto positions = f.positions({0, 1, 2}), seq_ids = f.seq_ids({0, 0, 0});
  return f.run(f.b.flash_attn_ext(q, keys, values, positions, seq_ids, params, sinks));
}

TEST(ReferenceOpsTest, AttentionIsCausalSoftmaxOverTheSequence) {
  const double e = std::exp(1), e2 = std::exp(2);
  expect_near(attend({}), {1, 0, 1 / (1 + e), e / (1 + e), (1 + 5 * e2) / (1 + e + e2), (e + 5 * e2) / (1 + e + e2)},
              2e-6);
}

TEST(ReferenceOpsTest, AttentionWindowSoftcapAndSinks) {
  const double e = std::exp(1);
  expect_near(attend({.window = 2}), {1, 0, 1 / (1 + e), e / (1 + e), 5 * e / (1 + e), (1 + 5 * e) / (1 + e)}, 2e-6);
  const double c1 = std::exp(2 * std::tanh(0.5)), c2 = std::exp(2 * std::tanh(1.0));
  expect_near(attend({.softcap = 2}),
              {1, 0, 1 / (1 + c1), c1 / (1 + c1), (1 + 5 * c2) / (1 + c1 + c2), (c1 + 5 * c2) / (1 + c1 + c2)}, 2e-6);
  expect_near(attend({.window = 1}, 0.0f), {0.5, 0, 0, e / (1 + e), 5 * e * e / (1 + e * e), 5 * e * e / (1 + e * e)},
              2e-6);
}

TEST(ReferenceOpsTest, CacheRowsAreRoundedToTheCacheType) {
  // Of 0.3001 beside 1: f16 has 11 bits, bf16 8, e4m3 4; q8_0 has steps of 1/127 of the largest value of 32.
  const std::pair<DType, double> kTypes[] = {
      {DType::f16, 0x1p-13}, {DType::bf16, 0x1p-10}, {DType::f8_e4m3, 0x1p-6}, {DType::q8_0, 0.5 / 127}};
  for (const auto& [type, error] : kTypes) {
    Fixture f;
    f.kv_config.type = type;
    f.kv_config.layers = {{1, 32, 32}};
    std::vector<float> row(32, 0.0f);
    const auto as_heads = [&](ir::ValueId x) { return f.b.reshape(x, {1, 1, 32}); };
    const auto zero = as_heads(f.rows("zero", 1, 32, row));
    row[0] = 1;
    row[1] = 0.3001f;
    const auto v = as_heads(f.rows("v", 1, 32, row));
    const auto slots = f.slots({16});
    const auto keys = f.b.set_rows(f.b.state(ir::StateRole::kv_k, 0, type, {32, 1, 32}), zero, slots);
    const auto values = f.b.set_rows(f.b.state(ir::StateRole::kv_v, 0, type, {32, 1, 32}), v, slots);
    const auto positions = f.positions({0}), seq_ids = f.seq_ids({0});
    const auto out = f.run(f.b.flash_attn_ext(zero, keys, values, positions, seq_ids, {}));
    EXPECT_NE(out[1], 0.3001f);
    EXPECT_NEAR(out[1], 0.3001f, error) << dtype_name(type);
    EXPECT_NEAR(out[0], 1, 0x1p-12);
  }
}

}  // namespace
}  // namespace tokamak::reference
