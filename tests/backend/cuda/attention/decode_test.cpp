// Attention of few tokens against a reference in double, on random data; what lies in unused slots is NaN.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "backend/cuda/attention/attention.h"
#include "backend/cuda/attention/attention_reference.h"
#include "backend/cuda/attention/decode.h"
#include "backend/cuda/attention/host_cache.h"
#include "backend/cuda/matvec/activations.h"
#include "backend/cuda/matvec/device_memory.h"

namespace tokamak::cuda {
namespace {

struct Token {
  size_t seq;
  int position;
};

struct Shape {
  std::string name;
  int64_t dk = 128, dv = 128, n_head = 8, n_head_kv = 2;
  KvType type = KvType::f16;
  int page_size = 64;
  int64_t window = 0, chunk = 0;
  float softcap = 0;
  bool sinks = false, causal = true;
  std::vector<Token> tokens = {{0, 0}, {1, 63}, {2, 64}, {3, 300}, {4, 1500}};  // sequences end with them

  float scale() const { return 1.0f / std::sqrt(static_cast<float>(dk)); }
  size_t n_seqs() const {
    size_t n = 0;
    for (const Token& t : tokens) n = std::max(n, t.seq + 1);
    return n;
  }
  int n_keys(size_t seq) const {
    int n = 0;
    for (const Token& t : tokens)
      if (t.seq == seq) n = std::max(n, t.position + 1);
    return n;
  }
  int most_keys() const {
    int n = 0;
    for (const Token& t : tokens) n = std::max(n, t.position + 1);
    return n;
  }
};

// The cache, pages in no order, and the queries of the tokens.
struct Data {
  explicit Data(const Shape& s, uint64_t seed = 1)
      : shape(s), keys(s.type, s.dk, s.page_size, s.n_head_kv), values(s.type, s.dv, s.page_size, s.n_head_kv) {
    HostRandom random(seed);
    int n_pages = 1;  // page 0 is nobody's
    for (size_t seq = 0; seq < s.n_seqs(); ++seq) {
      pages.emplace_back();
      for (int at = 0; at < s.n_keys(seq); at += s.page_size) pages.back().push_back(n_pages++);
      std::reverse(pages.back().begin(), pages.back().end());
    }
    keys.resize(n_pages);
    values.resize(n_pages);
    for (size_t seq = 0; seq < s.n_seqs(); ++seq)
      for (int position = 0; position < s.n_keys(seq); ++position)
        for (int head = 0; head < s.n_head_kv; ++head) {
          keys.fill(page_of(seq, position), head, position % s.page_size, random, 1.5f);
          values.fill(page_of(seq, position), head, position % s.page_size, random, 1);
        }
    key_rows = decoded(keys);
    value_rows = decoded(values);
    queries = random.floats(s.tokens.size() * static_cast<size_t>(s.n_head * s.dk), 2);
    if (s.sinks) sinks = random.floats(static_cast<size_t>(s.n_head), 2);
  }
  // [seq][head][position] rows.
  std::vector<std::vector<double>> decoded(const HostCache& cache) const {
    std::vector<std::vector<double>> out;
    for (size_t seq = 0; seq < shape.n_seqs(); ++seq)
      for (int head = 0; head < shape.n_head_kv; ++head) {
        out.emplace_back();
        for (int position = 0; position < shape.n_keys(seq); ++position) {
          const std::vector<double> row = cache.row(page_of(seq, position), head, position % shape.page_size);
          out.back().insert(out.back().end(), row.begin(), row.end());
        }
      }
    return out;
  }
  int page_of(size_t seq, int position) const { return pages[seq][static_cast<size_t>(position / shape.page_size)]; }

  Shape shape;
  HostCache keys, values;
  std::vector<std::vector<int32_t>> pages;
  std::vector<std::vector<double>> key_rows, value_rows;  // what the cache holds, by sequence and head
  std::vector<float> queries, sinks;
};

struct Outcome {
  std::vector<float> y;  // [token][n_head][dv]
  std::vector<uint8_t> q8;
};

// Runs some of the tokens as one step. split: as many blocks per token as the longest needs, then the merge.
Outcome run(const Data& d, const std::vector<size_t>& which, bool split, bool quantize = false) {
  const Shape& s = d.shape;
  std::vector<int32_t> positions, seq_ids, page_begin, n_keys, pages;
  std::vector<float> q;
  for (size_t seq = 0; seq < d.pages.size(); ++seq) {
    page_begin.push_back(static_cast<int32_t>(pages.size()));
    n_keys.push_back(s.n_keys(seq));
    pages.insert(pages.end(), d.pages[seq].begin(), d.pages[seq].end());
  }
  for (const size_t t : which) {
    positions.push_back(s.tokens[t].position);
    seq_ids.push_back(static_cast<int32_t>(s.tokens[t].seq));
    const auto row = d.queries.begin() + static_cast<int64_t>(t) * s.n_head * s.dk;
    q.insert(q.end(), row, row + s.n_head * s.dk);
  }
  AttentionArgs a{.q_stride = s.n_head * s.dk,
                  .q_head_stride = s.dk,
                  .type = s.type,
                  .n_tokens = static_cast<int64_t>(which.size()),
                  .n_head = s.n_head,
                  .n_head_kv = s.n_head_kv,
                  .dk = s.dk,
                  .dv = s.dv,
                  .page_size = s.page_size,
                  .scale = s.scale(),
                  .softcap = s.softcap,
                  .window = s.window,
                  .chunk = s.chunk,
                  .causal = s.causal};
  a.most_keys = s.most_keys();
  a.n_chunks = attention_chunks(a, a.most_keys);
  DeviceBytes q_d(q), keys_d(d.keys.bytes), values_d(d.values.bytes), positions_d(positions), seq_ids_d(seq_ids),
      page_begin_d(page_begin), n_keys_d(n_keys), pages_d(pages), sinks_d(d.sinks);
  DeviceBytes partials_d(static_cast<size_t>(attention_partial_floats(a.n_tokens, s.n_head, s.dv, a.n_chunks)) * 4);
  DeviceBytes y_d(which.size() * static_cast<size_t>(s.n_head * s.dv) * 4);
  DeviceBytes q8_d(which.size() * static_cast<size_t>(q8_column_bytes(s.n_head * s.dv)));
  a.q = q_d.as<float>(), a.y = y_d.as<float>(), a.keys = keys_d.data(), a.values = values_d.data();
  a.positions = positions_d.as<int32_t>(), a.seq_ids = seq_ids_d.as<int32_t>();
  a.page_begin = page_begin_d.as<int32_t>(), a.n_keys = n_keys_d.as<int32_t>(), a.pages = pages_d.as<int32_t>();
  if (s.sinks) a.sinks = sinks_d.as<float>();
  if (split) a.partials = partials_d.as<float>();
  if (quantize) a.q8 = q8_d.as<uint8_t>(), a.q8_low = true;
  EXPECT_EQ(launch_attention(a, nullptr), cudaSuccess);
  if (split) {
    EXPECT_EQ(launch_attention_merge(a, nullptr), cudaSuccess);
  }
  partials_d.read<float>();  // its guards
  return {y_d.read<float>(), q8_d.read<uint8_t>()};
}

// Rounding of the parts of queries and probabilities, in units of 2^-24.
double units(KvType type) { return type == KvType::bf16 ? 128 : 8; }

// One head of one token: worst |y - reference| as a share of its bound. The score of a key is off by the rounding of
// queries and of sums, that changes a probability by the factor exp(2 e) at most.
double share_of_bound(const Data& d, const Token& t, int64_t head, const float* y) {
  const Shape& s = d.shape;
  constexpr double kUnit = 0x1p-24;
  const size_t rows = t.seq * static_cast<size_t>(s.n_head_kv) + static_cast<size_t>(head / (s.n_head / s.n_head_kv));
  const double *keys = d.key_rows[rows].data(), *values = d.value_rows[rows].data();
  const float* q = d.queries.data() + ((&t - s.tokens.data()) * s.n_head + head) * s.dk;
  const KeyRange seen = visible_keys(s, t.position, s.n_keys(t.seq));
  const Attended exact = attend(
      s, q, seen, s.sinks ? d.sinks[static_cast<size_t>(head)] : -HUGE_VAL,
      [&](int64_t key) { return keys + key * s.dk; }, [&](int64_t key) { return values + key * s.dv; });
  const double e = kUnit * ((static_cast<double>(s.dk) + units(s.type)) * exact.largest_sum +
                            16 * (1 + std::abs(exact.largest_score) + s.softcap));
  const double relative =
      std::expm1(2 * e) + kUnit * (2 * static_cast<double>(seen.end - seen.begin) + 64 + units(s.type));
  double worst = 0;
  for (size_t i = 0; i < exact.y.size(); ++i) {
    const double share = std::abs(y[i] - exact.y[i]) / (relative * exact.magnitude[i] + 1e-12);
    worst = std::isnan(share) ? HUGE_VAL : std::max(worst, share);
  }
  return worst;
}

std::vector<size_t> all_tokens(const Shape& s) {
  std::vector<size_t> out(s.tokens.size());
  for (size_t i = 0; i < out.size(); ++i) out[i] = i;
  return out;
}

double worst_share(const Data& d, const std::vector<float>& y) {
  double worst = 0;
  for (size_t t = 0; t < d.shape.tokens.size(); ++t)
    for (int64_t head = 0; head < d.shape.n_head; ++head)
      worst =
          std::max(worst, share_of_bound(d, d.shape.tokens[t], head,
                                         y.data() + (static_cast<int64_t>(t) * d.shape.n_head + head) * d.shape.dv));
  return worst;
}

std::vector<Shape> shapes() {
  std::vector<Shape> out;
  for (const KvType type : {KvType::f16, KvType::bf16, KvType::q8_0, KvType::f8}) {
    const auto add = [&](const Shape& s) { add_shape(out, type, s); };
    for (const auto& [dk, dv] : decode::kDecodeDims)
      for (const int64_t group : {3, 7}) {
        if (type == KvType::q8_0 && dk % 32 != 0) continue;
        add({.name = "dims" + std::to_string(dk) + "_" + std::to_string(dv) + "_group" + std::to_string(group),
             .dk = dk,
             .dv = dv,
             .n_head = 2 * group});
      }
    add({.name = "group1", .n_head = 2});
    add({.name = "group12", .n_head = 24});
    add({.name = "group16", .n_head = 16, .n_head_kv = 1});
    add({.name = "pages16", .page_size = 16});
    add({.name = "pages48", .page_size = 48});
    add({.name = "pages256", .page_size = 256});
    add({.name = "window", .window = 100});
    add({.name = "window_of_chunks", .window = 700});
    add({.name = "chunk", .chunk = 200});
    add({.name = "softcap", .softcap = 3});
    add({.name = "sinks", .sinks = true});
    add({.name = "all", .n_head = 12, .page_size = 32, .window = 500, .softcap = 5, .sinks = true});
    add({.name = "both_ways", .causal = false, .tokens = {{0, 0}, {0, 1}, {0, 70}, {1, 400}}});
    add({.name = "one_sequence", .tokens = {{0, 509}, {0, 510}, {0, 511}, {0, 512}, {0, 513}}});
  }
  out.push_back({.name = "f16_long", .tokens = {{0, 4999}, {1, 4096}, {2, 255}, {3, 256}}});
  // Kernels of any size.
  out.push_back({.name = "f32_generic", .type = KvType::f32});
  out.push_back({.name = "f16_generic", .dk = 33, .dv = 17, .n_head = 6});
  out.push_back({.name = "f16_latent", .dk = 576, .dv = 512, .n_head = 4, .n_head_kv = 1});
  out.push_back({.name = "q8_0_generic", .dk = 32, .dv = 160, .type = KvType::q8_0});
  out.push_back({.name = "bf16_generic", .dk = 40, .dv = 40, .type = KvType::bf16, .window = 100});
  out.push_back({.name = "f8_generic", .dk = 36, .dv = 20, .type = KvType::f8, .sinks = true});
  return out;
}

class DecodeAttention : public testing::TestWithParam<Shape> {};

TEST_P(DecodeAttention, IsNearTheReference) {
  REQUIRE_DEVICE();
  const Data data(GetParam());
  EXPECT_LE(worst_share(data, run(data, all_tokens(data.shape), true).y), 1) << "split";
  EXPECT_LE(worst_share(data, run(data, all_tokens(data.shape), false).y), 1) << "one block";
}

TEST_P(DecodeAttention, DoesNotDependOnTheOtherTokens) {
  REQUIRE_DEVICE();
  const Data data(GetParam());
  const Shape& s = data.shape;
  if (!s.causal) GTEST_SKIP() << "a token alone has the same keys";
  const auto n = static_cast<size_t>(s.n_head * s.dv);
  const std::vector<float> together = run(data, all_tokens(s), true).y;
  for (size_t t = 0; t < s.tokens.size(); ++t) {
    const bool one_chunk = s.tokens[t].position < kKeyChunk;  // then the merge changes nothing
    const std::vector<float> alone = run(data, {t}, !one_chunk).y;
    for (size_t i = 0; i < n; ++i)
      ASSERT_EQ(std::bit_cast<uint32_t>(alone[i]), std::bit_cast<uint32_t>(together[t * n + i])) << t << " " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(All, DecodeAttention, testing::ValuesIn(shapes()),
                         [](const auto& param) { return param.param.name; });

TEST(DecodeAttentionQ8, IsTheResultQuantized) {
  REQUIRE_DEVICE();
  const Data data({.name = "q8"});
  const Shape& s = data.shape;
  const int64_t k = s.n_head * s.dv;
  for (const bool split : {false, true}) {
    const Outcome out = run(data, all_tokens(s), split, true);
    for (size_t t = 0; t < s.tokens.size(); ++t)
      for (int64_t group = 0; group < k / 32; ++group) {
        const float* x = out.y.data() + static_cast<int64_t>(t) * k + 32 * group;
        const uint8_t* column = out.q8.data() + static_cast<int64_t>(t) * q8_column_bytes(k);
        float largest = 0;
        for (int i = 0; i < 32; ++i) largest = std::max(largest, std::abs(x[i]));
        const Q8Scale scale = q8_scale(largest);
        GroupQ8 stored;
        std::memcpy(&stored, column + k + 8 * group, sizeof stored);
        EXPECT_EQ(stored.d, scale.d);
        const uint8_t* rest = column + q8_low_offset(k);
        GroupLow stored_low;
        std::memcpy(&stored_low, rest + k + 4 * group, sizeof stored_low);
        int sums[2] = {}, low_sums[2] = {};
        for (int i = 0; i < 32; ++i) {
          const auto code = static_cast<int8_t>(column[32 * group + i]),
                     low = static_cast<int8_t>(rest[32 * group + i]);
          ASSERT_EQ(code, std::lrint(x[i] * scale.inverse)) << t << " " << group << " " << i;
          ASSERT_EQ(low, std::lrint(q8_low(x[i], scale.inverse, code))) << t << " " << group << " " << i;
          sums[i / 16] += code, low_sums[i / 16] += low;
        }
        EXPECT_EQ(stored.s0, sums[0]);
        EXPECT_EQ(stored.s1, sums[1]);
        EXPECT_EQ(stored_low.s0, low_sums[0]);
        EXPECT_EQ(stored_low.s1, low_sums[1]);
      }
  }
}

TEST(KeyChunks, HaveNoGapsAndFitTheGrid) {
  for (const int64_t n_head_kv : {1, 2, 4, 8, 32, 128})
    for (int64_t n = 1; n < 300000; n += 1 + n / 50) {
      const KeyChunks chunks = key_chunks(0, static_cast<int>(n), static_cast<int>(n_head_kv));
      EXPECT_EQ(chunks.size % kKeyTile, 0);
      EXPECT_GE(int64_t{chunks.count} * chunks.size, n);
      EXPECT_LT((chunks.count - 1) * chunks.size, n);
      EXPECT_LE(chunks.count, max_key_chunks(n, n_head_kv)) << n << " " << n_head_kv;
      EXPECT_LE(max_key_chunks(n, n_head_kv), max_key_chunks(n + n / 50 + 1, n_head_kv)) << n << " " << n_head_kv;
    }
  EXPECT_EQ(key_chunks(1000, 1100, 8).first_key, 960);
  EXPECT_EQ(key_chunks(5, 5, 8).count, 0);
}

// Writes rows and reads the cache on the host.
TEST(HeadWrites, KeepWhatTheTypeCan) {
  REQUIRE_DEVICE();
  constexpr int64_t kHeads = 3, kDim = 96, kTokens = 5;
  const std::vector<int32_t> slots = {17, 18, 200, 63, 64};
  for (const KvType type : {KvType::f32, KvType::f16, KvType::bf16, KvType::q8_0, KvType::f8}) {
    HostRandom random(3);
    const std::vector<float> x = random.floats(kTokens * kHeads * kDim, 3);
    HostCache cache(type, kDim, 32, kHeads);
    cache.resize(8);
    DeviceBytes x_d(x), slots_d(slots), cache_d(cache.bytes), y_d(x.size() * 4);
    HeadsArgs args{.n_jobs = 2, .n_tokens = kTokens};
    args.jobs[0] = {.x = x_d.as<float>(),
                    .x_stride = kHeads * kDim,
                    .x_head_stride = kDim,
                    .y = y_d.as<float>(),
                    .n_head = kHeads,
                    .head_dim = kDim};
    args.jobs[1] = {.x = x_d.as<float>(),
                    .x_stride = kHeads * kDim,
                    .x_head_stride = kDim,
                    .cache = cache_d.data(),
                    .layout = cache.layout,
                    .slots = slots_d.as<int32_t>(),
                    .n_head = kHeads,
                    .head_dim = kDim};
    ASSERT_EQ(launch_heads(args, nullptr), cudaSuccess);
    cache.bytes = cache_d.read<uint8_t>();
    EXPECT_EQ(y_d.read<float>(), x);
    const double relative = type == KvType::f32 ? 0 : type == KvType::f16 ? 0x1p-11 : type == KvType::bf16 ? 0x1p-8 : 0;
    const double absolute = type == KvType::q8_0 ? 3.0 / 220 : type == KvType::f8 ? 3.0 / 26 : 0;  // of values up to 3
    for (int64_t t = 0; t < kTokens; ++t)
      for (int head = 0; head < kHeads; ++head) {
        const int slot = slots[static_cast<size_t>(t)];
        const std::vector<double> row = cache.row(slot / 32, head, slot % 32);
        for (int64_t d = 0; d < kDim; ++d) {
          const double want = x[static_cast<size_t>((t * kHeads + head) * kDim + d)];
          ASSERT_NEAR(row[static_cast<size_t>(d)], want, std::abs(want) * relative + absolute)
              << kKvTypeNames[static_cast<size_t>(type)] << " " << t << " " << head << " " << d;
        }
      }
  }
}

}  // namespace
}  // namespace tokamak::cuda
