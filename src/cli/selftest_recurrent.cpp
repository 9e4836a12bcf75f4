// selftest of routing and recurrent kernels.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "cli/selftest_ops.h"

namespace tokamak::cli {

using namespace cpu;

namespace {
constexpr int64_t kRows = 5, kElems = 333;
}  // namespace

void check_soft_max(const OpSet& ops, ErrorMeter& meter, Out& out) {
  const Out x = random_numbers(kRows * kElems, 40);
  out.resize(x.size());
  ops.soft_max({.row_elems = kElems, .x = x.data(), .x_stride = kElems, .y = out.data(), .y_stride = kElems}, 0, kRows);
  for (int64_t r = 0; r < kRows; ++r) {
    double sum = 0;
    for (int64_t i = 0; i < kElems; ++i) sum += std::exp(double{x[static_cast<size_t>(r * kElems + i)]});
    for (int64_t i = 0; i < kElems; ++i) {
      const auto at = static_cast<size_t>(r * kElems + i);
      meter.add(out[at], std::exp(double{x[at]}) / sum, (kElems / 64.0 + 20) * kUnit * std::exp(double{x[at]}) / sum);
    }
  }
}

void check_sum_rows(const OpSet& ops, ErrorMeter& meter, Out& out) {
  const Out x = random_numbers(kRows * kElems, 41);
  out.resize(kRows);
  ops.sum_rows({.row_elems = kElems, .x = x.data(), .x_stride = kElems, .y = out.data()}, 0, kRows);
  for (size_t r = 0; r < out.size(); ++r) {
    double sum = 0, magnitude = 0;
    for (size_t i = r * kElems; i < (r + 1) * kElems; ++i) sum += double{x[i]}, magnitude += std::abs(double{x[i]});
    meter.add(out[r], sum, (kElems / 64.0 + 8) * kUnit * magnitude);
  }
}

void check_argsort(const OpSet& ops, ErrorMeter& meter, Out& out) {
  Out x = random_numbers(kElems, 42);
  x[100] = x[50] = x[7];
  std::vector<int32_t> order(kElems), wanted(kElems);
  ops.argsort({.row_elems = kElems, .x = x.data(), .y = order.data()}, 0, 1);
  std::iota(wanted.begin(), wanted.end(), 0);
  std::ranges::stable_sort(wanted,
                           [&](int32_t a, int32_t b) { return x[static_cast<size_t>(a)] > x[static_cast<size_t>(b)]; });
  for (size_t i = 0; i < order.size(); ++i) {
    out.push_back(static_cast<float>(order[i]));
    meter.add(out[i], wanted[i], 0);
  }
}

// Groups of 37: the two with the largest sums of two stay.
void check_mask_groups(const OpSet& ops, ErrorMeter& meter, Out& out) {
  constexpr size_t kGroups = 9, kSize = 37;
  const Out x = random_numbers(kElems, 43);
  out.resize(kElems);
  ops.mask_groups(
      {.row_elems = kElems, .n_group = kGroups, .n_group_used = 2, .n_best = 2, .x = x.data(), .y = out.data()}, 0, 1);
  std::vector<std::pair<double, size_t>> scores;
  for (size_t g = 0; g < kGroups; ++g) {
    Out group(x.begin() + g * kSize, x.begin() + (g + 1) * kSize);
    std::ranges::sort(group, std::greater());
    scores.emplace_back(-(double{group[0]} + double{group[1]}), g);
  }
  std::ranges::sort(scores);
  for (size_t i = 0; i < out.size(); ++i) {
    const bool kept = i / kSize == scores[0].second || i / kSize == scores[1].second;
    if (kept)
      meter.add(out[i], double{x[i]}, 0);
    else
      meter.add(out[i] == -std::numeric_limits<float>::infinity() ? 0.0f : 1.0f, 0, 0);
  }
}

void check_add_id(const OpSet& ops, ErrorMeter& meter, Out& out) {
  const Out a = random_numbers(kRows * kElems, 44), b = random_numbers(3 * kElems, 45);
  const std::vector<int32_t> ids = {2, 0, 0, 1, 2};
  out.resize(a.size());
  ops.add_id({.row_elems = kElems,
              .a = a.data(),
              .a_stride = kElems,
              .b = b.data(),
              .b_stride = kElems,
              .ids = ids.data(),
              .ids_stride = 1,
              .y = out.data(),
              .y_stride = kElems},
             0, kRows);
  for (size_t i = 0; i < out.size(); ++i) {
    const double exact = double{a[i]} + double{b[static_cast<size_t>(ids[i / kElems]) * kElems + i % kElems]};
    meter.add(out[i], exact, kUnit * std::abs(exact));
  }
}

// Softmax over all, the four largest, renormalised and scaled: then exp(x) over the sum of the four.
void check_route(const OpSet& ops, ErrorMeter& meter, Out& out) {
  constexpr size_t kUsed = 4;
  const Out x = random_numbers(kElems, 57);
  std::vector<int32_t> ids(kUsed), order(kElems);
  out.resize(kUsed);
  ops.route({.n_expert = kElems,
             .n_used = kUsed,
             .x = x.data(),
             .renormalise = true,
             .low = 1e-6f,
             .high = 1e6f,
             .scaled = true,
             .scale = 2.5f,
             .ids = ids.data(),
             .weights = out.data()},
            0, 1);
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order,
                           [&](int32_t a, int32_t b) { return x[static_cast<size_t>(a)] > x[static_cast<size_t>(b)]; });
  double sum = 0;
  for (size_t i = 0; i < kUsed; ++i) sum += std::exp(double{x[static_cast<size_t>(order[i])]});
  for (size_t i = 0; i < kUsed; ++i) {
    const double exact = 2.5 * std::exp(double{x[static_cast<size_t>(order[i])]}) / sum;
    meter.add(out[i], exact, 40 * kUnit * exact);
    meter.add(ids[i], order[i], 0);
  }
}

// Each operation is off by one rounding of what it makes.
void check_weighted_sum(const OpSet& ops, ErrorMeter& meter, Out& out) {
  constexpr int64_t kUsed = 6;
  const Out x = random_numbers(kRows * kUsed * kElems, 58), w = random_numbers(kRows * kUsed, 59);
  const Out more = random_numbers(kRows * kElems, 60), residual = random_numbers(kRows * kElems, 61);
  out.resize(more.size());
  ops.weighted_sum({.row_elems = kElems,
                    .n_used = kUsed,
                    .x = x.data(),
                    .x_stride = kElems,
                    .weights = w.data(),
                    .weight_stride = 1,
                    .n_addends = 2,
                    .addends = {more.data(), residual.data()},
                    .addend_strides = {kElems, kElems},
                    .y = out.data(),
                    .y_stride = kElems},
                   0, kRows);
  for (size_t i = 0; i < out.size(); ++i) {
    double exact = double{more[i]} + double{residual[i]};
    double magnitude = std::abs(double{more[i]}) + std::abs(double{residual[i]});
    for (size_t k = 0; k < kUsed; ++k) {
      const size_t row = i / kElems * kUsed + k;
      const double part = double{x[row * kElems + i % kElems]} * double{w[row]};
      exact += part;
      magnitude += std::abs(part);
    }
    meter.add(out[i], exact, (kUsed + 3) * kUnit * magnitude);
  }
}

namespace {
constexpr int64_t kChannels = 50, kTaps = 4, kTokens = 5;
constexpr SequenceRun kRuns[] = {{0, 2}, {2, 5}};
constexpr int32_t kSources[] = {1, -1};  // the second sequence starts from nothing
constexpr size_t kStateElems = (kTaps - 1) * kChannels;

RecurrentArgs two_sequences(const Out& states, size_t state_elems) {
  return {.n_seqs = 2,
          .runs = kRuns,
          .states = states.data(),
          .state_elems = static_cast<int64_t>(state_elems),
          .state_src = kSources};
}
// Input t of channel c, counted from the sequence's first token.
double conv_input(const Out& x, const Out& states, size_t seq, int64_t t, int64_t c) {
  if (t >= 0) return double{x[static_cast<size_t>((kRuns[seq].begin + t) * kChannels + c)]};
  return seq == 0 ? double{states[kStateElems + static_cast<size_t>((t + kTaps - 1) * kChannels + c)]} : 0;
}
}  // namespace

void check_ssm_conv(const OpSet& ops, ErrorMeter& meter, Out& out) {
  const Out x = random_numbers(kTokens * kChannels, 46), w = random_numbers(kTaps * kChannels, 47),
            states = random_numbers(2 * kStateElems, 48);
  out.resize(x.size());
  ops.ssm_conv({.seqs = two_sequences(states, kStateElems),
                .n_channels = kChannels,
                .taps = kTaps,
                .x = x.data(),
                .x_stride = kChannels,
                .weight = w.data(),
                .y = out.data(),
                .y_stride = kChannels},
               0, (kChannels + kConvBlock - 1) / kConvBlock);
  for (size_t seq = 0; seq < 2; ++seq)
    for (int64_t t = 0; t < kRuns[seq].end - kRuns[seq].begin; ++t)
      for (int64_t c = 0; c < kChannels; ++c) {
        double sum = 0, magnitude = 0;
        for (int64_t j = 0; j < kTaps; ++j) {
          const double term =
              double{w[static_cast<size_t>(j * kChannels + c)]} * conv_input(x, states, seq, t - (kTaps - 1) + j, c);
          sum += term, magnitude += std::abs(term);
        }
        meter.add(out[static_cast<size_t>((kRuns[seq].begin + t) * kChannels + c)], sum, kTaps * kUnit * magnitude);
      }
}

void check_conv_state(const OpSet& ops, ErrorMeter& meter, Out& out) {
  const Out x = random_numbers(kTokens * kChannels, 49), states = random_numbers(2 * kStateElems, 50);
  out.resize(2 * kStateElems);
  ConvStateArgs args{.seqs = two_sequences(states, kStateElems),
                     .n_channels = kChannels,
                     .n_before = kTaps - 1,
                     .x = x.data(),
                     .x_stride = kChannels};
  args.seqs.out = out.data();
  ops.ssm_conv_state(args, 0, (kChannels + kConvBlock - 1) / kConvBlock);
  for (size_t seq = 0; seq < 2; ++seq)
    for (size_t i = 0; i < kStateElems; ++i) {
      const int64_t t = kRuns[seq].end - kRuns[seq].begin - (kTaps - 1) + static_cast<int64_t>(i) / kChannels;
      meter.add(out[seq * kStateElems + i], conv_input(x, states, seq, t, static_cast<int64_t>(i) % kChannels), 0);
    }
}

// One head, so that everything is easy to follow; two sequences.
void check_delta_net(const OpSet& ops, ErrorMeter& meter, Out& out) {
  constexpr size_t kDk = 64, kDv = 20, kElemsOfState = kDk * kDv;
  const Out q = random_numbers(kTokens * kDk, 51), v = random_numbers(kTokens * kDv, 53),
            g = random_numbers(kTokens, 54), beta = random_numbers(kTokens, 55),
            states = random_numbers(2 * kElemsOfState, 56);
  Out k = random_numbers(kTokens * kDk, 52), after(2 * kElemsOfState);
  for (float& value : k) value *= 0.125f;
  out.resize(v.size());
  DeltaNetArgs args{.seqs = two_sequences(states, kElemsOfState),
                    .n_head_k = 1,
                    .n_head_v = 1,
                    .dk = kDk,
                    .dv = kDv,
                    .scale = 0.125f,
                    .q = q.data(),
                    .k = k.data(),
                    .v = v.data(),
                    .q_stride = kDk,
                    .k_stride = kDk,
                    .v_stride = kDv,
                    .g = g.data(),
                    .g_stride = 1,
                    .beta = beta.data(),
                    .beta_stride = 1,
                    .y = out.data()};
  args.seqs.out = after.data();
  ops.gated_delta_net(args, 0, (kDv + kDeltaBlock - 1) / kDeltaBlock);
  for (size_t seq = 0; seq < 2; ++seq)
    for (size_t j = 0; j < kDv; ++j) {
      std::vector<double> row(kDk);
      for (size_t i = 0; i < kDk && seq == 0; ++i) row[i] = double{states[kElemsOfState + j * kDk + i]};
      double size = 8;  // of what the sums are made of, grows with every token
      for (auto t = static_cast<size_t>(kRuns[seq].begin); t < static_cast<size_t>(kRuns[seq].end); ++t) {
        double known = 0, sum = 0;
        for (size_t i = 0; i < kDk; ++i) known += (row[i] *= std::exp(double{g[t]})) * double{k[t * kDk + i]};
        for (size_t i = 0; i < kDk; ++i) {
          row[i] += double{beta[t]} * (double{v[t * kDv + j]} - known) * double{k[t * kDk + i]};
          sum += row[i] * double{q[t * kDk + i]};
        }
        size *= 4;
        meter.add(out[t * kDv + j], 0.125 * sum, 64 * kUnit * size);
      }
      for (size_t i = 0; i < kDk; ++i) meter.add(after[seq * kElemsOfState + j * kDk + i], row[i], 64 * kUnit * size);
    }
  out.insert(out.end(), after.begin(), after.end());
}

}  // namespace tokamak::cli
