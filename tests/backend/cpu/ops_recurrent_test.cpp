// Convolutions and delta nets: each kernel of every instruction set against f64 with an error bound that follows the
// recurrence, and the promise that any chunking of a prompt gives the same bits.
#include <algorithm>
#include <numeric>

#include "backend/cpu/ops_test_util.h"

namespace tokamak::cpu {
namespace {

std::vector<float> slice(const std::vector<float>& x, int64_t begin, int64_t n) {
  return {x.begin() + begin, x.begin() + begin + n};
}

struct NetShape {
  int64_t n_head_k = 1, n_head_v = 2, dk = 16, dv = 16;
  bool per_channel = false, grouped = false;
  int64_t state_elems() const { return n_head_v * dv * dk; }
};

// Inputs of n tokens as a model makes them: keys of length 1, decay below 1, beta in 0..1.
struct NetInputs {
  NetShape s;
  int64_t n = 0;
  std::vector<float> q, k, v, g, beta;
};
NetInputs make_inputs(const NetShape& s, int64_t n, uint32_t seed) {
  const auto count = [](int64_t a) { return static_cast<size_t>(a); };
  NetInputs in{.s = s,
               .n = n,
               .q = random_floats(count(n * s.n_head_k * s.dk), seed),
               .k = random_floats(count(n * s.n_head_k * s.dk), seed + 1, 1 / std::sqrt(static_cast<float>(s.dk))),
               .v = random_floats(count(n * s.n_head_v * s.dv), seed + 2),
               .g = random_floats(count(n * s.n_head_v * (s.per_channel ? s.dk : 1)), seed + 3, 0.5f),
               .beta = random_floats(count(n * s.n_head_v), seed + 4, 0.2f)};
  for (float& g : in.g) g = -std::fabs(g);
  for (float& b : in.beta) b = std::fabs(b);
  return in;
}

// What a call reads and leaves: `states` rows, y of its tokens.
struct NetCall {
  Isa isa = Isa::scalar;
  std::vector<SequenceRun> runs;  // tokens of `in`
  std::vector<int32_t> src, rows;
  int64_t n_snapshots = 1;
  bool in_pieces = false;
};
std::vector<float> run_net(const NetInputs& in, const NetCall& call, std::vector<float>& states) {
  const NetShape& s = in.s;
  std::vector<float> y(static_cast<size_t>(in.n * s.n_head_v * s.dv), std::nanf("")),
      starts(call.src.size() * static_cast<size_t>(s.state_elems()));
  const int64_t n_blocks = (s.dv + kDeltaBlock - 1) / kDeltaBlock, n_items = s.n_head_v * n_blocks;
  const DeltaNetArgs a{.seqs = {.n_seqs = static_cast<int64_t>(call.runs.size()),
                                .runs = call.runs.data(),
                                .states = states.data(),
                                .state_elems = s.state_elems(),
                                .state_src = call.src.data(),
                                .n_snapshots = call.n_snapshots,
                                .out = states.data(),
                                .out_rows = call.rows.data(),
                                .starts = starts.data()},
                       .n_head_k = s.n_head_k,
                       .n_head_v = s.n_head_v,
                       .dk = s.dk,
                       .dv = s.dv,
                       .grouped = s.grouped,
                       .gate_per_channel = s.per_channel,
                       .scale = 0.25f,
                       .q = in.q.data(),
                       .k = in.k.data(),
                       .v = in.v.data(),
                       .q_stride = s.dk,
                       .k_stride = s.dk,
                       .v_stride = s.dv,
                       .g = in.g.data(),
                       .g_stride = s.per_channel ? s.dk : s.n_head_v,
                       .beta = in.beta.data(),
                       .beta_stride = s.n_head_v,
                       .y = y.data()};
  if (!call.in_pieces) {
    op_set(call.isa).gated_delta_net(a, 0, n_items);
    return y;
  }
  for (int64_t i = n_items; i-- > 0;) op_set(call.isa).gated_delta_net(a, i, i + 1);
  return y;
}

// One row of a head's state in f64, and how far f32 may be from it after what has happened so far. Every line below
// adds the rounding of the line of arithmetic it stands beside; products of two errors are covered by kSlack.
struct ExactRow {
  static constexpr double kSlack = 1.01;
  std::vector<double> s, error;

  // Sums of n products in 64 lanes: n / 64 + 1 fused steps in a lane, then 2 and 4 additions.
  static double sum_units(size_t n) { return static_cast<double>(n / 64) + 8; }

  // Returns y and its bound.
  std::pair<double, double> token(const float* q, const float* k, const float* decay, bool per_channel, double value,
                                  double beta, double scale) {
    double known = 0, known_error = 0, size = 0;
    for (size_t i = 0; i < s.size(); ++i) {
      const double d = std::exp(double{decay[per_channel ? i : 0]});
      s[i] *= d;
      error[i] = error[i] * d + 4 * kUnit * std::fabs(s[i]);  // exp within 3 u, and the product
      known += s[i] * k[i];
      known_error += error[i] * std::fabs(k[i]);
      size += std::fabs(s[i] * k[i]);
    }
    known_error += sum_units(s.size()) * kUnit * size;
    const double change = beta * (value - known);
    const double change_error = std::fabs(beta) * known_error + 2 * kUnit * std::fabs(change);
    double sum = 0, sum_error = 0;
    size = 0;
    for (size_t i = 0; i < s.size(); ++i) {
      s[i] += change * k[i];
      error[i] = kSlack * (error[i] + change_error * std::fabs(k[i]) + kUnit * std::fabs(s[i]));
      sum += s[i] * q[i];
      sum_error += error[i] * std::fabs(q[i]);
      size += std::fabs(s[i] * q[i]);
    }
    sum_error += sum_units(s.size()) * kUnit * size;
    return {scale * sum, kSlack * (scale * sum_error + kUnit * std::fabs(scale * sum)) + 0x1p-126};
  }
};

void check_against_f64(const NetInputs& in, const std::vector<float>& start, const std::vector<float>& y,
                       const float* after) {
  const NetShape& s = in.s;
  for (int64_t h = 0; h < s.n_head_v; ++h)
    for (int64_t j = 0; j < s.dv; ++j) {
      const int64_t at = (h * s.dv + j) * s.dk;
      ExactRow row{.s = std::vector<double>(start.begin() + at, start.begin() + at + s.dk),
                   .error = std::vector<double>(static_cast<size_t>(s.dk))};
      const int64_t key_head = s.grouped ? h / (s.n_head_v / s.n_head_k) : h % s.n_head_k;
      for (int64_t t = 0; t < in.n; ++t) {
        const int64_t key_row = (t * s.n_head_k + key_head) * s.dk, value_row = t * s.n_head_v + h;
        const auto [exact, bound] = row.token(in.q.data() + key_row, in.k.data() + key_row,
                                              in.g.data() + value_row * (s.per_channel ? s.dk : 1), s.per_channel,
                                              double{in.v[static_cast<size_t>(value_row * s.dv + j)]},
                                              double{in.beta[static_cast<size_t>(value_row)]}, 0.25);
        ASSERT_NEAR(y[static_cast<size_t>(value_row * s.dv + j)], exact, bound) << "token " << t << " row " << j;
      }
      for (int64_t i = 0; i < s.dk; ++i)
        ASSERT_NEAR(after[at + i], row.s[static_cast<size_t>(i)], row.error[static_cast<size_t>(i)]) << "state";
    }
}

TEST(CpuDeltaNet, AgainstF64AndAllInstructionSetsAgree) {
  for (int64_t dk : {1, 15, 16, 17, 64, 97, 128, 256})
    for (int64_t dv : {1, 16, 19})
      for (bool per_channel : {false, true}) {
        const NetShape s{
            .n_head_k = 2, .n_head_v = 4, .dk = dk, .dv = dv, .per_channel = per_channel, .grouped = dv == 19};
        const NetInputs in = make_inputs(s, 21, 1);
        const auto start = random_floats(static_cast<size_t>(s.state_elems()), 9, 0.5f);
        std::vector<float> first_y, first_state;
        for (Isa isa : usable_isas())
          for (bool in_pieces : {false, true}) {
            std::vector<float> states = start;
            states.resize(2 * start.size(), 7);
            const NetCall call{.isa = isa, .runs = {{0, in.n}}, .src = {0}, .rows = {1}, .in_pieces = in_pieces};
            const auto y = run_net(in, call, states);
            if (first_y.empty()) {
              first_y = y;
              first_state = states;
              check_against_f64(in, start, y, states.data() + s.state_elems());
              if (HasFatalFailure()) FAIL() << dk << " " << dv;
            }
            expect_same_bits(first_y, y, std::string(isa_name(isa)));
            expect_same_bits(first_state, states, std::string(isa_name(isa)) + " state");
          }
      }
}

// Prompts in chunks, with the state kept in one row, in place.
TEST(CpuDeltaNet, AnyChunkingGivesTheSameBits) {
  for (bool per_channel : {false, true})
    for (int64_t dk : {20, 64, 128}) {
      const NetShape s{.dk = dk, .dv = 18, .per_channel = per_channel};
      const int64_t n = 53, width = s.n_head_v * s.dv;
      const NetInputs in = make_inputs(s, n, 20);
      const Isa isa = best_isa();
      std::vector<float> whole(static_cast<size_t>(s.state_elems()));
      const auto y = run_net(in, {.isa = isa, .runs = {{0, n}}, .src = {-1}, .rows = {0}}, whole);
      for (int64_t chunk : {1, 2, 15, 16, 17, 31, 52}) {
        std::vector<float> state(whole.size(), 3), parts;
        for (int64_t at = 0; at < n; at += chunk) {
          const int64_t end = std::min(n, at + chunk);
          const auto part =
              run_net(in, {.isa = isa, .runs = {{at, end}}, .src = {at == 0 ? -1 : 0}, .rows = {0}}, state);
          parts.insert(parts.end(), part.begin() + at * width, part.begin() + end * width);
        }
        expect_same_bits(y, parts, "chunks of " + std::to_string(chunk));
        expect_same_bits(whole, state, "state after chunks of " + std::to_string(chunk));
      }
    }
}

// Snapshot i is the state of a prompt that is i tokens shorter; what is not there is zeros.
TEST(CpuDeltaNet, SnapshotsAreTheStatesOfShorterPrompts) {
  const NetShape s{.dk = 64, .dv = 20};
  const int64_t n = 37;
  const auto elems = s.state_elems();
  const NetInputs in = make_inputs(s, n, 30);
  for (int64_t n_snapshots : {2, 5, 40}) {
    std::vector<float> states(static_cast<size_t>(n_snapshots * elems), 5);
    run_net(in, {.isa = best_isa(), .runs = {{0, n}}, .src = {-1}, .rows = {0}, .n_snapshots = n_snapshots}, states);
    for (int64_t i = 0; i < n_snapshots; ++i) {
      std::vector<float> expected(static_cast<size_t>(elems));
      if (i < n) run_net(in, {.isa = best_isa(), .runs = {{0, n - i}}, .src = {-1}, .rows = {0}}, expected);
      expect_same_bits(expected, slice(states, i * elems, elems), "snapshot " + std::to_string(i));
    }
  }
}

TEST(CpuDeltaNet, SequencesDoNotSeeEachOther) {
  const NetShape s{.n_head_k = 2, .dk = 128, .dv = 16};
  const int64_t elems = s.state_elems();
  const NetInputs in = make_inputs(s, 30, 40);
  const std::vector<SequenceRun> runs = {{0, 1}, {1, 18}, {18, 30}};
  const std::vector<int32_t> src = {2, -1, 0}, rows = {0, 1, 2};  // the first and the last swap their rows
  const auto before = random_floats(static_cast<size_t>(3 * elems), 41, 0.5f);
  std::vector<float> together = before;
  const auto y = run_net(in, {.isa = best_isa(), .runs = runs, .src = src, .rows = rows}, together);
  for (size_t i = 0; i < runs.size(); ++i) {
    std::vector<float> alone = before;
    const auto own = run_net(in, {.isa = best_isa(), .runs = {runs[i]}, .src = {src[i]}, .rows = {rows[i]}}, alone);
    const int64_t width = s.n_head_v * s.dv, first = runs[i].begin * width,
                  count = (runs[i].end - runs[i].begin) * width;
    expect_same_bits(slice(own, first, count), slice(y, first, count), "sequence " + std::to_string(i));
    expect_same_bits(slice(alone, rows[i] * elems, elems), slice(together, rows[i] * elems, elems), "state");
  }
}

struct ConvInputs {
  int64_t n = 0, n_channels = 0, taps = 0;
  std::vector<float> x, weight, bias;  // weight [taps][n_channels]
  int64_t state_elems() const { return (taps - 1) * n_channels; }
};
struct ConvResult {
  std::vector<float> y, states;
};
// The kernel's convolution, then the states it leaves, as the two ops of a layer.
ConvResult run_conv(const ConvInputs& in, const NetCall& call, bool silu, bool with_bias, std::vector<float> states) {
  std::vector<float> y(in.x.size(), std::nanf("")), starts(call.src.size() * static_cast<size_t>(in.state_elems()));
  const RecurrentArgs seqs{.n_seqs = static_cast<int64_t>(call.runs.size()),
                           .runs = call.runs.data(),
                           .states = states.data(),
                           .state_elems = in.state_elems(),
                           .state_src = call.src.data(),
                           .n_snapshots = call.n_snapshots};
  const SsmConvArgs conv{.seqs = seqs,
                         .n_channels = in.n_channels,
                         .taps = in.taps,
                         .x = in.x.data(),
                         .x_stride = in.n_channels,
                         .weight = in.weight.data(),
                         .bias = with_bias ? in.bias.data() : nullptr,
                         .silu = silu,
                         .y = y.data(),
                         .y_stride = in.n_channels};
  ConvStateArgs state{
      .seqs = seqs, .n_channels = in.n_channels, .n_before = in.taps - 1, .x = in.x.data(), .x_stride = in.n_channels};
  state.seqs.out = states.data();
  state.seqs.out_rows = call.rows.data();
  state.seqs.starts = starts.data();
  const int64_t n_items = (in.n_channels + kConvBlock - 1) / kConvBlock;
  const OpSet& ops = op_set(call.isa);
  if (!call.in_pieces) {
    ops.ssm_conv(conv, 0, n_items);
    ops.ssm_conv_state(state, 0, n_items);
    return {y, states};
  }
  for (int64_t i = n_items; i-- > 0;) ops.ssm_conv(conv, i, i + 1);
  for (int64_t i = n_items; i-- > 0;) ops.ssm_conv_state(state, i, i + 1);
  return {y, states};
}
ConvInputs make_conv(int64_t n, int64_t n_channels, int64_t taps) {
  return {.n = n,
          .n_channels = n_channels,
          .taps = taps,
          .x = random_floats(static_cast<size_t>(n * n_channels), 60),
          .weight = random_floats(static_cast<size_t>(taps * n_channels), 61),
          .bias = random_floats(static_cast<size_t>(n_channels), 62)};
}

TEST(CpuSsmConv, AgainstF64AndAllInstructionSetsAgree) {
  for (int64_t n_channels : {1, 15, 16, 17, 61})
    for (int64_t taps : {2, 4, 5}) {
      const ConvInputs in = make_conv(7, n_channels, taps);
      const auto before = random_floats(static_cast<size_t>(in.state_elems()), 63);
      for (bool silu : {false, true}) {
        ConvResult first;
        for (Isa isa : usable_isas())
          for (bool in_pieces : {false, true}) {
            const ConvResult r =
                run_conv(in, {.isa = isa, .runs = {{0, in.n}}, .src = {0}, .rows = {0}, .in_pieces = in_pieces}, silu,
                         silu, before);
            if (first.y.empty()) first = r;
            expect_same_bits(first.y, r.y, std::string(isa_name(isa)));
            expect_same_bits(first.states, r.states, std::string(isa_name(isa)) + " state");
          }
        for (int64_t t = 0; t < in.n; ++t)
          for (int64_t c = 0; c < n_channels; ++c) {
            double sum = 0, size = 0;
            for (int64_t j = 0; j < taps; ++j) {
              const int64_t from = t - (taps - 1) + j;
              const double x = from >= 0 ? double{in.x[static_cast<size_t>(from * n_channels + c)]}
                                         : double{before[static_cast<size_t>((from + taps - 1) * n_channels + c)]};
              const double term = x * double{in.weight[static_cast<size_t>(j * n_channels + c)]};
              sum += term, size += std::fabs(term);
            }
            double bound = static_cast<double>(taps) * kUnit * size;
            if (silu) {
              sum += double{in.bias[static_cast<size_t>(c)]};
              bound += kUnit * (size + std::fabs(sum));
              bound = 1.1 * bound + (8 + 4 * std::fabs(sum)) * kUnit * std::fabs(sum);  // silu's slope is below 1.1
              sum = sum / (1 + std::exp(-sum));
            }
            ASSERT_NEAR(first.y[static_cast<size_t>(t * n_channels + c)], sum, bound) << t << " " << c;
          }
      }
    }
}

TEST(CpuSsmConv, AnyChunkingGivesTheSameBits) {
  const ConvInputs in = make_conv(23, 37, 4);
  const std::vector<float> empty(static_cast<size_t>(in.state_elems()));
  const ConvResult whole =
      run_conv(in, {.isa = best_isa(), .runs = {{0, in.n}}, .src = {-1}, .rows = {0}}, true, true, empty);
  for (int64_t chunk : {1, 2, 3, 4, 22}) {
    std::vector<float> state = empty, parts;
    for (int64_t at = 0; at < in.n; at += chunk) {
      const int64_t end = std::min(in.n, at + chunk);
      const ConvResult part = run_conv(
          in, {.isa = best_isa(), .runs = {{at, end}}, .src = {at == 0 ? -1 : 0}, .rows = {0}}, true, true, state);
      state = part.states;
      parts.insert(parts.end(), part.y.begin() + at * 37, part.y.begin() + end * 37);
    }
    expect_same_bits(whole.y, parts, "chunks of " + std::to_string(chunk));
    expect_same_bits(whole.states, state, "state");
  }
}

TEST(CpuSsmConv, SnapshotsAreTheStatesOfShorterPrompts) {
  const ConvInputs in = make_conv(6, 20, 4);
  const int64_t elems = in.state_elems(), n_snapshots = 8;
  auto before = random_floats(static_cast<size_t>(n_snapshots * elems), 64);
  const ConvResult all =
      run_conv(in, {.isa = best_isa(), .runs = {{0, in.n}}, .src = {2}, .rows = {0}, .n_snapshots = n_snapshots}, false,
               false, before);
  for (int64_t i = 0; i < n_snapshots; ++i) {
    std::vector<float> expected(static_cast<size_t>(elems));
    if (i < in.n) {
      const ConvResult shorter =
          run_conv(in, {.isa = best_isa(), .runs = {{0, in.n - i}}, .src = {2}, .rows = {0}}, false, false, before);
      expected = slice(shorter.states, 0, elems);
    }
    expect_same_bits(expected, slice(all.states, i * elems, elems), "snapshot " + std::to_string(i));
  }
}

}  // namespace
}  // namespace tokamak::cpu
