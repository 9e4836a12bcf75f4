// Convolutions and delta nets over a vector layer V. Included by ops_ISA.cpp only.
#pragma once

#include "backend/cpu/ops/rows_generic.h"
#include "ir/limits.h"

namespace tokamak::cpu {
namespace {

// Keeps the elements [begin, begin + n) of every sequence's start where no item of this step writes.
inline void keep_starts(const RecurrentArgs& a, int64_t begin, int64_t n) {
  for (int64_t s = 0; a.starts != nullptr && s < a.n_seqs; ++s)
    if (a.state_src[s] >= 0)
      std::memcpy(a.starts + s * a.state_elems + begin, a.states + a.state_src[s] * a.state_elems + begin,
                  static_cast<size_t>(n) * sizeof(float));
}

template <class V>
struct Recurrent {
  using F = typename V::F;
  using A = Math<V>;
  using R = Rows<V>;

  // Row t of x for a sequence that begins at `begin`, or the row before it from the state [n_before][n_channels]; null:
  // nothing came before.
  static const float* input_row(const float* x, int64_t x_stride, const float* start, int64_t t, int64_t begin,
                                int64_t n_before, int64_t n_channels) {
    if (t >= begin) return x + t * x_stride;
    return start ? start + (t - begin + n_before) * n_channels : nullptr;
  }

  static void ssm_conv(const SsmConvArgs& a, int64_t begin, int64_t end) {
    const int64_t first = begin * kConvBlock, last = end * kConvBlock < a.n_channels ? end * kConvBlock : a.n_channels;
    for (int64_t s = 0; s < a.seqs.n_seqs; ++s) {
      const SequenceRun run = a.seqs.runs[s];
      const float* start = a.seqs.start(s);
      for (int64_t t = run.begin; t < run.end; ++t) conv_token(a, start, run.begin, t, first, last);
    }
  }
  static void conv_token(const SsmConvArgs& a, const float* start, int64_t run_begin, int64_t t, int64_t first,
                         int64_t last) {
    float* y = a.y + t * a.y_stride + first;
    for_vectors(last - first, [&](int64_t i, int n) {
      F sum = V::zero();
      for (int64_t j = 0; j < a.taps; ++j) {
        const float* x = input_row(a.x, a.x_stride, start, t - (a.taps - 1) + j, run_begin, a.taps - 1, a.n_channels);
        if (x == nullptr) continue;
        sum = V::fma(R::load(a.weight + j * a.n_channels + first + i, n), R::load(x + first + i, n), sum);
      }
      if (a.bias) sum = V::add(sum, R::load(a.bias + first + i, n));
      R::store(y + i, a.silu ? A::silu(sum) : sum, n);
    });
  }

  static void ssm_conv_state(const ConvStateArgs& a, int64_t begin, int64_t end) {
    const int64_t first = begin * kConvBlock, last = end * kConvBlock < a.n_channels ? end * kConvBlock : a.n_channels;
    const auto n_bytes = static_cast<size_t>(last - first) * sizeof(float);
    for (int64_t j = 0; j < a.n_before; ++j) keep_starts(a.seqs, j * a.n_channels + first, last - first);
    for (int64_t s = 0; s < a.seqs.n_seqs; ++s) {
      const SequenceRun run = a.seqs.runs[s];
      const float* start = a.seqs.start(s);
      for (int64_t i = 0; i < a.seqs.n_snapshots; ++i)
        for (int64_t j = 0; j < a.n_before; ++j) {
          float* out = a.seqs.snapshot(s, i) + j * a.n_channels + first;
          const float* x = i >= run.end - run.begin ? nullptr
                                                    : input_row(a.x, a.x_stride, start, run.end - i - a.n_before + j,
                                                                run.begin, a.n_before, a.n_channels);
          if (x)
            std::memcpy(out, x + first, n_bytes);
          else
            std::memset(out, 0, n_bytes);
        }
    }
  }
};

// One item: rows [first, first + n_rows) of a head's state. Rows stay in `rows` over all tokens; tokens go in blocks so
// that their keys and queries stay in the first-level cache while every row passes over them.
template <class V>
struct DeltaNet {
  using F = typename V::F;
  using A = Math<V>;
  using R = Rows<V>;
  static constexpr int64_t kTokens = 16;

  struct Item {
    const DeltaNetArgs* args;
    int64_t head, key_head, first, n_rows;
    alignas(64) float rows[kDeltaBlock * ir::kMaxHeadDim];
    alignas(64) float decay[kTokens * ir::kMaxHeadDim];  // exp(g) of the token block: dk each, or one
  };

  static void run(const DeltaNetArgs& a, int64_t begin, int64_t end) {
    const int64_t n_blocks = (a.dv + kDeltaBlock - 1) / kDeltaBlock;
    Item item;
    item.args = &a;
    for (int64_t i = begin; i < end; ++i) {
      item.head = i / n_blocks;
      item.key_head = a.grouped ? item.head / (a.n_head_v / a.n_head_k) : item.head % a.n_head_k;
      item.first = i % n_blocks * kDeltaBlock;
      item.n_rows = a.dv - item.first < kDeltaBlock ? a.dv - item.first : kDeltaBlock;
      keep_starts(a.seqs, offset(item), item.n_rows * a.dk);
      for (int64_t s = 0; s < a.seqs.n_seqs; ++s) run_sequence(item, s);
    }
  }
  // Of the item's rows inside a state.
  static int64_t offset(const Item& item) { return (item.head * item.args->dv + item.first) * item.args->dk; }

  static void run_sequence(Item& item, int64_t s) {
    const DeltaNetArgs& a = *item.args;
    const SequenceRun run = a.seqs.runs[s];
    const auto n_bytes = static_cast<size_t>(item.n_rows * a.dk) * sizeof(float);
    if (const float* start = a.seqs.start(s))
      std::memcpy(item.rows, start + offset(item), n_bytes);
    else
      std::memset(item.rows, 0, n_bytes);
    // Blocks are cut at snapshots, which all lie in the last tokens.
    const int64_t whole = run.end - a.seqs.n_snapshots + 1;  // end of the tokens before the first snapshot but one
    for (int64_t t = run.begin; t < run.end;) {
      int64_t stop = t < whole ? whole : t + 1;
      if (stop > t + kTokens) stop = t + kTokens;
      run_tokens(item, t, stop);
      t = stop;
      if (run.end - t < a.seqs.n_snapshots)
        std::memcpy(a.seqs.snapshot(s, run.end - t) + offset(item), item.rows, n_bytes);
    }
    for (int64_t i = run.end - run.begin; i < a.seqs.n_snapshots; ++i)
      std::memset(a.seqs.snapshot(s, i) + offset(item), 0, n_bytes);
  }

  static void run_tokens(Item& item, int64_t begin, int64_t end) {
    const DeltaNetArgs& a = *item.args;
    for (int64_t t = begin; t < end; ++t) {
      float* decay = item.decay + (t - begin) * a.dk;
      if (a.gate_per_channel) {
        const float* g = a.g + (t * a.n_head_v + item.head) * a.g_stride;
        for_vectors(a.dk, [&](int64_t i, int n) { R::store(decay + i, A::exp(R::load(g + i, n)), n); });
      } else {
        *decay = V::first_lane(A::exp(V::set1(a.g[t * a.g_stride + item.head])));
      }
    }
    if (a.gate_per_channel)
      run_rows<true>(item, begin, end);
    else
      run_rows<false>(item, begin, end);
  }

  // Widths that fit the registers have a kernel of their own, with the same order of operations.
  template <bool kPerChannel>
  static void run_rows(Item& item, int64_t begin, int64_t end) {
    switch (item.args->dk) {
      case 64:
        return run_wide<4, kPerChannel>(item, begin, end);
      case 128:
        return run_wide<8, kPerChannel>(item, begin, end);
      default:
        for (int64_t j = 0; j < item.n_rows; ++j)
          for (int64_t t = begin; t < end; ++t) step(item, j, t, item.decay + (t - begin) * item.args->dk);
    }
  }
  template <int kVecs, bool kPerChannel>
  static void run_wide(Item& item, int64_t begin, int64_t end) {
    constexpr int kRows = V::kTileVecs >= 4 ? 16 / kVecs : 1;  // two rows of 128 fill half of 32 registers
    int64_t j = 0;
    for (; j + kRows <= item.n_rows; j += kRows) rows_of_vectors<kRows, kVecs, kPerChannel>(item, j, begin, end);
    for (; j < item.n_rows; ++j) rows_of_vectors<1, kVecs, kPerChannel>(item, j, begin, end);
  }

  // What one token brings for the rows of an item.
  struct Token {
    const float *q, *k, *v;
    float beta;
    float* y;
  };
  static Token token(const Item& item, int64_t t) {
    const DeltaNetArgs& a = *item.args;
    return {.q = a.q + (t * a.n_head_k + item.key_head) * a.q_stride,
            .k = a.k + (t * a.n_head_k + item.key_head) * a.k_stride,
            .v = a.v + (t * a.n_head_v + item.head) * a.v_stride + item.first,
            .beta = a.beta[t * a.beta_stride + item.head],
            .y = a.y + (t * a.n_head_v + item.head) * a.dv + item.first};
  }

  template <int kRows, int kVecs, bool kPerChannel>
  static void rows_of_vectors(Item& item, int64_t j, int64_t begin, int64_t end) {
    constexpr int kDk = 16 * kVecs, kSums = 4;
    const float scale = item.args->scale;
    float* rows = item.rows + j * kDk;
    F s[kRows][kVecs];
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 16
      for (int i = 0; i < kVecs; ++i) s[r][i] = V::load(rows + r * kDk + 16 * i);
    for (int64_t t = begin; t < end; ++t) {
      const Token in = token(item, t);
      const float* decay = item.decay + (t - begin) * kDk;
      F sums[kRows][kSums];
      clear(sums);
      const F one_decay = V::set1(*decay);
#pragma GCC unroll 16
      for (int i = 0; i < kVecs; ++i) {
        const F k = V::load(in.k + 16 * i), d = kPerChannel ? V::load(decay + 16 * i) : V::zero();
#pragma GCC unroll 16
        for (int r = 0; r < kRows; ++r) {
          if constexpr (kPerChannel) s[r][i] = V::mul(s[r][i], d);
          sums[r][i % kSums] = V::fma(s[r][i], k, sums[r][i % kSums]);
        }
      }
      if constexpr (!kPerChannel) {  // beside the sums, which take their time
#pragma GCC unroll 16
        for (int i = 0; i < kVecs; ++i)
#pragma GCC unroll 16
          for (int r = 0; r < kRows; ++r) s[r][i] = V::mul(s[r][i], one_decay);
      }
      F change[kRows];
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r)
        change[r] = V::set1(in.beta * (in.v[j + r] - known<kPerChannel>(sums[r], *decay)));
      clear(sums);
#pragma GCC unroll 16
      for (int i = 0; i < kVecs; ++i) {
        const F k = V::load(in.k + 16 * i), q = V::load(in.q + 16 * i);
#pragma GCC unroll 16
        for (int r = 0; r < kRows; ++r) {
          s[r][i] = V::fma(change[r], k, s[r][i]);
          sums[r][i % kSums] = V::fma(s[r][i], q, sums[r][i % kSums]);
        }
      }
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) in.y[j + r] = scale * total(sums[r]);
    }
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 16
      for (int i = 0; i < kVecs; ++i) V::store(rows + r * kDk + 16 * i, s[r][i]);
  }
  template <int kRows, int kSums>
  static void clear(F (&sums)[kRows][kSums]) {
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 16
      for (int i = 0; i < kSums; ++i) sums[r][i] = V::zero();
  }

  // Any width; vector i goes to sum i mod 4.
  static void step(Item& item, int64_t j, int64_t t, const float* decay) {
    const DeltaNetArgs& a = *item.args;
    const Token in = token(item, t);
    float* row = item.rows + j * a.dk;
    F sum[1][4];
    clear(sum);
    for_vectors(a.dk, [&](int64_t i, int n) {
      F x = R::load(row + i, n);
      if (a.gate_per_channel) R::store(row + i, x = V::mul(x, R::load(decay + i, n)), n);
      sum[0][i / 16 % 4] = V::fma(x, R::load(in.k + i, n), sum[0][i / 16 % 4]);
    });
    const float was = a.gate_per_channel ? known<true>(sum[0], *decay) : known<false>(sum[0], *decay);
    const F change = V::set1(in.beta * (in.v[j] - was)), one_decay = V::set1(*decay);
    clear(sum);
    for_vectors(a.dk, [&](int64_t i, int n) {
      F x = R::load(row + i, n);
      if (!a.gate_per_channel) x = V::mul(x, one_decay);
      x = V::fma(change, R::load(in.k + i, n), x);
      R::store(row + i, x, n);
      sum[0][i / 16 % 4] = V::fma(x, R::load(in.q + i, n), sum[0][i / 16 % 4]);
    });
    in.y[j] = a.scale * total(sum[0]);
  }
  // What the decayed row holds for a key; one decay for the row scales the sum instead of every element.
  template <bool kPerChannel>
  static float known(const F (&sums)[4], float decay) {
    return kPerChannel ? total(sums) : total(sums) * decay;
  }
  static float total(const F (&s)[4]) { return V::sum(V::add(V::add(s[0], s[1]), V::add(s[2], s[3]))); }
};

}  // namespace
}  // namespace tokamak::cpu
