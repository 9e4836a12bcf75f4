// Ops with recurrent state.
#include <algorithm>
#include <cmath>

#include "backend/reference/ops.h"
#include "backend/reference/parallel.h"

namespace tokamak::reference {

using ir::Attr;

namespace {
// The tokens [begin, end) of each sequence.
std::vector<std::pair<int64_t, int64_t>> runs_of(const Tensor& seq_ids, int64_t n_seqs) {
  std::vector<std::pair<int64_t, int64_t>> runs(static_cast<size_t>(n_seqs), {0, 0});
  for (int64_t t = 0; t < seq_ids.value->shape[0]; ++t) {
    auto& [begin, end] = runs[static_cast<size_t>(seq_ids.i32[t])];
    if (begin == end) begin = t;
    end = t + 1;
  }
  return runs;
}

// The state that a sequence starts from; null: zeros.
const float* start_of(const StateTensor& state, int32_t row) {
  return row < 0 ? nullptr : state.data.data() + row * state.head_dim;
}

// Row `t` of x for a sequence that starts at `begin`; t may lie before it, by at most n_before rows: then in its state.
const float* conv_row(const Tensor& x, const float* state, int64_t t, int64_t begin, int64_t n_before) {
  if (t >= begin) return x.row(t);
  return state == nullptr ? nullptr : state + (t - begin + n_before) * x.row_elems();
}
}  // namespace

void ssm_conv(const OpContext& c) {
  const Tensor &x = c.inputs[0], &weight = c.inputs[1], &src = c.inputs[3], &seq_ids = c.inputs[4];
  const int64_t n_channels = x.row_elems(), taps = weight.row_elems();
  std::vector<float> w(static_cast<size_t>(taps * n_channels));
  for (int64_t i = 0; i < n_channels; ++i) read_row(weight, i, w.data() + i * taps);
  const auto runs = runs_of(seq_ids, src.value->shape[0]);
  for (int64_t t = 0; t < x.n_rows(); ++t) {
    const int32_t seq = seq_ids.i32[t];
    const float* state = start_of(*c.inputs[2].state, src.i32[seq]);
    std::vector<double> sums(static_cast<size_t>(n_channels));
    for (int64_t j = 0; j < taps; ++j) {
      const float* row = conv_row(x, state, t - (taps - 1) + j, runs[static_cast<size_t>(seq)].first, taps - 1);
      for (int64_t i = 0; row != nullptr && i < n_channels; ++i)
        sums[static_cast<size_t>(i)] += double{row[i]} * double{w[static_cast<size_t>(i * taps + j)]};
    }
    for (int64_t i = 0; i < n_channels; ++i) c.output.row(t)[i] = static_cast<float>(sums[static_cast<size_t>(i)]);
  }
}

void ssm_conv_state(const OpContext& c) {
  const Tensor &x = c.inputs[0], &src = c.inputs[2], &seq_ids = c.inputs[3];
  const int64_t n_channels = x.row_elems(), n_before = c.output.row_elems() / n_channels;
  const int64_t n_snapshots = c.node.attrs.integer(Attr::n_snapshots);
  const auto runs = runs_of(seq_ids, src.value->shape[0]);
  for (size_t seq = 0; seq < runs.size(); ++seq) {
    const auto [begin, end] = runs[seq];
    const float* state = start_of(*c.inputs[1].state, src.i32[seq]);
    for (int64_t i = 0; i < n_snapshots; ++i) {
      float* out = c.output.row(static_cast<int64_t>(seq) * n_snapshots + i);
      std::fill_n(out, c.output.row_elems(), 0.0f);
      if (i >= end - begin) continue;
      for (int64_t j = 0; j < n_before; ++j) {
        const float* row = conv_row(x, state, end - i - n_before + j, begin, n_before);
        if (row != nullptr) std::copy_n(row, n_channels, out + j * n_channels);
      }
    }
  }
}

namespace {
struct DeltaNet {
  const OpContext& c;
  const Tensor &q = c.inputs[0], &k = c.inputs[1], &v = c.inputs[2], &g = c.inputs[3], &beta = c.inputs[4];
  int64_t n_head_k = k.value->shape[1], n_head_v = v.value->shape[1], dk = k.row_elems(), dv = v.row_elems();
  int64_t n_snapshots = c.node.attrs.integer(Attr::n_snapshots);
  bool grouped = c.node.attrs.keyword<ir::HeadMap>(Attr::head_map) == ir::HeadMap::grouped;
  double scale = c.node.attrs.number(Attr::scale);

  // One token of one head. S is [dv, dk], f64.
  void step(std::vector<double>& s, int64_t token, int64_t head, float* y) const {
    const int64_t key_head = grouped ? head / (n_head_v / n_head_k) : head % n_head_k;
    const float *query = q.row(token * n_head_k + key_head), *key = k.row(token * n_head_k + key_head);
    const float* value = v.row(token * n_head_v + head);
    const bool per_channel = g.value->shape.rank() == 3;
    const float* gate = per_channel ? g.row(token * n_head_v + head) : g.row(token) + head;
    const double strength = beta.row(token)[head];
    for (int64_t j = 0; j < dv; ++j) {
      double* row = s.data() + j * dk;
      double known = 0, sum = 0;
      for (int64_t i = 0; i < dk; ++i) {
        row[i] *= std::exp(gate[per_channel ? i : 0]);
        known += row[i] * key[i];
      }
      const double change = strength * (value[j] - known);
      for (int64_t i = 0; i < dk; ++i) {
        row[i] += change * key[i];
        sum += row[i] * query[i];
      }
      y[j] = static_cast<float>(scale * sum);
    }
  }

  void run_head(int64_t seq, int64_t head, int64_t begin, int64_t end, float* states) const {
    std::vector<double> s(static_cast<size_t>(dv * dk));
    if (const float* start = start_of(*c.inputs[5].state, c.inputs[6].i32[seq]))
      std::copy_n(start + head * dv * dk, dv * dk, s.begin());
    for (int64_t t = begin; t < end; ++t) {
      step(s, t, head, c.output.f32 + (t * n_head_v + head) * dv);
      // States are stored as f32 between steps: round after every token, so that any chunking gives the same.
      for (double& x : s) x = static_cast<float>(x);
      const int64_t snapshot = end - 1 - t;
      if (snapshot < n_snapshots)
        std::copy(s.begin(), s.end(), states + ((seq * n_snapshots + snapshot) * n_head_v + head) * dv * dk);
    }
  }
};
}  // namespace

// Yang, Kautz, Hatamizadeh 2024 (arXiv:2412.06464), eq. 10; one decay per key channel: Kimi Linear (arXiv:2510.26692).
void gated_delta_net(const OpContext& c) {
  const DeltaNet net{c};
  const auto runs = runs_of(c.inputs[7], c.inputs[6].value->shape[0]);
  float* states = c.output.f32 + net.v.value->shape.n_elements();
  std::fill(states, c.output.f32 + c.output.value->shape.n_elements(), 0.0f);
  for (size_t seq = 0; seq < runs.size(); ++seq)
    for (int64_t head = 0; head < net.n_head_v; ++head)
      net.run_head(static_cast<int64_t>(seq), head, runs[seq].first, runs[seq].second, states);
}

void cpy(const OpContext& c) {
  StateTensor& state = *c.inputs[0].state;
  const Tensor &x = c.inputs[1], &rows = c.inputs[2];
  const int64_t n_snapshots = x.n_rows() / rows.value->shape[0];
  for (int64_t r = 0; r < x.n_rows(); ++r)
    std::copy_n(x.row(r), state.head_dim,
                state.data.data() + (rows.i32[r / n_snapshots] + r % n_snapshots) * state.head_dim);
}

}  // namespace tokamak::reference
