// Times of prefill attention: TFLOP/s of the visible part, medians over launches that rotate over layers.
//   cuda_prefill_attention_bench [quick]
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <numeric>
#include <vector>

#include "backend/cuda/attention/prefill.h"
#include "cuda_bench.h"

using namespace tokamak::cuda;

namespace {

struct Case {
  const char* name;
  KvType type;
  int64_t n_tokens, n_past, dk, dv, n_head, n_head_kv;
  int64_t window = 0;
  bool wide = true, split = false;
};

void run(const Case& c) {
  constexpr int kPage = 64;
  const int64_t n_keys = c.n_past + c.n_tokens, n_pages = (n_keys + kPage - 1) / kPage;
  const auto plane_bytes = [&](int64_t dim) {
    return n_pages * c.n_head_kv * kv_head_layout(c.type, static_cast<int>(dim), kPage).head_page_bytes;
  };
  const int n_layers = static_cast<int>(std::clamp<int64_t>(200'000'000 / (2 * plane_bytes(c.dk)), 1, 8));
  std::vector<void*> keys, values;
  for (int i = 0; i < n_layers; ++i) {
    keys.push_back(device_alloc(static_cast<size_t>(plane_bytes(c.dk))));
    values.push_back(device_alloc(static_cast<size_t>(plane_bytes(c.dv))));
    fill_cache<<<1024, 256>>>(static_cast<uint16_t*>(keys.back()), plane_bytes(c.dk) / 2);
    fill_cache<<<1024, 256>>>(static_cast<uint16_t*>(values.back()), plane_bytes(c.dv) / 2);
  }
  std::vector<int32_t> positions(static_cast<size_t>(c.n_tokens)), pages(static_cast<size_t>(n_pages));
  std::iota(positions.begin(), positions.end(), static_cast<int32_t>(c.n_past));
  for (size_t i = 0; i < pages.size(); ++i) pages[i] = static_cast<int32_t>(i * 7919 % pages.size());
  PrefillAttentionArgs a{.q_stride = c.n_head * c.dk, .q_head_stride = c.dk, .type = c.type};
  auto* q = device_array<float>(c.n_tokens * c.n_head * c.dk);
  fill_floats<<<1024, 256>>>(q, c.n_tokens * c.n_head * c.dk);
  a.q = q;
  a.y = device_array<float>(c.n_tokens * c.n_head * c.dv);
  a.n_tokens = c.n_tokens, a.n_head = c.n_head, a.n_head_kv = c.n_head_kv, a.dk = c.dk, a.dv = c.dv;
  a.page_size = kPage;
  a.positions = upload(positions);
  a.seq_ids = upload(std::vector<int32_t>(static_cast<size_t>(c.n_tokens), 0));
  a.page_begin = upload(std::vector<int32_t>{0});
  a.n_keys = upload(std::vector{static_cast<int32_t>(n_keys)});
  a.pages = upload(pages);
  a.scale = 0.088f, a.window = c.window, a.wide = c.wide;
  int32_t* tiles = upload(std::vector<int32_t>(static_cast<size_t>(prefill_tile_ints(c.n_tokens))));
  a.tiles = tiles;
  const int64_t tile_tokens = prefill_tile_tokens(c.type, c.dk, c.dv, c.n_head, c.n_head_kv, c.wide);
  check(launch_prefill_tiles(a.seq_ids, c.n_tokens, tile_tokens, tiles, nullptr), "tiles");

  a.n_parts = c.split ? (n_keys + kPrefillSplitKeys - 1) / kPrefillSplitKeys : 0;
  const int64_t partial_floats = prefill_partial_floats(c.n_tokens, c.n_head, c.dv, a.n_parts);
  if (c.split) a.partials = device_array<float>(partial_floats);

  const Time time = time_graph(std::max(n_layers, 8), [&](int i, cudaStream_t stream) {
    a.keys = keys[static_cast<size_t>(i % n_layers)], a.values = values[static_cast<size_t>(i % n_layers)];
    check(launch_prefill_attention(a, stream), "attention");
    if (a.partials) check(launch_prefill_merge(a, stream), "merge");
  });
  double pairs = 0;
  for (int64_t t = 0; t < c.n_tokens; ++t) {
    const int64_t seen = c.n_past + t + 1;
    pairs += static_cast<double>(c.window > 0 ? std::min(seen, c.window) : seen);
  }
  const double flop = 2 * pairs * static_cast<double>(c.n_head * (c.dk + c.dv)), us = time.median;
  std::printf("%-28s %6lld at %6lld  %9.1f us (%.1f..%.1f)  %6.1f TFLOP/s\n", c.name,
              static_cast<long long>(c.n_tokens), static_cast<long long>(c.n_past), us, time.low, time.high,
              flop / us * 1e-6);
  for (void* p : keys) cudaFree(p);
  for (void* p : values) cudaFree(p);
  for (const void* p : {static_cast<const void*>(a.q), static_cast<const void*>(a.y)}) cudaFree(const_cast<void*>(p));
}

const Case kCases[] = {
    {"f16 32/8 heads of 128", KvType::f16, 512, 0, 128, 128, 32, 8},
    {"f16 32/8 heads of 128", KvType::f16, 2048, 0, 128, 128, 32, 8},
    {"the same, warps", KvType::f16, 2048, 0, 128, 128, 32, 8, 0, false},
    {"f16 32/8 heads of 128", KvType::f16, 8192, 0, 128, 128, 32, 8},
    {"f16 32/8 heads of 128", KvType::f16, 2048, 30000, 128, 128, 32, 8},
    {"f16 32/8 heads of 128", KvType::f16, 64, 30000, 128, 128, 32, 8},
    {"the same, split", KvType::f16, 64, 30000, 128, 128, 32, 8, 0, true, true},
    {"the same, split", KvType::f16, 256, 30000, 128, 128, 32, 8, 0, true, true},
    {"f16 32/4 heads of 128", KvType::f16, 2048, 0, 128, 128, 32, 4},
    {"bf16 32/8 heads of 128", KvType::bf16, 2048, 0, 128, 128, 32, 8},
    {"q8_0 32/8 heads of 128", KvType::q8_0, 2048, 0, 128, 128, 32, 8},
    {"f8 32/8 heads of 128", KvType::f8, 2048, 0, 128, 128, 32, 8},
    {"q8_0 32/8 heads of 128", KvType::q8_0, 8192, 0, 128, 128, 32, 8},
    {"f16 32/8 heads of 64", KvType::f16, 2048, 0, 64, 64, 32, 8},
    {"f16 9/3 heads of 64", KvType::f16, 512, 0, 64, 64, 9, 3},
    {"f16 8/4 heads of 256", KvType::f16, 2048, 0, 256, 256, 8, 4},
    {"f16 window 512, heads of 256", KvType::f16, 8192, 0, 256, 256, 8, 4, 512},
    {"f16 16/16 heads of 192/128", KvType::f16, 2048, 0, 192, 128, 16, 16},
};

}  // namespace

int main(int argc, char**) {
  if (argc > 1) g_replays = 3;
  for (const Case& c : kCases) run(c);
}
