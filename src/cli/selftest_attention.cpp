#include "cli/selftest_attention.h"

#include <algorithm>

#include "base/buffer.h"
#include "base/check.h"

namespace tokamak::cli {

namespace {
using namespace cpu;
constexpr int64_t kHeads = 4, kHeadsKv = 2, kDim = 64, kKeys = 600, kTokens = 3, kPage = 64;
constexpr float kScale = 0.125f;

// One sequence of kKeys positions; the last kTokens ask.
struct Problem {
  KvStorage storage;
  std::vector<int32_t> pages, positions, seq_ids;
  std::vector<float> q;
};

Problem make_problem(DType type) {
  const int64_t n_pages = (kKeys + kPage - 1) / kPage;
  const std::vector<KvLayerDims> dims = {{kHeadsKv, kDim, kDim}};
  auto storage = KvStorage::create(dims, n_pages, kPage, type);
  CHECK(storage.has_value());
  Problem p{.storage = *std::move(storage), .q = random_numbers(kTokens * kHeads * kDim, 30)};
  std::vector<int32_t> slots;
  for (int64_t page = n_pages; page-- > 0;) p.pages.push_back(static_cast<int32_t>(page));  // not in order
  for (int64_t i = 0; i < kKeys; ++i)
    slots.push_back(static_cast<int32_t>(p.pages[static_cast<size_t>(i / kPage)] * kPage + i % kPage));
  const std::vector<float> k = random_numbers(kKeys * kHeadsKv * kDim, 31),
                           v = random_numbers(kKeys * kHeadsKv * kDim, 32);
  const OpSet& scalar = op_set(Isa::scalar);
  scalar.kv_write({.plane = p.storage.keys(0), .slots = slots.data(), .x = k.data(), .x_stride = kHeadsKv * kDim}, 0,
                  kKeys * kHeadsKv);
  scalar.kv_write({.plane = p.storage.values(0), .slots = slots.data(), .x = v.data(), .x_stride = kHeadsKv * kDim}, 0,
                  kKeys * kHeadsKv);
  for (int64_t t = 0; t < kTokens; ++t) p.positions.push_back(static_cast<int32_t>(kKeys - kTokens + t));
  p.seq_ids.assign(kTokens, 0);
  return p;
}

std::vector<float> attend(const OpSet& ops, const Problem& p, bool split) {
  std::vector<float> y(kTokens * kHeads * kDim);
  const AttentionSequence sequence{p.pages.data(), kKeys};
  std::vector<AttentionTile> tiles;
  make_attention_tiles(p.seq_ids, kHeads / kHeadsKv, tiles);
  std::vector<float> partials(split ? static_cast<size_t>(attention_partial_floats(kTokens, kHeads, kDim, kKeys)) : 0);
  AttentionCall call{.args = {.q = p.q.data(),
                              .q_stride = kHeads * kDim,
                              .y = y.data(),
                              .y_stride = kHeads * kDim,
                              .n_head = kHeads,
                              .keys = p.storage.keys(0),
                              .values = p.storage.values(0),
                              .positions = p.positions.data(),
                              .seq_ids = p.seq_ids.data(),
                              .sequences = {&sequence, 1},
                              .tiles = tiles,
                              .scale = kScale},
                     .plan = {},
                     .partials = partials.data()};
  call.plan = plan_attention(call.args, kTokens, split ? 64 : 1, static_cast<int64_t>(partials.size()));
  CHECK(call.plan.split_keys == split);
  auto scratch = Buffer::allocate(static_cast<size_t>(attention_scratch_floats(kDim, kDim)) * sizeof(float));
  CHECK(scratch.has_value());
  ops.attention(call, scratch->as<float>(), 0, call.plan.n_items);
  if (split) ops.attention_merge(call, 0, call.plan.n_merge_items);
  return y;
}

// Softmax over the visible keys in f64, on the values that the cache holds. A score is off by the roundings of its
// dot product, a result by twice that and by its own sums.
void compare(const Problem& p, const std::vector<float>& y, ErrorMeter& meter) {
  std::vector<float> k(kDim), v(kDim);
  for (int64_t t = 0; t < kTokens; ++t)
    for (int64_t h = 0; h < kHeads; ++h) {
      const int64_t n_visible = p.positions[static_cast<size_t>(t)] + 1, head_kv = h / (kHeads / kHeadsKv);
      std::vector<double> scores;
      double largest = -HUGE_VAL, magnitude = 0;
      const auto slot = [&](int64_t i) { return p.pages[static_cast<size_t>(i / kPage)] * kPage + i % kPage; };
      const float* q = &p.q[static_cast<size_t>((t * kHeads + h) * kDim)];
      for (int64_t j = 0; j < n_visible; ++j) {
        read_kv_slot(p.storage.keys(0), slot(j), head_kv, k.data());
        double dot = 0, sum = 0;
        for (int64_t i = 0; i < kDim; ++i) {
          dot += double{q[i]} * double{k[static_cast<size_t>(i)]};
          sum += std::abs(double{q[i]} * double{k[static_cast<size_t>(i)]});
        }
        scores.push_back(double{kScale} * dot);
        largest = std::max(largest, scores.back());
        magnitude = std::max(magnitude, double{kScale} * sum);
      }
      std::vector<double> exact(kDim), size(kDim);
      double total = 0;
      for (int64_t j = 0; j < n_visible; ++j) {
        const double weight = std::exp(scores[static_cast<size_t>(j)] - largest);
        total += weight;
        read_kv_slot(p.storage.values(0), slot(j), head_kv, v.data());
        for (size_t i = 0; i < kDim; ++i) {
          exact[i] += weight * double{v[i]};
          size[i] += weight * std::abs(double{v[i]});
        }
      }
      const double score_error = (kDim + 8) * kUnit * (magnitude + 1);
      const double relative = 2 * score_error + (2 * static_cast<double>(n_visible) + 64) * kUnit;
      for (size_t i = 0; i < kDim; ++i)
        meter.add(y[static_cast<size_t>((t * kHeads + h) * kDim) + i], exact[i] / total, relative * size[i] / total);
    }
}

void check(const OpSet& ops, bool split, ErrorMeter& meter, std::vector<float>& out) {
  for (const DType type : kCacheDTypes) {
    const Problem problem = make_problem(type);
    const std::vector<float> y = attend(ops, problem, split);
    compare(problem, y, meter);
    out.insert(out.end(), y.begin(), y.end());
  }
}
}  // namespace

void check_attention(const OpSet& ops, ErrorMeter& meter, std::vector<float>& out) { check(ops, false, meter, out); }
void check_attention_merge(const OpSet& ops, ErrorMeter& meter, std::vector<float>& out) {
  check(ops, true, meter, out);
}

}  // namespace tokamak::cli
