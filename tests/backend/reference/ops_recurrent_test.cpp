// Convolutions and delta nets: by hand, against a direct double loop, and independent of how a text is cut into steps.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "backend/reference/ops_helpers.h"

namespace tokamak::reference {
namespace {

using ir::ValueId;
using Numbers = std::vector<float>;

Numbers random_numbers(size_t n, uint32_t seed, double low = -1, double high = 1) {
  std::mt19937 random(seed);
  Numbers out(n);
  for (float& x : out) x = static_cast<float>(low + (high - low) * random() * 0x1p-32);
  return out;
}
// Rows [begin, end) of a [n, width] array.
Numbers part(const Numbers& x, size_t width, size_t begin, size_t end) {
  return {x.begin() + static_cast<ptrdiff_t>(begin * width), x.begin() + static_cast<ptrdiff_t>(end * width)};
}

TEST(SsmConv, ByHand) {
  Fixture f;
  f.kv_config.layers = {{}};
  f.kv_config.recurrent = {{.conv_elems = 4}};
  f.kv_config.n_state_rows = 2;
  f.states_before[1] = {1, 10, 2, 20};  // two rows of two channels, the older first
  const ValueId x = f.rows("x", 3, 2, {3, 30, 4, 40, 7, 70});
  const ValueId taps = f.values("taps", {2, 3}, {100, 10, 1, 1, 0, 0});
  const ValueId state = f.b.state(ir::StateRole::conv, 0, DType::f32, {2, 4});
  // Tokens 0 and 1 go on with row 1, token 2 starts another sequence from zeros.
  const auto in = f.recurrent({0, 0, 1}, {1, -1}, {1, 0}, 1);
  const ValueId y = f.b.ssm_conv(x, taps, state, in);
  f.b.cpy(state, f.b.ssm_conv_state(x, state, in), in.state_rows);
  expect_near(f.run(y), {123, 10, 234, 20, 7, 0});
  EXPECT_EQ(f.states_after[1], (Numbers{3, 30, 4, 40}));
  EXPECT_EQ(f.states_after[0], (Numbers{0, 0, 7, 70}));
}

TEST(SsmConv, SnapshotsAreTheStatesAfterEachOfTheLastTokens) {
  Fixture f;
  f.kv_config.layers = {{}};
  f.kv_config.recurrent = {{.conv_elems = 2}};
  f.kv_config.n_state_rows = 8;
  f.states_before[7] = {1, 2};
  const ValueId x = f.rows("x", 3, 1, {3, 4, 9});
  const ValueId state = f.b.state(ir::StateRole::conv, 0, DType::f32, {8, 2});
  const auto in = f.recurrent({0, 0, 1}, {7, -1}, {0, 4}, 3);
  f.b.cpy(state, f.b.ssm_conv_state(x, state, in), in.state_rows);
  f.run(f.b.scale(x, 1));
  EXPECT_EQ(f.states_after[0], (Numbers{3, 4})) << "after the last token";
  EXPECT_EQ(f.states_after[1], (Numbers{2, 3})) << "after the one before";
  EXPECT_EQ(f.states_after[2], (Numbers{0, 0})) << "the sequence has no third token in this step";
  EXPECT_EQ(f.states_after[4], (Numbers{0, 9}));
  EXPECT_EQ(f.states_after[5], (Numbers{0, 0}));
  EXPECT_EQ(f.states_after[7], (Numbers{1, 2})) << "no row but those named is touched";
}

struct Net {
  size_t hk = 2, hv = 4, dk = 3, dv = 5;
  bool per_channel = false;
  ir::HeadMap head_map = ir::HeadMap::tiled;
  size_t n_tokens = 9;
  size_t state_elems() const { return hv * dv * dk; }
};

// Inputs of a sequence, [n_tokens, ...] each.
struct Texts {
  explicit Texts(const Net& n, uint32_t seed)
      : q(random_numbers(n.n_tokens * n.hk * n.dk, seed)),
        k(random_numbers(n.n_tokens * n.hk * n.dk, seed + 1, -0.6, 0.6)),
        v(random_numbers(n.n_tokens * n.hv * n.dv, seed + 2)),
        g(random_numbers(n.n_tokens * n.hv * (n.per_channel ? n.dk : 1), seed + 3, -2, -0.01)),
        beta(random_numbers(n.n_tokens * n.hv, seed + 4, 0, 1)) {}
  Numbers q, k, v, g, beta;
};

// The recurrence as the paper writes it, with S [dk, dv] and outer products; states after each token, [hv, dv, dk].
struct Direct {
  std::vector<std::vector<double>> y, states;
};
Direct direct(const Net& n, const Texts& in, const Numbers& start, double scale) {
  Direct out;
  std::vector<double> s(start.begin(), start.end());  // [hv, dv, dk]
  for (size_t t = 0; t < n.n_tokens; ++t) {
    std::vector<double> y(n.hv * n.dv);
    for (size_t h = 0; h < n.hv; ++h) {
      const size_t kh = n.head_map == ir::HeadMap::tiled ? h % n.hk : h / (n.hv / n.hk);
      const float *q = &in.q[(t * n.hk + kh) * n.dk], *k = &in.k[(t * n.hk + kh) * n.dk];
      const auto at = [&](size_t i, size_t j) -> double& { return s[(h * n.dv + j) * n.dk + i]; };
      for (size_t i = 0; i < n.dk; ++i)
        for (size_t j = 0; j < n.dv; ++j)
          at(i, j) *= std::exp(double{n.per_channel ? in.g[(t * n.hv + h) * n.dk + i] : in.g[t * n.hv + h]});
      for (size_t j = 0; j < n.dv; ++j) {
        double known = 0;
        for (size_t i = 0; i < n.dk; ++i) known += at(i, j) * double{k[i]};
        const double change = double{in.beta[t * n.hv + h]} * (double{in.v[(t * n.hv + h) * n.dv + j]} - known);
        for (size_t i = 0; i < n.dk; ++i) at(i, j) += double{k[i]} * change;
        for (size_t i = 0; i < n.dk; ++i) y[h * n.dv + j] += scale * at(i, j) * double{q[i]};
      }
    }
    out.y.push_back(y);
    out.states.push_back(s);
  }
  return out;
}

// Tokens [begin, end) as a step that starts from `start` (empty: zeros); returns y, leaves the states in f.
Numbers run_step(Fixture& f, const Net& n, const Texts& in, size_t begin, size_t end, const Numbers& start,
                 int64_t n_snapshots, double scale) {
  const auto hk = static_cast<int64_t>(n.hk), hv = static_cast<int64_t>(n.hv), dk = static_cast<int64_t>(n.dk),
             dv = static_cast<int64_t>(n.dv), n_tokens = static_cast<int64_t>(end - begin),
             n_state = static_cast<int64_t>(n.state_elems());
  f.kv_config.layers = {{}};
  f.kv_config.recurrent = {{.recurrent_elems = n_state}};
  f.kv_config.n_state_rows = 6;
  if (!start.empty()) f.states_before[5] = start;
  const auto rows = [&](const char* name, const Numbers& all, size_t width) {
    return f.rows(name, n_tokens, static_cast<int64_t>(width), part(all, width, begin, end));
  };
  const ValueId q = f.b.reshape(rows("q", in.q, n.hk * n.dk), {n_tokens, hk, dk});
  const ValueId k = f.b.reshape(rows("k", in.k, n.hk * n.dk), {n_tokens, hk, dk});
  const ValueId v = f.b.reshape(rows("v", in.v, n.hv * n.dv), {n_tokens, hv, dv});
  ValueId g = rows("g", in.g, n.hv * (n.per_channel ? n.dk : 1));
  if (n.per_channel) g = f.b.reshape(g, {n_tokens, hv, dk});
  const ValueId beta = rows("beta", in.beta, n.hv);
  const ValueId state = f.b.state(ir::StateRole::recurrent, 0, DType::f32, {6, n_state});
  const auto seqs = f.recurrent(std::vector<int32_t>(end - begin, 0), {start.empty() ? -1 : 5}, {0}, n_snapshots);
  const ValueId net = f.b.gated_delta_net(q, k, v, g, beta, state, seqs, scale, n.head_map);
  const int64_t n_y = n_tokens * hv * dv;
  const ValueId states = f.b.reshape(f.b.view(net, n_y, {n_snapshots * n_state}), {n_snapshots, n_state});
  f.b.cpy(state, states, seqs.state_rows);
  return f.run(f.b.scale(f.b.view(net, 0, {n_y}), 1));
}

std::vector<Net> nets() {
  return {{}, {.head_map = ir::HeadMap::grouped}, {.per_channel = true}, {.hk = 1, .hv = 3, .dk = 4, .dv = 2}};
}

TEST(GatedDeltaNet, IsTheRecurrence) {
  for (const Net& n : nets()) {
    const Texts in(n, 1);
    const Numbers start = random_numbers(n.state_elems(), 9);
    const Direct want = direct(n, in, start, 0.7);
    Fixture f;
    const Numbers y = run_step(f, n, in, 0, n.n_tokens, start, 4, 0.7);
    for (size_t t = 0; t < n.n_tokens; ++t)
      for (size_t i = 0; i < n.hv * n.dv; ++i) ASSERT_NEAR(y[t * n.hv * n.dv + i], want.y[t][i], 2e-6) << t;
    for (size_t snapshot = 0; snapshot < 4; ++snapshot)
      for (size_t i = 0; i < n.state_elems(); ++i)
        ASSERT_NEAR(f.states_after[snapshot][i], want.states[n.n_tokens - 1 - snapshot][i], 2e-6) << snapshot;
  }
}

TEST(GatedDeltaNet, AnyCutOfTheTextGivesTheSameBits) {
  for (const Net& n : nets()) {
    const Texts in(n, 5);
    Fixture whole;
    const Numbers y = run_step(whole, n, in, 0, n.n_tokens, {}, 1, 0.7);
    for (const std::vector<size_t>& cuts :
         {std::vector<size_t>{0, 1, 9}, {0, 4, 8, 9}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9}}) {
      Numbers state, joined;
      for (size_t i = 0; i + 1 < cuts.size(); ++i) {
        Fixture f;
        const Numbers some = run_step(f, n, in, cuts[i], cuts[i + 1], state, 1, 0.7);
        joined.insert(joined.end(), some.begin(), some.end());
        state = f.states_after[0];
      }
      EXPECT_EQ(joined, y);
      EXPECT_EQ(state, whole.states_after[0]);
    }
  }
}

TEST(GatedDeltaNet, SnapshotsBeyondTheTokensAreZeros) {
  const Net n;
  const Texts in(n, 7);
  Fixture f;
  run_step(f, n, in, 0, 2, random_numbers(n.state_elems(), 3), 4, 1);
  const Numbers zeros(n.state_elems(), 0.0f);
  EXPECT_NE(f.states_after[1], zeros);
  EXPECT_EQ(f.states_after[2], zeros);
  EXPECT_EQ(f.states_after[3], zeros);
}

}  // namespace
}  // namespace tokamak::reference
