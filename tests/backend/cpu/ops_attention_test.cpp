// Attention against plain f64 loops over the values the cache really holds, and its invariances, bit for bit: token
// alone or in a batch, chunked prefill, page size, page order, threads, split keys, instruction set.
#include <algorithm>
#include <limits>
#include <numeric>

#include "backend/cpu/ops_test_util.h"
#include "base/thread_pool.h"

namespace tokamak::cpu {
namespace {

struct Shape {
  int64_t n_head = 3, n_head_kv = 1, dk = 64, dv = 64;
};
struct Options {
  float scale = 0.125f, softcap = 0;
  int64_t window = 0;
  bool causal = true, sinks = false;
  int64_t chunk = 0;
  int64_t pad = 0;  // unused elements between two heads of q
};

// One sequence of keys and values (f32), and the queries of all its tokens.
struct Sequence {
  int64_t n_keys = 0;
  std::vector<float> q, k, v;
};
Sequence make_sequence(const Shape& s, int64_t n_keys, uint32_t seed) {
  return {n_keys, random_floats(static_cast<size_t>(n_keys * s.n_head * s.dk), seed, 2),
          random_floats(static_cast<size_t>(n_keys * s.n_head_kv * s.dk), seed + 1),
          random_floats(static_cast<size_t>(n_keys * s.n_head_kv * s.dv), seed + 2)};
}

// A cache filled with sequences; free slots hold NaN (not of q8_0) so that reading one shows.
struct Cache {
  KvStorage storage;
  std::vector<std::vector<int32_t>> pages;
  std::vector<AttentionSequence> sequences;
};
Cache make_cache(const Shape& s, const std::vector<Sequence>& sequences, DType type, int64_t page_size, uint32_t seed) {
  int64_t n_pages = 2;
  for (const Sequence& q : sequences) n_pages += (q.n_keys + page_size - 1) / page_size;
  const std::vector<KvLayerDims> layers = {{s.n_head_kv, s.dk, s.dv}};
  Cache cache{.storage = std::move(*KvStorage::create(layers, n_pages, page_size, type))};
  if (type != DType::q8_0)
    for (const KvPlane* plane : {&cache.storage.keys(0), &cache.storage.values(0)})
      std::memset(plane->pages, 0xFF, static_cast<size_t>(plane->layout.page_bytes * n_pages));
  std::vector<int32_t> order(static_cast<size_t>(n_pages));
  std::iota(order.begin(), order.end(), 0);
  std::mt19937 rng(seed);
  std::shuffle(order.begin(), order.end(), rng);
  for (const Sequence& q : sequences) {
    std::vector<int32_t> pages, slots;
    for (int64_t p = 0; p < q.n_keys; ++p) {
      if (p % page_size == 0) pages.push_back(order.back()), order.pop_back();
      slots.push_back(pages.back() * static_cast<int32_t>(page_size) + static_cast<int32_t>(p % page_size));
    }
    const OpSet& ops = op_set(Isa::scalar);
    ops.kv_write(
        {.plane = cache.storage.keys(0), .slots = slots.data(), .x = q.k.data(), .x_stride = s.n_head_kv * s.dk}, 0,
        q.n_keys * s.n_head_kv);
    ops.kv_write(
        {.plane = cache.storage.values(0), .slots = slots.data(), .x = q.v.data(), .x_stride = s.n_head_kv * s.dv}, 0,
        q.n_keys * s.n_head_kv);
    cache.pages.push_back(pages);
  }
  for (size_t i = 0; i < sequences.size(); ++i) cache.sequences.push_back({cache.pages[i].data(), sequences[i].n_keys});
  return cache;
}

struct TokenRef {
  int32_t seq, pos;
};

// Attention of some tokens as one step; `n_threads` also decides whether keys are split.
std::vector<float> attend(Isa isa, const Shape& s, const Options& o, const std::vector<Sequence>& sequences,
                          const Cache& cache, const std::vector<TokenRef>& tokens, int n_threads = 1,
                          bool allow_split = true) {
  const auto n_tokens = static_cast<int64_t>(tokens.size());
  const int64_t head_stride = s.dk + o.pad;
  std::vector<float> q(static_cast<size_t>(n_tokens * s.n_head * head_stride), std::nanf("")),
      y(static_cast<size_t>(n_tokens * s.n_head * s.dv), -7.0f);
  std::vector<int32_t> positions, seq_ids;
  for (const TokenRef& t : tokens) {
    const auto& all = sequences[static_cast<size_t>(t.seq)].q;
    for (int64_t h = 0; h < s.n_head; ++h)
      std::copy_n(all.begin() + (t.pos * s.n_head + h) * s.dk, s.dk,
                  q.begin() + (static_cast<int64_t>(positions.size()) * s.n_head + h) * head_stride);
    positions.push_back(t.pos);
    seq_ids.push_back(t.seq);
  }
  std::vector<AttentionTile> tiles;
  make_attention_tiles(seq_ids, s.n_head / s.n_head_kv, tiles);
  const auto sinks = random_floats(static_cast<size_t>(s.n_head), 99);
  AttentionCall call;
  call.args = {.q = q.data(),
               .q_stride = s.n_head * head_stride,
               .q_head_stride = o.pad ? head_stride : 0,
               .y = y.data(),
               .y_stride = s.n_head * s.dv,
               .n_head = s.n_head,
               .keys = cache.storage.keys(0),
               .values = cache.storage.values(0),
               .positions = positions.data(),
               .seq_ids = seq_ids.data(),
               .sequences = cache.sequences,
               .tiles = tiles,
               .sinks = o.sinks ? sinks.data() : nullptr,
               .scale = o.scale,
               .softcap = o.softcap,
               .window = o.window,
               .chunk = o.chunk,
               .causal = o.causal};
  int64_t n_keys = 0;
  for (const Sequence& x : sequences) n_keys = std::max(n_keys, x.n_keys);
  std::vector<float> partials(
      allow_split ? static_cast<size_t>(attention_partial_floats(n_tokens, s.n_head, s.dv, n_keys)) : 0);
  call.partials = partials.data();
  call.plan = plan_attention(call.args, n_tokens, n_threads, static_cast<int64_t>(partials.size()));
  const auto scratch_floats = static_cast<size_t>(attention_scratch_floats(s.dk, s.dv));
  auto pool = std::move(*ThreadPool::create(n_threads));
  std::vector<Buffer> scratch;
  for (int i = 0; i < n_threads; ++i) scratch.push_back(std::move(*Buffer::allocate(4 * scratch_floats)));
  const OpSet& ops = op_set(isa);
  pool->run([&](int idx, int n) {
    const WorkRange items = split_range(call.plan.n_items, idx, n);
    ops.attention(call, scratch[static_cast<size_t>(idx)].as<float>(), items.begin, items.end);
    if (!call.plan.split_keys) return;
    pool->barrier(idx);
    const WorkRange rows = split_range(call.plan.n_merge_items, idx, n);
    ops.attention_merge(call, rows.begin, rows.end);
  });
  return y;
}

std::vector<TokenRef> tokens_of(int32_t seq, int64_t begin, int64_t end) {
  std::vector<TokenRef> tokens;
  for (int64_t p = begin; p < end; ++p) tokens.push_back({seq, static_cast<int32_t>(p)});
  return tokens;
}

// Plain loops in f64, and the error bound of each output from the arithmetic.
void check_against_f64(const Shape& s, const Options& o, const std::vector<Sequence>& sequences, const Cache& cache,
                       const std::vector<TokenRef>& tokens, const std::vector<float>& y) {
  const auto sinks = random_floats(static_cast<size_t>(s.n_head), 99);
  const int64_t page_size = cache.storage.keys(0).layout.page_size;
  for (size_t t = 0; t < tokens.size(); ++t)
    for (int64_t h = 0; h < s.n_head; ++h) {
      const Sequence& x = sequences[static_cast<size_t>(tokens[t].seq)];
      const int64_t pos = tokens[t].pos, kv_head = h / (s.n_head / s.n_head_kv);
      std::vector<double> scores, errors;
      std::vector<std::vector<float>> values;
      for (int64_t j = 0; j < x.n_keys; ++j) {
        if ((o.causal || o.window > 0) && j > pos) continue;
        if (o.window > 0 && pos - j >= o.window) continue;
        if (o.chunk > 0 && j < pos / o.chunk * o.chunk) continue;
        const int64_t slot =
            cache.pages[static_cast<size_t>(tokens[t].seq)][static_cast<size_t>(j / page_size)] * page_size +
            j % page_size;
        std::vector<float> k(static_cast<size_t>(s.dk)), v(static_cast<size_t>(s.dv));
        read_kv_slot(cache.storage.keys(0), slot, kv_head, k.data());
        read_kv_slot(cache.storage.values(0), slot, kv_head, v.data());
        double dot = 0, size = 0;
        for (int64_t d = 0; d < s.dk; ++d) {
          const double term = double{x.q[static_cast<size_t>((pos * s.n_head + h) * s.dk + d)]} *
                              double{k[static_cast<size_t>(d)]} * double{o.scale};
          dot += term, size += std::fabs(term);
        }
        scores.push_back(o.softcap != 0 ? o.softcap * std::tanh(dot / o.softcap) : dot);
        errors.push_back((static_cast<double>(s.dk) + 2) * kUnit * size + 12 * kUnit * std::fabs(scores.back()));
        values.push_back(v);
      }
      double max = -HUGE_VAL, error = 0, sum = 0, size = 0;
      for (double score : scores) max = std::max(max, score);
      if (o.sinks) max = std::max(max, double{sinks[static_cast<size_t>(h)]});
      std::vector<double> out(static_cast<size_t>(s.dv));
      for (size_t j = 0; j < scores.size(); ++j) {
        const double p = std::exp(scores[j] - max);
        sum += p;
        error = std::max(error, errors[j] + kUnit * std::fabs(scores[j] - max));
        for (size_t d = 0; d < out.size(); ++d) {
          out[d] += p * double{values[j][d]};
          size = std::max(size, std::fabs(double{values[j][d]}));
        }
      }
      if (o.sinks) sum += std::exp(sinks[static_cast<size_t>(h)] - max);
      // Weights are off by the scores' error (twice: numerator and denominator), exp, the sums over the keys and one
      // rescaling per block.
      const auto n = static_cast<double>(scores.size());
      const double bound = size * (2 * error + (2 * n + 4 * n / 64 + 30) * kUnit);
      for (size_t d = 0; d < out.size(); ++d)
        ASSERT_NEAR(y[(t * static_cast<size_t>(s.n_head) + static_cast<size_t>(h)) * out.size() + d],
                    sum > 0 ? out[d] / sum : 0, bound)
            << "token " << t << " head " << h << " dim " << d;
    }
}

TEST(CpuAttention, AgainstF64AndAllInstructionSetsAgree) {
  const Shape shapes[] = {{3, 1, 64, 64}, {4, 2, 16, 16},   {2, 2, 80, 48},
                          {5, 1, 20, 33}, {4, 1, 256, 256}, {7, 1, 1, 1}};
  const Options options[] = {{},
                             {.window = 5},
                             {.window = 64},
                             {.softcap = 3},
                             {.sinks = true},
                             {.causal = false},
                             {.chunk = 16},
                             {.window = 9, .chunk = 23, .pad = 5},
                             {.scale = 0.3f, .softcap = 20, .window = 33, .sinks = true}};
  for (const Shape& s : shapes)
    for (DType type : kCacheDTypes)
      for (const Options& o : options) {
        if (type != DType::f16 && s.dk != 64 && s.dk != 20) continue;
        const std::vector<Sequence> sequences = {make_sequence(s, s.dk > 100 ? 37 : 70, 100), make_sequence(s, 1, 110)};
        const Cache cache = make_cache(s, sequences, type, 16, 1);
        auto tokens = tokens_of(0, 0, sequences[0].n_keys);
        tokens.push_back({1, 0});
        const auto y = attend(Isa::scalar, s, o, sequences, cache, tokens);
        check_against_f64(s, o, sequences, cache, tokens, y);
        if (HasFatalFailure()) FAIL() << s.dk << " " << dtype_name(type);
        for (Isa isa : usable_isas())
          expect_same_bits(y, attend(isa, s, o, sequences, cache, tokens), std::string(isa_name(isa)));
      }
}

// Long enough for several chunks of 256.
class CpuAttentionLong : public ::testing::TestWithParam<DType> {};

TEST_P(CpuAttentionLong, SameBitsHoweverTheWorkIsCut) {
  const Shape s{6, 2, 32, 32};
  const int64_t n = 600;
  const std::vector<Sequence> sequences = {make_sequence(s, n, 200), make_sequence(s, 300, 210)};
  const Isa isa = best_isa();
  for (const Options& o :
       {Options{}, Options{.window = 100}, Options{.window = 512, .sinks = true}, Options{.chunk = 300, .pad = 7}}) {
    const Cache cache = make_cache(s, sequences, GetParam(), 64, 2);
    const auto all = tokens_of(0, 0, n);
    const auto whole = attend(isa, s, o, sequences, cache, all);
    check_against_f64(s, o, sequences, cache, {all[0], all[255], all[256], all[599]}, [&] {
      std::vector<float> picked;
      for (size_t t : {0, 255, 256, 599})
        picked.insert(picked.end(), whole.begin() + static_cast<ptrdiff_t>(t) * 192,
                      whole.begin() + static_cast<ptrdiff_t>(t + 1) * 192);
      return picked;
    }());
    const auto expect_rows = [&](const std::vector<float>& y, int64_t first, int64_t count, const std::string& what) {
      expect_same_bits({whole.begin() + first * 192, whole.begin() + (first + count) * 192},
                       {y.begin(), y.begin() + count * 192}, what);
    };
    expect_rows(attend(isa, s, o, sequences, cache, all, 3), 0, n, "3 threads");
    for (int64_t chunk : {1, 7, 64})  // chunked prefill near the end
      for (int64_t at = 500; at + chunk <= n; at += 97)
        expect_rows(attend(isa, s, o, sequences, cache, tokens_of(0, at, at + chunk)), at, chunk, "chunk");
    for (int64_t page_size : {16, 256}) {
      const Cache other = make_cache(s, sequences, GetParam(), page_size, 3);
      expect_rows(attend(isa, s, o, sequences, other, all), 0, n, "pages of " + std::to_string(page_size));
    }
    for (int32_t pos : {0, 255, 256, 300, 511, 512, 599}) {
      expect_rows(attend(isa, s, o, sequences, cache, {{0, pos}}), pos, 1, "alone");
      expect_rows(attend(isa, s, o, sequences, cache, {{0, pos}}, 4), pos, 1, "alone, keys split");
      expect_rows(attend(isa, s, o, sequences, cache, {{0, pos}}, 4, false), pos, 1, "alone, 4 threads");
      expect_rows(attend(isa, s, o, sequences, cache, {{0, pos}, {1, 250}, {1, 299}}, 2), pos, 1, "in a batch");
    }
    expect_rows(attend(Isa::scalar, s, o, sequences, cache, tokens_of(0, 590, n)), 590, 10, "scalar");
    if (isa_available(Isa::avx2)) expect_rows(attend(Isa::avx2, s, o, sequences, cache, all, 2), 0, n, "avx2");
  }
}
INSTANTIATE_TEST_SUITE_P(Types, CpuAttentionLong, ::testing::ValuesIn(kCacheDTypes),
                         [](const auto& type) { return std::string(dtype_name(type.param)); });

TEST(CpuAttention, MoreQueryHeadsThanATile) {
  const Shape s{100, 1, 16, 16};
  const std::vector<Sequence> sequences = {make_sequence(s, 20, 300)};
  const Cache cache = make_cache(s, sequences, DType::f16, 16, 4);
  const auto tokens = tokens_of(0, 0, 20);
  const auto y = attend(best_isa(), s, {}, sequences, cache, tokens, 2);
  check_against_f64(s, {}, sequences, cache, tokens, y);
}

// Latent attention: one key head of 576 dimensions, of which the values are the first 512.
TEST(CpuAttention, LatentHeads) {
  const Shape s{16, 1, 576, 512};
  const Options o{.scale = 0.02f, .pad = 16};
  const std::vector<Sequence> sequences = {make_sequence(s, 40, 305)};
  for (DType type : kCacheDTypes) {
    const Cache cache = make_cache(s, sequences, type, 16, 4);
    const auto tokens = tokens_of(0, 0, 40);
    const auto y = attend(Isa::scalar, s, o, sequences, cache, tokens);
    check_against_f64(s, o, sequences, cache, tokens, y);
    for (Isa isa : usable_isas()) expect_same_bits(y, attend(isa, s, o, sequences, cache, tokens, 2), "latent");
  }
}

TEST(CpuAttention, SplitKeysWithFewItems) {
  const Shape s{4, 1, 16, 16};
  const std::vector<Sequence> sequences = {make_sequence(s, 1000, 310)};
  const Cache cache = make_cache(s, sequences, DType::f16, 64, 5);
  AttentionArgs a{.n_head = 4, .keys = cache.storage.keys(0), .values = cache.storage.values(0)};
  const int32_t position = 999, seq = 0;
  const std::vector<AttentionTile> tiles = {{0, 1}};
  a.positions = &position, a.seq_ids = &seq, a.sequences = cache.sequences, a.tiles = tiles;
  const int64_t floats = attention_partial_floats(1, 4, 16, 1000);
  EXPECT_TRUE(plan_attention(a, 1, 2, floats).split_keys);
  EXPECT_EQ(plan_attention(a, 1, 2, floats).n_items, 4);     // chunks of 256
  EXPECT_FALSE(plan_attention(a, 1, 1, floats).split_keys);  // nobody to share with
  EXPECT_FALSE(plan_attention(a, 1, 2, 10).split_keys);      // no room
  a.window = 10;
  EXPECT_FALSE(plan_attention(a, 1, 2, floats).split_keys);  // one chunk
}

// Pages behind the window may be gone: their table entries are not looked at.
TEST(CpuAttention, PagesBehindTheWindowAreNotTouched) {
  const Shape s{2, 1, 16, 16};
  const std::vector<Sequence> sequences = {make_sequence(s, 200, 320)};
  Cache cache = make_cache(s, sequences, DType::f16, 16, 6);
  const Options o{.window = 20};
  const auto before = attend(best_isa(), s, o, sequences, cache, tokens_of(0, 190, 200));
  for (size_t page = 0; page < 10; ++page) cache.pages[0][page] = INT32_MAX;  // positions below 160
  expect_same_bits(before, attend(best_isa(), s, o, sequences, cache, tokens_of(0, 190, 200)), "freed pages");
}

// A later token's NaN must not reach an earlier one in the same tile, and a NaN query must not reach other rows.
TEST(CpuAttention, NanStaysInItsRow) {
  const Shape s{1, 1, 16, 16};
  std::vector<Sequence> sequences = {make_sequence(s, 40, 330)};
  const Cache clean = make_cache(s, sequences, DType::f16, 16, 7);
  const auto expected = attend(best_isa(), s, {}, sequences, clean, tokens_of(0, 0, 40));
  for (int64_t d = 0; d < 16; ++d) {
    sequences[0].k[static_cast<size_t>(30 * 16 + d)] = std::numeric_limits<float>::quiet_NaN();
    sequences[0].v[static_cast<size_t>(30 * 16 + d)] = std::numeric_limits<float>::infinity();
  }
  sequences[0].q[3 * 16] = std::numeric_limits<float>::quiet_NaN();
  const Cache dirty = make_cache(s, sequences, DType::f16, 16, 7);
  for (Isa isa : usable_isas()) {
    const auto y = attend(isa, s, {}, sequences, dirty, tokens_of(0, 0, 40));
    for (size_t i = 0; i < 30 * 16; ++i) {
      if (i / 16 == 3)
        ASSERT_TRUE(std::isnan(y[i]));
      else
        ASSERT_EQ(y[i], expected[i]) << i;
    }
    for (size_t i = 30 * 16; i < y.size(); ++i) ASSERT_TRUE(std::isnan(y[i]));
  }
}

TEST(CpuAttention, NoVisibleKeyGivesZeros) {
  const Shape s{2, 1, 16, 16};
  const std::vector<Sequence> sequences = {make_sequence(s, 16, 340)};
  Cache cache = make_cache(s, sequences, DType::f16, 16, 8);
  cache.sequences[0].n_keys = 0;
  for (int n_threads : {1, 2})
    for (float v : attend(best_isa(), s, {.sinks = true}, sequences, cache, tokens_of(0, 0, 3), n_threads))
      ASSERT_EQ(v, 0.0f);
  EXPECT_TRUE(attend(best_isa(), s, {}, sequences, cache, {}).empty());
}

TEST(AttentionTiles, RunsOfOneSequence) {
  std::vector<AttentionTile> tiles;
  make_attention_tiles({}, 3, tiles);
  EXPECT_TRUE(tiles.empty());
  std::vector<int32_t> seq_ids(40, 5);
  seq_ids.push_back(2);
  seq_ids.push_back(5);
  make_attention_tiles(seq_ids, 3, tiles);  // 16 tokens of 3 heads
  std::vector<std::pair<int, int>> got;
  for (const AttentionTile& t : tiles) got.emplace_back(t.first_token, t.n_tokens);
  EXPECT_EQ(got, (std::vector<std::pair<int, int>>{{0, 16}, {16, 16}, {32, 8}, {40, 1}, {41, 1}}));
}

}  // namespace
}  // namespace tokamak::cpu
