// Prefill attention against a reference in double, on random data; what lies in unused slots is NaN.
#include "backend/cuda/attention/prefill.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <string>

#include "backend/cuda/attention/attention_reference.h"
#include "backend/cuda/attention/host_cache.h"
#include "backend/cuda/matvec/device_memory.h"

namespace tokamak::cuda {
namespace {

#define REQUIRE_PREFILL() \
  REQUIRE_DEVICE();       \
  if (prefill_tile_tokens(KvType::f16, 128, 128, 1, 1) == 0) GTEST_SKIP() << "no GPU of compute capability 9.0"

struct Seq {
  int n_past = 0, n_new = 0;
};

struct Shape {
  std::string name;
  int64_t dk = 64, dv = 64, n_head = 4, n_head_kv = 2;
  KvType type = KvType::f16;
  int page_size = 64;
  int64_t window = 0, chunk = 0;
  float softcap = 0;
  bool sinks = false, causal = true, wide = true, split = false;
  bool emulated = false;  // one of the few that the emulator runs
  std::vector<Seq> sequences = {{0, 150}};

  float scale() const { return 1.0f / std::sqrt(static_cast<float>(dk)); }
};

// Numbers of all positions of all sequences, and the cache that holds them.
struct Data {
  Data(const Shape& s, uint64_t seed)
      : shape(s), keys(s.type, s.dk, s.page_size, s.n_head_kv), values(s.type, s.dv, s.page_size, s.n_head_kv) {
    HostRandom random(seed);
    int n_pages = 1;  // page 0 is nobody's
    for (const Seq& seq : s.sequences) {
      const int n = (seq.n_past + seq.n_new + s.page_size - 1) / s.page_size;
      for (int i = 0; i < n; ++i) pages[static_cast<size_t>(&seq - s.sequences.data())].push_back(n_pages++);
    }
    for (auto& [i, list] : pages) std::reverse(list.begin(), list.end());  // not in a row
    keys.resize(n_pages);
    values.resize(n_pages);
    for (size_t i = 0; i < s.sequences.size(); ++i) {
      const int n = s.sequences[i].n_past + s.sequences[i].n_new;
      queries.push_back(random.floats(static_cast<size_t>(n * s.n_head * s.dk), 2));
      for (int position = 0; position < n; ++position) {
        const int page = pages.at(i)[static_cast<size_t>(position / s.page_size)];
        for (int head = 0; head < s.n_head_kv; ++head) {
          keys.fill(page, head, position % s.page_size, random, 1.5f);
          values.fill(page, head, position % s.page_size, random, 1);
          k_rows[i].push_back(keys.row(page, head, position % s.page_size));
          v_rows[i].push_back(values.row(page, head, position % s.page_size));
        }
      }
    }
    if (s.sinks) sinks = random.floats(static_cast<size_t>(s.n_head), 2);
  }

  Shape shape;
  HostCache keys, values;
  std::map<size_t, std::vector<int32_t>> pages;
  std::vector<std::vector<float>> queries;                            // by sequence: [position][n_head][dk]
  std::map<size_t, std::vector<std::vector<double>>> k_rows, v_rows;  // by sequence: [position, n_head_kv]
  std::vector<float> sinks;
};

// Tokens of a step: sequence and position.
struct Token {
  size_t seq;
  int position;
};
std::vector<Token> tokens_of(const Shape& s) {
  std::vector<Token> out;
  for (size_t i = 0; i < s.sequences.size(); ++i)
    for (int t = 0; t < s.sequences[i].n_new; ++t) out.push_back({i, s.sequences[i].n_past + t});
  return out;
}

// Runs the tokens as one step: y [token][n_head][dv].
std::vector<float> run(const Data& d, const std::vector<Token>& tokens) {
  const Shape& s = d.shape;
  std::vector<int32_t> positions, seq_ids, page_begin, n_keys(d.queries.size(), 0), pages;
  std::vector<float> q;
  for (size_t i = 0; i < d.queries.size(); ++i) {
    page_begin.push_back(static_cast<int32_t>(pages.size()));
    const auto found = d.pages.find(i);
    if (found != d.pages.end()) pages.insert(pages.end(), found->second.begin(), found->second.end());
  }
  for (const Token& t : tokens) {
    positions.push_back(t.position);
    seq_ids.push_back(static_cast<int32_t>(t.seq));
    n_keys[t.seq] = std::max(n_keys[t.seq], t.position + 1);
    const auto row = d.queries[t.seq].begin() + t.position * s.n_head * s.dk;
    q.insert(q.end(), row, row + s.n_head * s.dk);
  }
  const auto n = static_cast<int64_t>(tokens.size());
  DeviceBytes q_d(q), keys_d(d.keys.bytes), values_d(d.values.bytes), positions_d(positions), seq_ids_d(seq_ids),
      page_begin_d(page_begin), n_keys_d(n_keys), pages_d(pages), sinks_d(d.sinks);
  DeviceBytes tiles_d(static_cast<size_t>(prefill_tile_ints(n)) * sizeof(int32_t));
  DeviceBytes y_d(static_cast<size_t>(n * s.n_head * s.dv) * sizeof(float));
  const int64_t tile_tokens = prefill_tile_tokens(s.type, s.dk, s.dv, s.n_head, s.n_head_kv, s.wide);
  EXPECT_GT(tile_tokens, 0);
  EXPECT_EQ(launch_prefill_tiles(seq_ids_d.as<int32_t>(), n, tile_tokens, tiles_d.as<int32_t>(), nullptr), cudaSuccess);
  PrefillAttentionArgs args = {.q = q_d.as<float>(),
                               .q_stride = s.n_head * s.dk,
                               .q_head_stride = s.dk,
                               .y = y_d.as<float>(),
                               .keys = keys_d.data(),
                               .values = values_d.data(),
                               .type = s.type,
                               .n_tokens = n,
                               .n_head = s.n_head,
                               .n_head_kv = s.n_head_kv,
                               .dk = s.dk,
                               .dv = s.dv,
                               .page_size = s.page_size,
                               .positions = positions_d.as<int32_t>(),
                               .seq_ids = seq_ids_d.as<int32_t>(),
                               .page_begin = page_begin_d.as<int32_t>(),
                               .n_keys = n_keys_d.as<int32_t>(),
                               .pages = pages_d.as<int32_t>(),
                               .tiles = tiles_d.as<int32_t>(),
                               .sinks = s.sinks ? sinks_d.as<float>() : nullptr,
                               .scale = s.scale(),
                               .softcap = s.softcap,
                               .window = s.window,
                               .chunk = s.chunk,
                               .causal = s.causal,
                               .wide = s.wide};
  args.n_parts = s.split ? 4 : 0;
  DeviceBytes partials_d(static_cast<size_t>(prefill_partial_floats(n, s.n_head, s.dv, args.n_parts)) * sizeof(float));
  if (s.split) args.partials = partials_d.as<float>();
  EXPECT_EQ(launch_prefill_attention(args, nullptr), cudaSuccess);
  if (s.split) {
    EXPECT_EQ(launch_prefill_merge(args, nullptr), cudaSuccess);
  }
  return y_d.read<float>();
}

struct Expected {
  double y, bound;
};

// One head of one token. Queries, probabilities and decoded numbers are rounded to f16 (u = 2^-11), products are exact
// and summed in f32: an error e of a score changes a probability by the factor exp(2 e) at most.
std::vector<Expected> reference(const Data& d, const Token& t, int64_t head) {
  const Shape& s = d.shape;
  constexpr double kHalf = 0x1p-11, kSums = 0x1p-18;
  const auto row = [&](const auto& rows, int64_t key) {
    return rows.at(t.seq)[static_cast<size_t>(key * s.n_head_kv + head / (s.n_head / s.n_head_kv))].data();
  };
  const KeyRange seen = visible_keys(s, t.position, s.sequences[t.seq].n_past + s.sequences[t.seq].n_new);
  const Attended exact = attend(
      s, d.queries[t.seq].data() + (t.position * s.n_head + head) * s.dk, seen,
      s.sinks ? d.sinks[static_cast<size_t>(head)] : -HUGE_VAL, [&](int64_t key) { return row(d.k_rows, key); },
      [&](int64_t key) { return row(d.v_rows, key); });
  const double score_error = (2 * kHalf + kSums) * exact.largest_sum + 1e-6 * (1 + s.softcap);
  const double relative = std::expm1(2 * score_error) + 3 * kHalf + kSums;
  std::vector<Expected> out;
  for (size_t i = 0; i < exact.y.size(); ++i) out.push_back({exact.y[i], relative * exact.magnitude[i] + 1e-6});
  return out;
}

void expect_near_reference(const Data& d, const std::vector<Token>& tokens, const std::vector<float>& y) {
  constexpr size_t kMostRows = 2000;
  const Shape& s = d.shape;
  const size_t step = tokens.size() * static_cast<size_t>(s.n_head) / kMostRows + 1;
  double worst = 0, error2 = 0, size2 = 0;
  for (size_t t = 0; t < tokens.size(); t += step)
    for (int64_t head = 0; head < s.n_head; ++head) {
      const std::vector<Expected> expected = reference(d, tokens[t], head);
      for (size_t i = 0; i < expected.size(); ++i) {
        const double got = y[(t * static_cast<size_t>(s.n_head) + static_cast<size_t>(head)) * expected.size() + i];
        const double share = std::abs(got - expected[i].y) / expected[i].bound;
        error2 += (got - expected[i].y) * (got - expected[i].y), size2 += expected[i].y * expected[i].y;
        if (share <= worst) continue;
        worst = std::isnan(share) ? HUGE_VAL : share;
        ASSERT_LE(share, 1) << s.name << ": token " << t << " head " << head << " dim " << i << ": " << got << " for "
                            << expected[i].y;
      }
    }
  EXPECT_LT(error2 / size2, 1e-5) << s.name;
  ::testing::Test::RecordProperty("worst_share_of_bound", std::to_string(worst));
}

const Shape kShapes[] = {
    {.name = "plain"},
    {.name = "few tokens", .sequences = {{0, 3}}},
    {.name = "one head", .n_head = 1, .n_head_kv = 1, .sequences = {{70, 131}}},
    {.name = "group of 5", .n_head = 10, .n_head_kv = 2, .emulated = true, .sequences = {{0, 61}}},
    {.name = "group of 71", .n_head = 71, .n_head_kv = 1, .sequences = {{5, 9}}},
    {.name = "dims 80", .dk = 80, .dv = 80, .n_head = 3, .n_head_kv = 3, .sequences = {{64, 65}}},
    {.name = "dims 96", .dk = 96, .dv = 96, .sequences = {{10, 65}}},
    {.name = "dims 128", .dk = 128, .dv = 128, .n_head = 8, .emulated = true, .sequences = {{100, 100}}},
    {.name = "dims 192/128", .dk = 192, .dv = 128, .n_head = 2, .emulated = true, .sequences = {{3, 100}}},
    {.name = "dims 192", .dk = 192, .dv = 192, .sequences = {{0, 80}}},
    {.name = "dims 256", .dk = 256, .dv = 256, .n_head = 8, .n_head_kv = 4, .sequences = {{130, 70}}},
    {.name = "pages of 16", .page_size = 16, .sequences = {{37, 100}}},
    {.name = "pages of 48", .page_size = 48, .sequences = {{37, 100}}},
    {.name = "pages of 256", .page_size = 256, .sequences = {{137, 200}}},
    {.name = "window", .window = 9, .sequences = {{200, 100}}},
    {.name = "window, pages of 16", .page_size = 16, .window = 70, .emulated = true, .sequences = {{200, 100}}},
    {.name = "window, both sides", .window = 40, .causal = false, .sequences = {{0, 100}}},
    {.name = "chunk", .chunk = 24, .emulated = true, .sequences = {{20, 100}}},
    {.name = "softcap", .softcap = 2, .sequences = {{20, 100}}},
    {.name = "softcap 50", .dk = 128, .dv = 128, .softcap = 50, .sequences = {{20, 100}}},
    {.name = "sinks", .sinks = true, .sequences = {{20, 100}}},
    {.name = "window, softcap, sinks",
     .dk = 96,
     .dv = 96,
     .n_head = 6,
     .n_head_kv = 3,
     .window = 30,
     .softcap = 5,
     .sinks = true,
     .emulated = true,
     .sequences = {{20, 100}, {0, 40}}},
    {.name = "encoder", .causal = false, .sequences = {{0, 90}, {0, 33}}},
    {.name = "sequences", .sequences = {{17, 5}, {2, 120}, {90, 1}, {0, 64}, {63, 1}, {64, 1}}},
    {.name = "long", .n_head = 2, .n_head_kv = 1, .sequences = {{9000, 70}, {4090, 12}, {0, 5}}},
    {.name = "long, window", .window = 4200, .sinks = true, .sequences = {{8100, 100}}},
    {.name = "long, dims 256", .dk = 256, .dv = 256, .n_head = 2, .n_head_kv = 1, .sequences = {{4100, 20}}},
    {.name = "many items", .n_head = 64, .n_head_kv = 32, .sequences = {{0, 700}}},
};

struct Path {
  KvType type;
  bool wide;
};
class PrefillAttention : public ::testing::TestWithParam<Path> {};

TEST_P(PrefillAttention, MatchesReference) {
  REQUIRE_PREFILL();
  for (Shape s : kShapes) {
    if (is_emulated() && !s.emulated) continue;
    s.type = GetParam().type, s.wide = GetParam().wide;
    const Data d(s, 7);
    const std::vector<Token> tokens = tokens_of(s);
    expect_near_reference(d, tokens, run(d, tokens));
  }
}

// A prompt in pieces, alone or beside others: the same bits as in one step.
TEST_P(PrefillAttention, DoesNotDependOnPieces) {
  REQUIRE_PREFILL();
  if (is_emulated()) GTEST_SKIP() << "takes minutes on the emulator";
  for (Shape s : {Shape{.dk = 128, .dv = 128, .n_head = 8}, Shape{.window = 50}, Shape{.dk = 256, .dv = 256}}) {
    s.type = GetParam().type, s.wide = GetParam().wide;
    s.sequences = {{0, 301}, {0, 40}};
    const Data d(s, 11);
    std::vector<Token> all = tokens_of(s);
    const std::vector<float> whole = run(d, all);
    const auto row = static_cast<size_t>(s.n_head * s.dv);
    for (const std::vector<int>& pieces : {std::vector<int>{64, 64, 64, 64, 45}, {17, 100, 1, 120, 63}, {300, 1}}) {
      int position = 0;
      for (int n : pieces) {
        std::vector<Token> step;
        if (n % 2 == 1)
          for (int t = 0; t < 40; ++t) step.push_back({1, t});
        const size_t others = step.size();
        for (int t = 0; t < n; ++t) step.push_back({0, position + t});
        const std::vector<float> y = run(d, step);
        for (size_t i = 0; i < static_cast<size_t>(n) * row; ++i) {
          const float got = y[others * row + i], expected = whole[static_cast<size_t>(position) * row + i];
          ASSERT_EQ(got, expected) << "pieces of " << pieces[0] << ", " << pieces[1] << ": element " << i << " from "
                                   << position;
        }
        position += n;
      }
    }
  }
}

// Parts of the keys apart and merged: the same bits as in one go.
TEST_P(PrefillAttention, DoesNotDependOnSplit) {
  REQUIRE_PREFILL();
  if (is_emulated()) GTEST_SKIP() << "takes minutes on the emulator";
  for (Shape s : {Shape{.dk = 128, .dv = 128, .sequences = {{9000, 30}, {4090, 12}, {0, 5}}},
                  Shape{.window = 4200, .sinks = true, .sequences = {{8100, 100}}},
                  Shape{.dk = 256, .dv = 256, .sequences = {{12000, 20}}}}) {
    s.type = GetParam().type, s.wide = GetParam().wide;
    if (!s.wide || !prefill_splits(s.type, s.dk, s.dv)) GTEST_SKIP() << "no kernel that splits";
    Data d(s, 5);
    const std::vector<Token> tokens = tokens_of(s);
    const std::vector<float> whole = run(d, tokens);
    d.shape.split = true;
    EXPECT_EQ(run(d, tokens), whole) << s.dk;
    d.shape.split = false;
    const std::vector<Token> tail(tokens.end() - 2, tokens.end());
    const std::vector<float> y = run(d, tail);
    EXPECT_TRUE(std::equal(y.begin(), y.end(), whole.end() - static_cast<std::ptrdiff_t>(y.size()))) << s.dk;
  }
}

std::string path_name(const ::testing::TestParamInfo<Path>& info) {
  return std::string(kKvTypeNames[static_cast<size_t>(info.param.type)]) + (info.param.wide ? "_wide" : "");
}
INSTANTIATE_TEST_SUITE_P(Paths, PrefillAttention,
                         ::testing::Values(Path{KvType::f16, true}, Path{KvType::bf16, true}, Path{KvType::q8_0, true},
                                           Path{KvType::f8, true}, Path{KvType::f16, false}, Path{KvType::bf16, false},
                                           Path{KvType::q8_0, false}, Path{KvType::f8, false}),
                         path_name);

TEST(PrefillTiles, CutAtSequencesAndSizes) {
  REQUIRE_DEVICE();
  for (const std::vector<int>& runs :
       {std::vector<int>{1}, {5000}, {1, 1, 1}, {31, 32, 33, 1, 2000, 64}, {1024, 1, 1023}})
    for (int tile_tokens : {1, 18, 32}) {
      std::vector<int32_t> seq_ids, expected = {0};
      for (size_t r = 0; r < runs.size(); ++r)
        for (int t = 0; t < runs[r]; ++t) {
          if (t % tile_tokens == 0) expected.push_back(static_cast<int32_t>(seq_ids.size()));
          seq_ids.push_back(static_cast<int32_t>(r % 2));
        }
      const auto n = static_cast<int64_t>(seq_ids.size());
      expected[0] = static_cast<int32_t>(expected.size()) - 1;
      expected.push_back(static_cast<int32_t>(n));
      DeviceBytes ids(seq_ids), tiles(static_cast<size_t>(prefill_tile_ints(n)) * sizeof(int32_t));
      ASSERT_EQ(launch_prefill_tiles(ids.as<int32_t>(), n, tile_tokens, tiles.as<int32_t>(), nullptr), cudaSuccess);
      std::vector<int32_t> got = tiles.read<int32_t>();
      got.resize(expected.size());
      EXPECT_EQ(got, expected) << runs.size() << " runs, tiles of " << tile_tokens;
    }
}

TEST(PrefillKernels, SayWhatTheyTake) {
  REQUIRE_PREFILL();
  EXPECT_EQ(prefill_tile_tokens(KvType::f16, 128, 128, 32, 8, false), 32);
  EXPECT_EQ(prefill_tile_tokens(KvType::q8_0, 256, 256, 8, 4, false), 32);
  EXPECT_EQ(prefill_tile_tokens(KvType::f16, 576, 512, 16, 1), 0);
  EXPECT_EQ(prefill_tile_tokens(KvType::f32, 128, 128, 32, 8), 0);
  EXPECT_EQ(prefill_tile_tokens(KvType::f16, 128, 128, 232, 1), 0);
}

}  // namespace
}  // namespace tokamak::cuda
