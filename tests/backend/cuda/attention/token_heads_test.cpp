// Attention that makes the heads of a step of one token itself, beside launch_heads and launch_attention: the same bits
// in the result and in the cache.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "backend/cuda/attention/attention.h"
#include "backend/cuda/attention/attention_reference.h"
#include "backend/cuda/attention/decode.h"
#include "backend/cuda/attention/host_cache.h"
#include "backend/cuda/matvec/activations.h"
#include "backend/cuda/matvec/device_memory.h"

namespace tokamak::cuda {
namespace {

struct Shape {
  std::string name;
  int64_t dk = 128, dv = 128, n_head = 8, n_head_kv = 2;
  KvType type = KvType::f16;
  int page_size = 64;
  int64_t window = 0, chunk = 0;
  float softcap = 0;
  bool sinks = false;
  bool norm = false, neox = true, turns_queries = true;
  int64_t n_rot = 0;  // 0: dk
  std::vector<int> positions = {0, 15, 64, 201, 255, 256, 1500};
};

struct Outcome {
  std::vector<float> y;
  std::vector<uint8_t> q8, keys, values;
};

// One sequence up to the token at `position`, whose slot holds NaN.
struct Data {
  Data(const Shape& s, int position)
      : keys(s.type, s.dk, s.page_size, s.n_head_kv), values(s.type, s.dv, s.page_size, s.n_head_kv) {
    HostRandom random(static_cast<uint64_t>(position) + 1);
    for (int at = 0; at <= position; at += s.page_size)
      pages.insert(pages.begin(), static_cast<int32_t>(pages.size() + 1));
    keys.resize(static_cast<int>(pages.size()) + 1);
    values.resize(static_cast<int>(pages.size()) + 1);
    for (int at = 0; at < position; ++at)
      for (int head = 0; head < s.n_head_kv; ++head) {
        const int page = pages[static_cast<size_t>(at / s.page_size)];
        keys.fill(page, head, at % s.page_size, random, 1.5f);
        values.fill(page, head, at % s.page_size, random, 1);
      }
    slots = {pages[static_cast<size_t>(position / s.page_size)] * s.page_size + position % s.page_size};
    positions = {position};
    n_keys = {position + 1};
    x = random.floats(static_cast<size_t>(s.n_head * s.dk + s.n_head_kv * (s.dk + s.dv)), 2);
    weights = random.floats(static_cast<size_t>(2 * s.dk), 2);
    table = random.floats(static_cast<size_t>(2 * s.dk), 1);
    sinks = random.floats(static_cast<size_t>(s.n_head), 2);
  }
  HostCache keys, values;
  std::vector<int32_t> pages, slots, positions, n_keys, zero = {0};
  std::vector<float> x, weights, table, sinks;  // x: queries, keys, values
};

struct DeviceData {
  explicit DeviceData(const Data& d)
      : keys(d.keys.bytes),
        values(d.values.bytes),
        pages(d.pages),
        slots(d.slots),
        positions(d.positions),
        n_keys(d.n_keys),
        zero(d.zero),
        x(d.x),
        weights(d.weights),
        table(d.table),
        sinks(d.sinks) {}
  DeviceBytes keys, values, pages, slots, positions, n_keys, zero, x, weights, table, sinks;
};

AttentionArgs args_of(const Shape& s, int position, DeviceData& d) {
  AttentionArgs a{.q_stride = s.n_head * s.dk,
                  .q_head_stride = s.dk,
                  .keys = d.keys.data(),
                  .values = d.values.data(),
                  .type = s.type,
                  .n_tokens = 1,
                  .n_head = s.n_head,
                  .n_head_kv = s.n_head_kv,
                  .dk = s.dk,
                  .dv = s.dv,
                  .page_size = s.page_size,
                  .positions = d.positions.as<int32_t>(),
                  .seq_ids = d.zero.as<int32_t>(),
                  .page_begin = d.zero.as<int32_t>(),
                  .n_keys = d.n_keys.as<int32_t>(),
                  .pages = d.pages.as<int32_t>(),
                  .scale = 1.0f / std::sqrt(static_cast<float>(s.dk)),
                  .softcap = s.softcap,
                  .window = s.window,
                  .chunk = s.chunk};
  if (s.sinks) a.sinks = d.sinks.as<float>();
  a.most_keys = position + 1;
  a.n_chunks = attention_chunks(a, a.most_keys);
  return a;
}

TokenHeads heads_of(const Shape& s, const Data& host, DeviceData& d) {
  const auto job = [&](int64_t first, int64_t n_head, int64_t dim, bool turns, int64_t norm) {
    HeadJob out{.x = d.x.as<float>() + first, .x_head_stride = dim, .eps = 1e-5f, .n_head = n_head, .head_dim = dim};
    if (s.norm && norm >= 0) out.norm_weight = d.weights.as<float>() + norm;
    if (turns) out.table = d.table.as<float>(), out.neox = s.neox, out.n_rot = s.n_rot ? s.n_rot : s.dk;
    return out;
  };
  const int64_t n_q = s.n_head * s.dk, n_k = s.n_head_kv * s.dk;
  TokenHeads out{.q = job(0, s.n_head, s.dk, s.turns_queries, 0),
                 .k = job(n_q, s.n_head_kv, s.dk, true, s.dk),
                 .v = job(n_q + n_k, s.n_head_kv, s.dv, false, -1)};
  out.k.layout = host.keys.layout, out.v.layout = host.values.layout;
  out.k.cache = d.keys.data(), out.v.cache = d.values.data();
  out.k.slots = out.v.slots = d.slots.as<int32_t>();
  return out;
}

Outcome run(const Shape& s, const Data& host, bool fused, bool split) {
  DeviceData d(host);
  AttentionArgs a = args_of(s, host.positions[0], d);
  TokenHeads heads = heads_of(s, host, d);
  DeviceBytes q(static_cast<size_t>(s.n_head * s.dk) * 4), y(static_cast<size_t>(s.n_head * s.dv) * 4),
      q8(static_cast<size_t>(q8_column_bytes(s.n_head * s.dv))),
      partials(static_cast<size_t>(attention_partial_floats(1, s.n_head, s.dv, a.n_chunks)) * 4);
  a.y = y.as<float>();
  if (s.dv % 32 == 0) a.q8 = q8.as<uint8_t>(), a.q8_low = true;
  if (split) a.partials = partials.as<float>();
  if (fused) {
    EXPECT_TRUE(attention_makes_heads(a, heads));
    EXPECT_EQ(launch_attention_with_heads(a, heads, nullptr), cudaSuccess);
  } else {
    a.q = heads.q.y = q.as<float>();
    EXPECT_EQ(launch_heads({.jobs = {heads.q, heads.k, heads.v}, .n_jobs = 3, .n_tokens = 1}, nullptr), cudaSuccess);
    EXPECT_EQ(launch_attention(a, nullptr), cudaSuccess);
  }
  if (split) {
    EXPECT_EQ(launch_attention_merge(a, nullptr), cudaSuccess);
  }
  return {y.read<float>(), q8.read<uint8_t>(), d.keys.read<uint8_t>(), d.values.read<uint8_t>()};
}

std::vector<Shape> shapes() {
  std::vector<Shape> out;
  for (const KvType type : {KvType::f16, KvType::bf16, KvType::q8_0, KvType::f8}) {
    const auto add = [&](const Shape& s) { add_shape(out, type, s); };
    for (const auto& [dk, dv] : decode::kDecodeDims)
      for (const int64_t group : {4, 7}) {
        if (!decode::has_kernel(type, {dk, dv})) continue;
        add({.name = "dims" + std::to_string(dk) + "_" + std::to_string(dv) + "_group" + std::to_string(group),
             .dk = dk,
             .dv = dv,
             .n_head = 2 * group,
             .norm = group == 7,
             .neox = group == 4});
      }
    add({.name = "group1", .n_head = 2, .norm = true});
    add({.name = "group12", .n_head = 24});
    add({.name = "group16", .n_head = 16, .n_head_kv = 1, .norm = true});
    add({.name = "pages16", .page_size = 16, .positions = {15, 16, 17, 128, 511, 512}});
    add({.name = "pages48", .page_size = 48, .positions = {47, 48, 96, 300}});
    add({.name = "pages256", .page_size = 256, .positions = {254, 255, 256, 257}});
    add({.name = "window", .window = 100});
    add({.name = "window_of_chunks", .window = 700, .positions = {699, 700, 2047, 2048}});
    add({.name = "chunk", .chunk = 200, .positions = {199, 200, 600}});
    add({.name = "softcap", .softcap = 3});
    add({.name = "part_is_turned", .norm = true, .n_rot = 32});
    add({.name = "odd_part_is_turned", .neox = false, .n_rot = 36});
    add({.name = "queries_as_they_are", .turns_queries = false});
    add({.name = "all",
         .n_head = 12,
         .page_size = 32,
         .window = 500,
         .softcap = 5,
         .sinks = true,
         .norm = true,
         .n_rot = 64});
  }
  return out;
}

class TokenHeadsOf : public testing::TestWithParam<Shape> {};

TEST_P(TokenHeadsOf, AreThoseOfTwoLaunches) {
  REQUIRE_DEVICE();
  for (const int position : GetParam().positions) {
    const Data data(GetParam(), position);
    for (const bool split : {false, true}) {
      const Outcome two = run(GetParam(), data, false, split), one = run(GetParam(), data, true, split);
      EXPECT_EQ(std::memcmp(one.y.data(), two.y.data(), two.y.size() * sizeof(float)), 0) << position << " " << split;
      EXPECT_TRUE(one.q8 == two.q8) << position << " " << split;
      EXPECT_TRUE(one.keys == two.keys) << position << " " << split;
      EXPECT_TRUE(one.values == two.values) << position << " " << split;
      EXPECT_FALSE(std::isnan(one.y[0])) << position;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, TokenHeadsOf, testing::ValuesIn(shapes()),
                         [](const auto& param) { return param.param.name; });

TEST(TokenHeads, AreMadeForOneTokenOnly) {
  AttentionArgs a{.type = KvType::f16, .n_tokens = 1, .n_head = 8, .n_head_kv = 2, .dk = 128, .dv = 128};
  const HeadJob kv{.n_head = 2, .head_dim = 128};
  TokenHeads heads{.q = {.n_head = 8, .head_dim = 128}, .k = kv, .v = kv};
  EXPECT_TRUE(attention_makes_heads(a, heads));
  const float table[2] = {};
  heads.k.table = &table[0];
  EXPECT_TRUE(attention_makes_heads(a, heads));
  heads.q.table = &table[1];
  EXPECT_FALSE(attention_makes_heads(a, heads)) << "two rotations";
  heads.q.table = nullptr;
  a.n_step_tokens = 2;
  EXPECT_FALSE(attention_makes_heads(a, heads));
  a.n_step_tokens = 1, a.causal = false;
  EXPECT_FALSE(attention_makes_heads(a, heads));
  a.causal = true, a.type = KvType::f32;
  EXPECT_FALSE(attention_makes_heads(a, heads));
  a.type = KvType::f16, heads.v.cache = &a;
  EXPECT_FALSE(attention_makes_heads(a, heads)) << "a cache that is not read";
}

}  // namespace
}  // namespace tokamak::cuda
