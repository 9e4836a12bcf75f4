// Every op that is not a matmul through the whole CPU backend, beside the reference: broadcasts, strided views, indices
// that a node has made, and every fusion rule.
#include <algorithm>

#include "backend/cpu/graph_helpers.h"

namespace tokamak::cpu::test {
namespace {

using ir::InputRole;
using ir::Op;

constexpr int64_t kWidths[] = {1, 15, 16, 17, 61};

bool has_label(const RunResult& result, std::string_view label) {
  return std::ranges::find(result.labels, label) != result.labels.end();
}

TEST(CpuOpsGraph, ElementwiseBroadcasts) {
  for (int64_t w : kWidths)
    for (Op op : {Op::add, Op::sub, Op::mul, Op::div}) {
      GraphCase c;
      const auto a = c.rows("a", {3, w}), same = c.rows("same", {3, w}, 0.2f, 2),
                 column = c.rows("column", {3, 1}, 0.2f, 2);
      for (ir::ValueId b : {same, column, c.weight("row", {w}, 0.2f, 2), c.weight("heads", {3, w}, 0.2f, 2),
                            c.weight("one", {1}, 0.2f, 2)})
        c.b.output(c.b.node(op, {a, b}));
      c.finish();
      c.check();
    }
}

TEST(CpuOpsGraph, StridedViews) {
  for (int64_t w : {1, 16, 17}) {
    GraphCase c;
    const auto wide = c.rows("wide", {3, 2 * w + 5}), other = c.rows("other", {3, w}, 0.2f, 2);
    const auto x = c.b.view(wide, 3, {c.n(), 3, w}), y = c.b.view(wide, w + 4, {c.n(), 3, w});
    c.b.output(c.b.mul(x, y));
    c.b.output(c.b.sub(x, other));
    c.b.output(c.b.div(y, other));
    c.b.output(c.b.cont(y));
    c.b.output(c.b.concat(y, x));
    c.b.output(c.b.unary(x, ir::Unary::softplus));
    c.b.output(c.b.clamp(x, -0.5, 0.25));
    c.b.output(c.b.soft_max(y));
    c.b.output(c.b.sum_rows(x));
    c.b.output(c.b.l2_norm(y, 1e-6));
    c.b.output(c.b.rms_norm(x, 1e-6));
    c.b.output(c.b.glu(x, y, ir::GluParams{.kind = ir::Glu::swiglu_oai, .alpha = 1.702, .limit = 0.7}));
    c.b.output(c.b.attn_temp(y, c.input(InputRole::positions), {.scale = 0.1, .length = 3, .offset = 1}));
    c.b.output(c.b.scale(x, 2, 0.5));
    c.finish();
    c.check(2e-6);
  }
}

TEST(CpuOpsGraph, UnaryFunctions) {
  for (size_t f = 0; f < ir::kUnaries.size(); ++f) {
    const auto function = static_cast<ir::Unary>(f);
    GraphCase c;
    c.b.output(c.b.unary(c.rows("x", {61}, function == ir::Unary::sqrt ? 0.5f : 4, function == ir::Unary::sqrt ? 4 : 0),
                         function));
    c.finish();
    c.check();
  }
}

TEST(CpuOpsGraph, GetRowsByIndicesOfANode) {
  GraphCase c;
  const auto scores = c.rows("scores", {12});
  const auto order = c.b.argsort(scores), best = c.b.view(order, 0, {c.n(), 4});
  c.b.output(c.b.get_rows(c.b.reshape(scores, {c.n(), 12, 1}), best));  // each token's own table
  c.b.output(c.b.get_rows(c.rows("table", {12, 5}), best));
  c.b.output(c.b.get_rows(c.weight("per_expert", {12, 1}), best));  // a table for all
  c.b.output(c.b.get_rows(c.weight("wide", {12, 9}), order));
  c.b.output(c.b.get_rows(c.weight("position_embd", {16, 6}), c.input(InputRole::positions)));
  c.b.output(c.b.add_id(c.rows("experts", {4, 33}), c.weight("bias", {12, 33}), best));
  c.finish();
  c.check();
}

TEST(CpuOpsGraph, ArgsortAndMaskGroups) {
  for (int64_t n_best : {1, 2}) {
    GraphCase c(4);
    c.set("scores", {4, 12}, {1,  1, 2, 2, 3, 3,  1, 1, 2, 2, 3,  3,  // ties
                              -1, 5, 0, 0, 5, -1, 2, 2, 2, 2, 2,  2,  //
                              0,  0, 0, 0, 0, 0,  0, 0, 0, 0, 0,  0,  //
                              9,  8, 7, 6, 5, 4,  3, 2, 1, 0, -1, -HUGE_VALF});
    const auto scores = c.rows("scores", {12});
    const auto masked = c.b.mask_groups(scores, 4, 2, n_best);
    c.b.output(masked);
    const auto index = c.weight("index", {12, 1});
    std::iota(c.numbers("index").begin(), c.numbers("index").end(), 0.0f);
    c.b.output(c.b.get_rows(index, c.b.argsort(masked)));
    c.b.output(c.b.get_rows(index, c.b.argsort(scores)));
    c.finish();
    c.check(0);
  }
}

TEST(CpuOpsGraph, NormsWithOneWeightRowPerHead) {
  for (int64_t w : {1, 16, 33}) {
    GraphCase c;
    const auto x = c.rows("x", {3, w});
    for (bool centred : {false, true})
      for (const char* weight : {"row", "heads"}) {
        const auto norm = [&] { return centred ? c.b.norm(x, 1e-5) : c.b.rms_norm(x, 1e-5); };
        const auto factor = c.weight(weight, std::string(weight) == "row" ? Shape{w} : Shape{3, w});
        c.b.output(c.b.mul(norm(), factor));
        c.b.output(c.b.add(c.b.mul(norm(), factor), c.weight("bias", {w})));
        c.b.output(c.b.add(c.b.mul(norm(), factor), c.weight("bias heads", {3, w})));
        c.b.output(c.b.add(c.b.mul(norm(), factor), c.rows("residual", {3, w})));
      }
    c.finish();
    const RunResult result = c.check(2e-6);
    EXPECT_TRUE(has_label(result, "NORM+MUL"));
    EXPECT_TRUE(has_label(result, "RMS_NORM+MUL+ADD"));
    EXPECT_FALSE(has_label(result, "MUL"));
  }
}

TEST(CpuOpsGraph, Chains) {
  for (Op op : {Op::add, Op::mul})
    for (int n_ops : {2, 4, 7}) {
      GraphCase c;
      for (bool weights : {false, true}) {
        auto x = c.rows("x", {2, 19});
        std::vector<ir::ValueId> others;
        for (int i = 0; i < n_ops; ++i) {
          const std::string name = std::to_string(i);
          others.push_back(weights ? c.weight("w" + name, {2, 19}) : c.rows("x" + name, {2, 19}));
        }
        for (ir::ValueId other : others) x = c.b.node(op, {x, other});
        c.b.output(x);
      }
      c.finish();
      EXPECT_FALSE(has_label(c.check(), op == Op::add ? "ADD" : "MUL")) << n_ops;
    }
}

TEST(CpuOpsGraph, ActivationRules) {
  GraphCase c;
  const auto x = c.rows("x", {37}), y = c.rows("y", {37});
  for (ir::Unary f : {ir::Unary::silu, ir::Unary::sigmoid, ir::Unary::softplus}) {
    c.b.output(c.b.mul(c.b.unary(x, f), y));
    c.b.output(c.b.mul(y, c.b.unary(x, f)));
  }
  c.b.output(c.b.unary(c.b.unary(x, ir::Unary::relu), ir::Unary::sqr));
  c.b.output(c.b.scale(c.b.unary(c.b.scale(x, 0.3), ir::Unary::tanh), 4.0));  // the factors need not be inverse
  c.finish();
  const RunResult result = c.check();
  for (const char* label : {"SILU+MUL", "SIGMOID+MUL", "SOFTPLUS+MUL", "RELU+SQR", "SCALE+TANH+SCALE"})
    EXPECT_TRUE(has_label(result, label)) << label;
}

TEST(CpuOpsGraph, Snake) {
  GraphCase c;
  const auto x = c.rows("x", {50}, 2), a = c.weight("a", {7, 1}, 0.3f, 1), inv_b = c.weight("b", {7, 1}, 0.3f, 1);
  const auto wave = c.b.unary(c.b.unary(c.b.mul(x, a), ir::Unary::sin), ir::Unary::sqr);
  c.b.output(c.b.add(x, c.b.mul(wave, inv_b)));
  c.finish();
  EXPECT_TRUE(has_label(c.check(), "MUL+SIN+SQR+MUL+ADD"));
}

// The three early forms of routing with everything that may be missing, and the two late ones.
enum class Score { soft_max, sigmoid, softplus_sqrt, late_soft_max, late_sigmoid };
constexpr int64_t kExperts = 24, kUsed = 5;

ir::ValueId probabilities(GraphCase& c, Score score, ir::ValueId x) {
  if (score == Score::soft_max) return c.b.soft_max(x);
  if (score == Score::sigmoid) return c.b.unary(x, ir::Unary::sigmoid);
  return score == Score::softplus_sqrt ? c.b.unary(c.b.unary(x, ir::Unary::softplus), ir::Unary::sqrt) : x;
}
// bit 0: bias, 1: groups, 2: renormalise, 3: scale, 4: the ids leave the group
GraphCase routing_case(Score score, int options) {
  GraphCase c(9);
  const auto x = c.rows("x", {kExperts}, 2), index = c.weight("index", {kExperts, 1});
  const auto bias = c.weight("bias", {kExperts}, 0.3f);
  const bool late = score == Score::late_soft_max || score == Score::late_sigmoid;
  const auto p = probabilities(c, score, x);
  const auto table = c.b.reshape(p, {c.n(), kExperts, 1});  // before the ARGSORT: late forms start there
  auto selection = p;
  if ((options & 1) != 0) selection = c.b.add(selection, bias);
  if ((options & 2) != 0) selection = c.b.mask_groups(selection, 4, 2, 2);
  const auto ids = c.b.view(c.b.argsort(selection), 0, {c.n(), kUsed});
  auto w = c.b.reshape(c.b.get_rows(table, ids), {c.n(), kUsed});
  if (score == Score::late_soft_max) w = c.b.soft_max(w);
  if (score == Score::late_sigmoid) w = c.b.unary(w, ir::Unary::sigmoid);
  if (!late && (options & 4) != 0) w = c.b.div(w, c.b.clamp(c.b.sum_rows(w), 6.103515625e-5, 1e300));
  if (!late && (options & 8) != 0) w = c.b.scale(w, 2.5);
  c.b.output(c.b.mul(w, c.weight("factor", {kUsed})));
  if ((options & 16) != 0) c.b.output(c.b.get_rows(index, ids));
  c.finish();
  return c;
}

TEST(CpuOpsGraph, Routing) {
  for (Score score : {Score::soft_max, Score::sigmoid, Score::softplus_sqrt})
    for (int options = 0; options < 32; ++options) {
      SCOPED_TRACE(testing::Message() << static_cast<int>(score) << " options " << options);
      EXPECT_FALSE(has_label(routing_case(score, options).check(), "ARGSORT"));
    }
  for (int options : {0, 16}) {
    EXPECT_TRUE(has_label(routing_case(Score::late_soft_max, options).check(), "ARGSORT+GET_ROWS+SOFT_MAX"));
    EXPECT_TRUE(has_label(routing_case(Score::late_sigmoid, options).check(), "ARGSORT+GET_ROWS+SIGMOID"));
  }
}

TEST(CpuOpsGraph, RoutingOfEqualAndInvalidScores) {
  GraphCase c = routing_case(Score::sigmoid, 4 + 16);
  std::vector<float>& x = c.numbers("x");
  std::fill(x.begin(), x.begin() + kExperts, 0.5f);  // all equal: the first ones
  for (size_t i = kExperts; i < 2 * kExperts; i += 3) x[i] = NAN;
  std::fill(x.begin() + 3 * kExperts, x.begin() + 4 * kExperts, -INFINITY);
  c.run_everywhere();  // the reference's sort does not order NaN
}

TEST(CpuOpsGraph, OutputsThatShowPartOfAValueOrRepeatOne) {
  GraphCase c;
  const auto sum = c.b.add(c.rows("x", {3, 20}), c.rows("y", {3, 20}));
  const auto part = c.b.view(sum, 3, {c.n(), 3, 7});
  c.b.output(part);
  c.b.output(sum);
  c.b.output(c.b.reshape(sum, {c.n(), 60}));
  c.b.output(c.b.view(c.b.scale(sum, 2), 5, {c.n(), 3, 1}));
  c.finish();
  c.check();
}

// A layer with a convolution and a delta net, in every combination that changes what the kernels do.
struct RecurrentShape {
  int64_t n_head_k = 2, n_head_v = 4, dk = 16, dv = 24, taps = 4;
  bool per_channel = false;
  ir::HeadMap head_map = ir::HeadMap::tiled;
  int64_t n_snapshots = 1;
};

GraphCase recurrent_case(const RecurrentShape& s, const std::vector<int32_t>& seq_ids, std::vector<int32_t> src,
                         std::vector<int32_t> rows) {
  GraphCase c(static_cast<int64_t>(seq_ids.size()));
  c.seq_ids = seq_ids;
  c.state_src = std::move(src);
  c.state_rows = std::move(rows);
  const int64_t n = c.n(), n_channels = 37, state = s.n_head_v * s.dv * s.dk,
                n_seqs = static_cast<int64_t>(c.state_src.size());
  c.kv_config.layers = {{0, 0, 0}};
  c.kv_config.recurrent = {{(s.taps - 1) * n_channels, state}};
  c.kv_config.n_state_rows = 8;
  const ir::RecurrentInputs in = c.recurrent(s.n_snapshots);
  const auto x = c.rows("x", {n_channels});
  const auto conv_state = c.b.state(ir::StateRole::conv, 0, DType::f32, {8, (s.taps - 1) * n_channels});
  const auto net_state = c.b.state(ir::StateRole::recurrent, 0, DType::f32, {8, state});
  const auto weight = c.weight("conv", {n_channels, s.taps});
  c.b.output(c.b.ssm_conv(x, weight, conv_state, in));
  c.b.output(c.b.unary(c.b.ssm_conv(x, weight, conv_state, in), ir::Unary::silu));
  c.b.output(
      c.b.unary(c.b.add(c.b.ssm_conv(x, weight, conv_state, in), c.weight("bias", {n_channels})), ir::Unary::silu));
  c.b.cpy(conv_state, c.b.ssm_conv_state(x, conv_state, in), in.state_rows);
  const auto q = c.b.l2_norm(c.rows("q", {s.n_head_k, s.dk}), 1e-6),
             k = c.b.l2_norm(c.rows("k", {s.n_head_k, s.dk}), 1e-6);
  const auto v = c.rows("v", {s.n_head_v, s.dv});
  const auto g = c.b.scale(
      c.b.unary(c.rows("g", s.per_channel ? Shape{s.n_head_v, s.dk} : Shape{s.n_head_v}), ir::Unary::softplus), -0.5);
  const auto beta = c.b.unary(c.rows("beta", {s.n_head_v}), ir::Unary::sigmoid);
  const auto net = c.b.gated_delta_net(q, k, v, g, beta, net_state, in, 0.25, s.head_map);
  const int64_t n_y = n * s.n_head_v * s.dv, n_states = n_seqs * s.n_snapshots * state;
  c.b.cpy(net_state, c.b.reshape(c.b.view(net, n_y, {n_states}), {n_seqs * s.n_snapshots, state}), in.state_rows);
  c.b.output(c.b.cont(c.b.view(net, 0, {n_y})));
  c.finish();
  return c;
}

TEST(CpuOpsGraph, RecurrentLayer) {
  for (bool per_channel : {false, true})
    for (ir::HeadMap map : {ir::HeadMap::tiled, ir::HeadMap::grouped})
      for (int64_t n_snapshots : {1, 3})
        for (int64_t dk : {1, 16, 20, 64, 128}) {
          const RecurrentShape s{.dk = dk, .per_channel = per_channel, .head_map = map, .n_snapshots = n_snapshots};
          // Three sequences: one continues, one starts anew, one is shorter than its snapshots.
          GraphCase c = recurrent_case(s, {0, 0, 0, 0, 1, 1, 1, 2}, {7, -1, 6}, {0, 3, 4});
          if (n_snapshots > 1) c.state_rows = {0, 3, 5};
          SCOPED_TRACE(testing::Message() << "dk " << dk << " snapshots " << n_snapshots << per_channel);
          const RunResult result = c.check(4e-6);
          for (const char* label :
               {"SSM_CONV", "SSM_CONV+SILU", "SSM_CONV+ADD+SILU", "SSM_CONV_STATE+CPY", "GATED_DELTA_NET+CPY"})
            EXPECT_TRUE(has_label(result, label)) << label;
        }
}

TEST(CpuOpsGraph, StatesMayBeReadAndWrittenInOneStep) {
  for (int64_t n_snapshots : {1, 2}) {
    const RecurrentShape s{.n_snapshots = n_snapshots};
    // In place; crossed; both start from the row that one of them writes.
    for (const auto& src : {std::vector<int32_t>{0, 2}, std::vector<int32_t>{2, 0}, std::vector<int32_t>{0, 0}}) {
      GraphCase c = recurrent_case(s, {0, 0, 0, 1, 1}, src, {0, 2});
      c.n_runs = 3;
      c.check(4e-6);
    }
  }
}

}  // namespace
}  // namespace tokamak::cpu::test
