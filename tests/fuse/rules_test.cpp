// Each rule: where it fires, and every condition that must keep it from firing.
#include "fuse/rules.h"

#include <gtest/gtest.h>

#include <set>

#include "fuse/docs.h"
#include "fuse/matcher.h"
#include "fuse/rules_helpers.h"

namespace tokamak::fuse {
namespace {

TEST(Rules, TableIsSound) {
  std::set<std::string_view> labels;
  for (const Rule& rule : rules()) {
    EXPECT_TRUE(labels.insert(rule.label).second) << rule.label;
    EXPECT_EQ(find_rule(rule.label), &rule);
    EXPECT_LE(rule.ops.size(), 16u);
    EXPECT_LT(rule.label.size(), 64u);
    for (ir::Op op : rule.ops) EXPECT_FALSE(ir::op_row(op).is_view) << rule.label;
  }
  EXPECT_EQ(find_rule("ADD"), nullptr);
}

TEST(Rules, DocsHaveARowForEach) {
  const std::string page = rules_markdown();
  for (const Rule& rule : rules()) EXPECT_NE(page.find("| " + std::string(rule.label) + " |"), std::string::npos);
}

TEST(NormMul, FiresForBothNorms) {
  EXPECT_EQ(fused([](GraphBuilder& b) { b.output(b.mul(b.rms_norm(rows(b), 1e-5), vec(b))); }), "RMS_NORM+MUL");
  EXPECT_EQ(fused([](GraphBuilder& b) { b.output(b.mul(b.norm(rows(b), 1e-5), vec(b))); }), "NORM+MUL");
}

TEST(NormMul, AddJoinsAsBiasOrResidual) {
  EXPECT_EQ(fused([](GraphBuilder& b) { b.output(b.add(b.mul(b.norm(rows(b), 1e-5), vec(b)), vec(b, "bias"))); }),
            "NORM+MUL+ADD");
  EXPECT_EQ(fused([](GraphBuilder& b) {
              const ValueId x = rows(b);
              b.output(b.add(b.mul(b.rms_norm(x, 1e-5), vec(b)), x));
            }),
            "RMS_NORM+MUL+ADD");
}

TEST(NormMul, NeedsTheNormAsFirstOperand) {
  EXPECT_EQ(fused([](GraphBuilder& b) {
              const ValueId other = more(b);
              b.output(b.mul(other, b.rms_norm(rows(b), 1e-5)));
            }),
            "");
  EXPECT_EQ(fused([](GraphBuilder& b) {  // the residual first: only the pair
              const ValueId x = rows(b);
              b.output(b.add(x, b.mul(b.rms_norm(x, 1e-5), vec(b))));
            }),
            "RMS_NORM+MUL");
}

TEST(NormMul, NormTimesItselfIsNoWeight) {
  EXPECT_EQ(fused([](GraphBuilder& b) {
              const ValueId n = b.rms_norm(rows(b), 1e-5);
              b.output(b.mul(n, n));
            }),
            "");
}

TEST(NormMul, IntermediateReadElsewhere) {
  EXPECT_EQ(fused([](GraphBuilder& b) {
              const ValueId n = b.rms_norm(rows(b), 1e-5);
              b.output(b.mul(n, vec(b)));
              b.output(b.scale(n, 2));
            }),
            "");
  EXPECT_EQ(fused([](GraphBuilder& b) {  // read through a view after the group
              const ValueId n = b.rms_norm(rows(b), 1e-5);
              b.output(b.mul(n, vec(b)));
              b.output(b.scale(b.reshape(n, {24}), 2));
            }),
            "");
  EXPECT_EQ(fused([](GraphBuilder& b) {  // read through a view made inside the group
              const ValueId n = b.rms_norm(rows(b), 1e-5);
              const ValueId view = b.reshape(n, {24});
              b.output(b.mul(n, vec(b)));
              b.output(b.scale(view, 2));
            }),
            "");
}

TEST(NormMul, IntermediateIsAnOutput) {
  EXPECT_EQ(fused([](GraphBuilder& b) {
              const ValueId n = b.rms_norm(rows(b), 1e-5);
              b.output(b.mul(n, vec(b)));
              b.output(n);
            }),
            "");
  EXPECT_EQ(fused([](GraphBuilder& b) {  // a view of it is
              const ValueId n = b.rms_norm(rows(b), 1e-5);
              const ValueId view = b.reshape(n, {24});
              b.output(b.mul(n, vec(b)));
              b.output(view);
            }),
            "");
}

TEST(NormMul, ANodeBetweenEndsTheSequence) {
  EXPECT_EQ(fused([](GraphBuilder& b) {
              const ValueId x = rows(b);
              const ValueId n = b.rms_norm(x, 1e-5);
              b.output(b.scale(x, 2));
              b.output(b.mul(n, vec(b)));
            }),
            "");
}

TEST(Views, AreTransparent) {
  EXPECT_EQ(fused([](GraphBuilder& b) {
              const ValueId heads = b.reshape(rows(b, 3, 16), {3, 2, 8});
              const ValueId n = b.rms_norm(heads, 1e-5);
              b.output(b.mul(b.reshape(b.reshape(n, {48}), {3, 2, 8}), vec(b)));
            }),
            "RMS_NORM+MUL");
}

TEST(Views, ThatChangeTheShapeBreakRulesOfEqualShapes) {
  EXPECT_EQ(fused([](GraphBuilder& b) {
              const ValueId n = b.rms_norm(b.reshape(rows(b, 3, 16), {3, 2, 8}), 1e-5);
              b.output(b.mul(b.reshape(n, {3, 16}), vec(b, "w16", 16)));
            }),
            "");
}

TEST(Views, OfASliceAreNotTheWholeResult) {
  EXPECT_EQ(fused([](GraphBuilder& b) {
              const ValueId n = b.rms_norm(rows(b, 3, 16), 1e-5);
              b.output(b.mul(b.view(n, 0, {3, 8}), vec(b)));
            }),
            "");
}

TEST(Views, OfOutsideValuesBreakTheGroupUnlessConstant) {
  EXPECT_EQ(fused([](GraphBuilder& b) {
              const ValueId x = rows(b);
              const ValueId n = b.rms_norm(x, 1e-5);
              const ValueId outside = b.reshape(x, {3, 8});
              b.output(b.mul(n, outside));
            }),
            "");
  EXPECT_EQ(fused([](GraphBuilder& b) {
              const ValueId w = b.weight("wide", DType::f32, {16});
              const ValueId n = b.rms_norm(rows(b), 1e-5);
              b.output(b.mul(n, b.view(w, 8, {8})));
            }),
            "RMS_NORM+MUL");
}

TEST(AddChain, TwoToSevenAndBeyond) {
  for (int n = 1; n <= 16; ++n) {
    const std::string got = fused([&](GraphBuilder& b) {
      ValueId x = rows(b);
      const ValueId y = more(b);
      for (int i = 0; i < n; ++i) x = b.add(x, y);
      b.output(x);
    });
    std::string want;
    for (int left = n; left >= 2; left -= 7) {
      std::string label = "ADD";
      for (int i = 1; i < std::min(left, 7); ++i) label += "+ADD";
      want += (want.empty() ? "" : ",") + label;
    }
    EXPECT_EQ(got, want) << n;
  }
}

TEST(AddChain, NeedsThePreviousSumFirst) {
  EXPECT_EQ(fused([](GraphBuilder& b) {
              const ValueId x = rows(b), y = more(b);
              b.output(b.add(y, b.add(x, y)));
            }),
            "");
}

TEST(AddChain, NeedsAddendsOfOneLayout) {
  EXPECT_EQ(fused([](GraphBuilder& b) {
              const ValueId x = rows(b), y = more(b);
              b.output(b.add(b.add(x, y), vec(b)));
            }),
            "");
  EXPECT_EQ(fused([](GraphBuilder& b) {  // same shape, other strides
              const ValueId x = rows(b), y = more(b);
              const ValueId slice = b.view(rows(b, 3, 16), 0, {3, 8});
              b.output(b.add(b.add(x, y), slice));
            }),
            "");
  EXPECT_EQ(fused([](GraphBuilder& b) { b.output(b.add(b.add(rows(b), vec(b)), vec(b, "v2"))); }), "ADD+ADD");
}

TEST(AddChain, DoublingTheSumIsNoAddend) {
  EXPECT_EQ(fused([](GraphBuilder& b) {
              const ValueId x = rows(b), y = more(b);
              const ValueId s = b.add(x, y);
              b.output(b.add(s, s));
            }),
            "");
}

TEST(MulMatAdd, BiasAndResidualOnEitherSide) {
  const auto matrix = [](GraphBuilder& b) { return b.weight("m", DType::q8_0, {32, 32}); };
  EXPECT_EQ(fused([&](GraphBuilder& b) { b.output(b.add(b.mul_mat(matrix(b), rows(b, 3, 32)), vec(b, "bias", 32))); }),
            "MUL_MAT+ADD");
  EXPECT_EQ(fused([&](GraphBuilder& b) {
              const ValueId x = rows(b, 3, 32);
              b.output(b.add(b.mul_mat(matrix(b), x), x));
            }),
            "MUL_MAT+ADD");
  EXPECT_EQ(fused([&](GraphBuilder& b) {
              const ValueId x = rows(b, 3, 32);
              b.output(b.add(x, b.mul_mat(matrix(b), x)));
            }),
            "MUL_MAT+ADD");
}

TEST(MulMatAdd, RefusesOtherAddends) {
  const auto matrix = [](GraphBuilder& b) { return b.weight("m", DType::q8_0, {32, 32}); };
  EXPECT_EQ(fused([&](GraphBuilder& b) {  // a computed vector, repeated over the rows
              const ValueId x = rows(b, 3, 32);
              const ValueId v = b.reshape(b.scale(rows(b, 3, 32), 2), {96});
              const ValueId one = b.view(v, 0, {32});
              b.output(b.add(b.mul_mat(matrix(b), x), one));
            }),
            "");
  EXPECT_EQ(fused([&](GraphBuilder& b) {  // twice the product
              const ValueId y = b.mul_mat(matrix(b), rows(b, 3, 32));
              b.output(b.add(y, y));
            }),
            "");
  EXPECT_EQ(fused([&](GraphBuilder& b) {  // the product is repeated over the rows of the other
              const ValueId y = b.mul_mat(matrix(b), rows(b, 1, 32));
              const ValueId x = b.get_rows(b.weight("t", DType::f32, {9, 32}), b.input(ir::InputRole::slots, {3}));
              b.output(b.add(x, b.reshape(y, {32})));
            }),
            "");
}

struct GluCase {
  DType up_type = DType::q8_0;
  int64_t n_up = 32;
  bool same_input = true, swap_operands = false, up_is_computed = false, gate_is_output = false, one_operand = false;
};

std::string glu_fused(const GluCase& c) {
  return fused([&](GraphBuilder& b) {
    const ValueId x = rows(b, 3, 32);
    const ValueId y = c.same_input ? x : b.scale(x, 2);
    const ValueId w_gate = b.weight("gate", DType::q8_0, {32, 32});
    ValueId w_up = b.weight("up", c.up_type, {c.n_up, 32});
    if (c.up_is_computed) w_up = b.scale(b.weight("up f32", DType::f32, {32, 32}), 2);
    const ValueId gate = b.mul_mat(w_gate, x), up = b.mul_mat(w_up, y);
    if (c.one_operand)
      b.output(b.glu_halves(up, {}));
    else if (c.swap_operands)
      b.output(b.glu(up, gate, ir::Glu::swiglu));
    else
      b.output(b.glu(gate, up, ir::Glu::swiglu));
    if (c.gate_is_output) b.output(gate);
  });
}

TEST(MulMatGlu, GateAndUpOfOneInput) {
  EXPECT_EQ(glu_fused({}), "MUL_MAT+MUL_MAT+GLU");
  EXPECT_EQ(glu_fused({.same_input = false}), "");
  EXPECT_EQ(glu_fused({.swap_operands = true}), "") << "operand 0 must be the gate, the first product";
  EXPECT_EQ(glu_fused({.up_type = DType::q4_0}), "") << "weights of different types";
  EXPECT_EQ(glu_fused({.up_is_computed = true}), "") << "up is no weight";
  EXPECT_EQ(glu_fused({.gate_is_output = true}), "");
  EXPECT_EQ(glu_fused({.one_operand = true}), "") << "halves of one product are another thing";
}

TEST(MulMatGlu, NeitherLaneTwice) {
  EXPECT_EQ(fused([](GraphBuilder& b) {
              const ValueId x = rows(b, 3, 32);
              const ValueId gate = b.mul_mat(b.weight("gate", DType::q8_0, {32, 32}), x);
              b.output(b.mul_mat(b.weight("up", DType::q8_0, {32, 32}), x));
              b.output(b.glu(gate, gate, ir::Glu::swiglu));
            }),
            "");
}

struct RopeCase {
  bool norm = true, write = true, full_width_weight = false, write_other = false, rope_is_output = false,
       reshape_before_write = false, reshape_before_rope = false;
};

std::string rope_fused(const RopeCase& c) {
  return fused([&](GraphBuilder& b) {
    const ValueId positions = b.input(ir::InputRole::positions, {3}), slots = b.input(ir::InputRole::slots, {3});
    const ValueId x = b.reshape(rows(b, 3, 16), {3, 2, 8});
    const ValueId cache = b.state(ir::StateRole::kv_k, 0, DType::f16, {64, 2, 8});
    ValueId y = x;
    if (c.norm) y = b.mul(b.rms_norm(x, 1e-5), c.full_width_weight ? b.weight("w28", DType::f32, {2, 8}) : vec(b));
    if (c.reshape_before_rope) y = b.reshape(b.reshape(y, {6, 8}), {3, 2, 8});
    y = b.rope(y, positions, {.n_rot = 8});
    if (c.rope_is_output) b.output(y);
    if (!c.write) return b.output(y);
    if (c.reshape_before_write) y = b.reshape(b.reshape(y, {48}), {3, 2, 8});
    b.set_rows(cache, c.write_other ? x : y, slots);
    if (c.write_other) b.output(y);
  });
}

TEST(Rope, NormRotateWrite) {
  EXPECT_EQ(rope_fused({}), "RMS_NORM+MUL+ROPE+VIEW+SET_ROWS");
  EXPECT_EQ(rope_fused({.write = false}), "RMS_NORM+MUL+ROPE");
  EXPECT_EQ(rope_fused({.norm = false}), "ROPE+VIEW+SET_ROWS");
  EXPECT_EQ(rope_fused({.norm = false, .write = false}), "");
  EXPECT_EQ(rope_fused({.reshape_before_write = true}), "RMS_NORM+MUL+ROPE+VIEW+SET_ROWS");
  EXPECT_EQ(rope_fused({.reshape_before_rope = true}), "RMS_NORM+MUL+ROPE+VIEW+SET_ROWS");
}

TEST(Rope, ShorterMatchesWhenALongerOneFails) {
  EXPECT_EQ(rope_fused({.full_width_weight = true}), "RMS_NORM+MUL,ROPE+VIEW+SET_ROWS")
      << "a weight per head is not the vector that the fused form takes";
  EXPECT_EQ(rope_fused({.write_other = true}), "RMS_NORM+MUL+ROPE") << "the cache gets something else";
  EXPECT_EQ(rope_fused({.rope_is_output = true}), "RMS_NORM+MUL+ROPE") << "the rotated heads leave the group";
}

struct SoftcapCase {
  ir::Unary function = ir::Unary::tanh;
  double first_bias = 0, last_bias = 0;
};

TEST(Softcap, NeedsTanhAndNoBias) {
  const auto with = [](SoftcapCase c) {
    return fused([&](GraphBuilder& b) {
      b.output(b.scale(b.unary(b.scale(rows(b), 0.1, c.first_bias), c.function), 10, c.last_bias));
    });
  };
  EXPECT_EQ(with({}), "SCALE+TANH+SCALE");
  EXPECT_EQ(with({.function = ir::Unary::gelu}), "");
  EXPECT_EQ(with({.first_bias = 1}), "");
  EXPECT_EQ(with({.last_bias = 1}), "");
}

TEST(Helpers, OtherOperandAndWhole) {
  GraphBuilder b("g");
  const ValueId x = rows(b), y = more(b);
  const ValueId sum = b.add(x, y), twice = b.add(x, x), back = b.reshape(b.reshape(sum, {24}), {3, 8});
  const ValueId last = b.add(y, back), slice = b.view(sum, 0, {3, 4});
  b.output(last);
  b.output(b.add(twice, b.scale(sum, 2)));
  b.output(b.scale(slice, 1));
  const ir::Graph g = *b.finish();
  const auto node_of = [&](ValueId id) { return g.node(g.value(id).producer); };
  EXPECT_EQ(other_operand(g, node_of(sum), x), 1);
  EXPECT_EQ(other_operand(g, node_of(sum), y), 0);
  EXPECT_EQ(other_operand(g, node_of(sum), last), -1);
  EXPECT_EQ(other_operand(g, node_of(twice), x), -1);
  EXPECT_EQ(other_operand(g, node_of(last), sum), 0);
  EXPECT_TRUE(is_whole(g, back, sum));
  EXPECT_FALSE(is_whole(g, slice, sum));
  EXPECT_FALSE(is_whole(g, x, y));
}

}  // namespace
}  // namespace tokamak::fuse
