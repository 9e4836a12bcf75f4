// Error rules of the ops with recurrent state.
#include <algorithm>

#include "check/error_analysis.h"

namespace tokamak::check {

using ir::Attr;
using ir::Node;

namespace {
struct Run {
  size_t begin = 0, end = 0;
};
// Tokens of each sequence.
std::vector<Run> runs_of(const Analysis& a) {
  std::vector<Run> runs(a.step.pages.size());
  for (size_t t = 0; t < a.step.seq_ids.size(); ++t) {
    Run& run = runs[static_cast<size_t>(a.step.seq_ids[t])];
    if (run.begin == run.end) run.begin = t;
    run.end = t + 1;
  }
  return runs;
}

// Row t of a convolution's input, t counted from the sequence's first token; negative: in the state.
struct ConvInput {
  const Numbers &x, &state;
  size_t n_channels, n_before;
  int32_t src;  // row of the state, -1: zeros

  const float* row(int64_t t, size_t begin) const { return at(x.x, state.x, t, begin); }
  const double* bounds(int64_t t, size_t begin) const { return at(x.e, state.e, t, begin); }

 private:
  template <class T>
  const T* at(const std::vector<T>& tokens, const std::vector<T>& before, int64_t t, size_t begin) const {
    if (t >= 0) return &tokens[(begin + static_cast<size_t>(t)) * n_channels];
    if (src < 0) return nullptr;
    return &before[(static_cast<size_t>(src) * n_before + static_cast<size_t>(t + static_cast<int64_t>(n_before))) *
                   n_channels];
  }
};
}  // namespace

void error_ssm_conv(Analysis& a, const Node& node) {
  const Numbers &x = a.of(node.inputs[0]), &w = a.of(node.inputs[1]);
  const auto taps = static_cast<size_t>(a.shape(node.inputs[1])[1]),
             n = static_cast<size_t>(a.shape(node.inputs[0])[1]);
  Numbers& out = a.of(node.output);
  const std::vector<Run> runs = runs_of(a);
  for (size_t s = 0; s < runs.size(); ++s) {
    const ConvInput input{x, a.state(node.inputs[2]), n, taps - 1, a.step.state_src[s]};
    for (size_t t = runs[s].begin; t < runs[s].end; ++t)
      for (size_t j = 0; j < taps; ++j) {
        const int64_t from = static_cast<int64_t>(t - runs[s].begin + j) - static_cast<int64_t>(taps - 1);
        const float* row = input.row(from, runs[s].begin);
        if (row == nullptr) continue;
        const double* bounds = input.bounds(from, runs[s].begin);
        for (size_t i = 0; i < n; ++i) {
          const double weight = std::abs(double{w.x[i * taps + j]});
          out.e[t * n + i] += weight * (bounds[i] + rounding(static_cast<double>(taps), std::abs(double{row[i]})));
        }
      }
  }
  for (size_t i = 0; i < out.e.size(); ++i) out.e[i] += stored(double{out.x[i]});
}

void error_ssm_conv_state(Analysis& a, const Node& node) {
  const auto n = static_cast<size_t>(a.shape(node.inputs[0])[1]);
  const size_t n_before = static_cast<size_t>(a.shape(node.inputs[1])[1]) / n;
  const auto n_snapshots = static_cast<size_t>(node.attrs.integer(Attr::n_snapshots));
  Numbers& out = a.of(node.output);
  const std::vector<Run> runs = runs_of(a);
  for (size_t s = 0; s < runs.size(); ++s) {
    const ConvInput input{a.of(node.inputs[0]), a.state(node.inputs[1]), n, n_before, a.step.state_src[s]};
    const size_t n_tokens = runs[s].end - runs[s].begin;
    for (size_t i = 0; i < std::min(n_snapshots, n_tokens); ++i)
      for (size_t j = 0; j < n_before; ++j) {
        const int64_t from = static_cast<int64_t>(n_tokens - i + j) - static_cast<int64_t>(n_before);
        if (const double* bounds = input.bounds(from, runs[s].begin))
          std::copy_n(bounds, n, &out.e[((s * n_snapshots + i) * n_before + j) * n]);
      }
  }
}

namespace {
double norm(const double* x, size_t n) {
  double sum = 0;
  for (size_t i = 0; i < n; ++i) sum += x[i] * x[i];
  return std::sqrt(sum);
}
double norm(const float* x, size_t n) {
  double sum = 0;
  for (size_t i = 0; i < n; ++i) sum += double{x[i]} * double{x[i]};
  return std::sqrt(sum);
}

// One row of one head's state: S' = decay S (I - beta k k^T) + beta v k^T. `size` bounds the row's length, `error` the
// length of its error. A step multiplies both with at most `decay` times the norm of the bracket, and adds what it
// rounds: dk * u in S k, a few units in the update.
struct DeltaNetRow {
  double size = 0, error = 0;

  struct Step {
    double decay, decay_error;  // of exp(g), relative
    double beta, beta_error, k, k_error, v, v_error, dk;
  };
  void advance(const Step& t) {
    const double contraction = std::max(1.0, std::abs(1 - t.beta * t.k * t.k));
    const double known = t.decay * size * t.k, change = t.beta * (std::abs(t.v) + known);
    const double known_error = known * (t.dk + 2) * kUnit + t.decay * size * t.k_error;
    error = contraction * t.decay * error * (1 + t.decay_error) + t.decay * size * (t.decay_error + 2 * kUnit) +
            t.k * (t.beta * (t.v_error + known_error) + t.beta_error * (std::abs(t.v) + known)) +
            change * (t.k_error + 4 * kUnit * t.k);
    size = contraction * t.decay * size + t.beta * std::abs(t.v) * t.k;
    error += 2 * kUnit * size;  // both store the state as f32
  }
};

struct DeltaNet {
  Analysis& a;
  const Node& node;
  const Numbers &q = a.of(node.inputs[0]), &k = a.of(node.inputs[1]), &v = a.of(node.inputs[2]),
                &g = a.of(node.inputs[3]), &beta = a.of(node.inputs[4]), &state = a.state(node.inputs[5]);
  size_t hk = static_cast<size_t>(a.shape(node.inputs[1])[1]), dk = static_cast<size_t>(a.shape(node.inputs[1])[2]);
  size_t hv = static_cast<size_t>(a.shape(node.inputs[2])[1]), dv = static_cast<size_t>(a.shape(node.inputs[2])[2]);
  size_t n_snapshots = static_cast<size_t>(node.attrs.integer(Attr::n_snapshots));
  bool per_channel = a.shape(node.inputs[3]).rank() == 3;
  bool grouped = node.attrs.keyword<ir::HeadMap>(Attr::head_map) == ir::HeadMap::grouped;
  double scale = std::abs(node.attrs.number(Attr::scale));

  void row(size_t s, const Run& run, size_t head, size_t j, Numbers& out) const {
    const size_t key_head = grouped ? head / (hv / hk) : head % hk;
    DeltaNetRow row;
    if (const int32_t src = a.step.state_src[s]; src >= 0) {
      const size_t at = ((static_cast<size_t>(src) * hv + head) * dv + j) * dk;
      row.size = norm(&state.x[at], dk);
      row.error = norm(&state.e[at], dk);
    }
    const size_t n_y = v.x.size();
    for (size_t t = run.begin; t < run.end; ++t) {
      const size_t key = (t * hk + key_head) * dk, value = (t * hv + head) * dv + j;
      double largest = -HUGE_VAL, gate_error = 0;
      for (size_t i = 0; i < (per_channel ? dk : 1); ++i) {
        const size_t gate = per_channel ? (t * hv + head) * dk + i : t * hv + head;
        largest = std::max(largest, double{g.x[gate]});
        gate_error = std::max(gate_error, g.e[gate] + 8 * kUnit * (1 + std::abs(double{g.x[gate]})));
      }
      row.advance({.decay = std::exp(largest),
                   .decay_error = std::expm1(gate_error),
                   .beta = std::abs(double{beta.x[t * hv + head]}),
                   .beta_error = beta.e[t * hv + head],
                   .k = norm(&k.x[key], dk),
                   .k_error = norm(&k.e[key], dk),
                   .v = v.x[value],
                   .v_error = v.e[value],
                   .dk = static_cast<double>(dk)});
      const double query = norm(&q.x[key], dk), query_error = norm(&q.e[key], dk);
      out.e[value] = scale * (row.error * (query + query_error) +
                              row.size * (query_error + rounding(static_cast<double>(dk) + 4, query))) +
                     stored(double{out.x[value]});
      const size_t snapshot = run.end - 1 - t;
      if (snapshot < n_snapshots)
        std::fill_n(&out.e[n_y + (((s * n_snapshots + snapshot) * hv + head) * dv + j) * dk], dk, row.error);
    }
  }
};
}  // namespace

void error_gated_delta_net(Analysis& a, const Node& node) {
  const DeltaNet net{a, node};
  Numbers& out = a.of(node.output);
  const std::vector<Run> runs = runs_of(a);
  for (size_t s = 0; s < runs.size(); ++s)
    for (size_t head = 0; head < net.hv; ++head)
      for (size_t j = 0; j < net.dv; ++j) net.row(s, runs[s], head, j, out);
}

void error_cpy(Analysis& a, const Node& node) {
  const Numbers& in = a.of(node.inputs[1]);
  Numbers& state = a.state(node.inputs[0]);
  const auto row = static_cast<size_t>(a.shape(node.inputs[1])[1]);
  const size_t n_rows = in.x.size() / row, n_snapshots = n_rows / a.step.state_rows.size();
  for (size_t r = 0; r < n_rows; ++r) {
    const size_t to = static_cast<size_t>(a.step.state_rows[r / n_snapshots]) + r % n_snapshots;
    std::copy_n(&in.x[r * row], row, &state.x[to * row]);
    std::copy_n(&in.e[r * row], row, &state.e[to * row]);
  }
}

}  // namespace tokamak::check
