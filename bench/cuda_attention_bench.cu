// Times of decode attention with its merge, beside a plain read of the same keys and values: medians of replays of a
// CUDA graph whose launches rotate over caches larger than L2.
//   cuda_attention_bench [part of a name]
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "backend/cuda/attention/attention.h"
#include "cuda_bench.h"

using namespace tokamak::cuda;

namespace {

constexpr int kPage = 64;
constexpr int64_t kColdBytes = 300'000'000;

__global__ void read_all(const uint4* x, int64_t n, uint32_t* out) {
  uint32_t sum = 0;
  const int64_t step = int64_t{gridDim.x} * blockDim.x;
#pragma unroll 8
  for (int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x; i < n; i += step) {
    const uint4 v = __ldcs(x + i);
    sum += v.x ^ v.y ^ v.z ^ v.w;
  }
  if (sum == 0x12345678) *out = sum;
}

struct Case {
  const char* name;
  KvType type;
  int64_t dim, n_head, n_head_kv;
  std::vector<int> contexts;  // one token of each sequence
};

struct Bench {
  Case c;
  int64_t n_pages = 0, plane_bytes = 0;
  int n_layers = 1;
  AttentionArgs a;
  std::vector<uint8_t*> planes;  // keys and values of a layer together
  uint32_t* sink = nullptr;

  explicit Bench(const Case& which) : c(which) {
    std::vector<int32_t> positions, seq_ids, page_begin, n_keys, pages;
    int longest = 0;
    for (const int n : c.contexts) {
      positions.push_back(n - 1), n_keys.push_back(n);
      seq_ids.push_back(static_cast<int32_t>(seq_ids.size())), page_begin.push_back(static_cast<int32_t>(n_pages));
      n_pages += (n + kPage - 1) / kPage;
      longest = std::max(longest, n);
    }
    for (int64_t i = 0; i < n_pages; ++i) pages.push_back(static_cast<int32_t>(i * 7919 % n_pages));
    plane_bytes = n_pages * c.n_head_kv * kv_head_layout(c.type, static_cast<int>(c.dim), kPage).head_page_bytes;
    n_layers = static_cast<int>(std::clamp<int64_t>(kColdBytes / (2 * plane_bytes), 2, 200));
    for (int i = 0; i < n_layers; ++i) {
      planes.push_back(device_array<uint8_t>(2 * plane_bytes));
      fill_cache<<<1024, 256>>>(reinterpret_cast<uint16_t*>(planes.back()), plane_bytes);
    }
    const auto n = static_cast<int64_t>(c.contexts.size());
    a = {.q_stride = c.n_head * c.dim,
         .q_head_stride = c.dim,
         .type = c.type,
         .n_tokens = n,
         .n_head = c.n_head,
         .n_head_kv = c.n_head_kv,
         .dk = c.dim,
         .dv = c.dim,
         .page_size = kPage,
         .scale = 0.05f};
    auto* q = device_array<float>(n * c.n_head * c.dim);
    fill_floats<<<64, 256>>>(q, n * c.n_head * c.dim);
    a.q = q;
    a.y = device_array<float>(n * c.n_head * c.dim);
    a.q8 = device_array<uint8_t>(n * c.n_head * c.dim * 2);
    a.positions = upload(positions), a.seq_ids = upload(seq_ids), a.page_begin = upload(page_begin);
    a.n_keys = upload(n_keys), a.pages = upload(pages);
    int64_t context = kKeyChunk;
    while (context < longest) context *= 2;  // as programs do
    a.most_keys = context;
    a.n_chunks = attention_chunks(a, context);
    if (context > kKeyChunk) a.partials = device_array<float>(attention_partial_floats(n, c.n_head, c.dim, a.n_chunks));
    sink = device_array<uint32_t>(1);
  }
  ~Bench() {
    for (uint8_t* p : planes) cudaFree(p);
    for (const void* p : {static_cast<const void*>(a.q), static_cast<const void*>(a.y), static_cast<const void*>(a.q8),
                          static_cast<const void*>(a.partials)})
      cudaFree(const_cast<void*>(p));
  }

  void attend(int layer, cudaStream_t stream) {
    a.keys = planes[static_cast<size_t>(layer)];
    a.values = planes[static_cast<size_t>(layer)] + plane_bytes;
    check(launch_attention(a, stream), "attention");
    if (a.partials) check(launch_attention_merge(a, stream), "merge");
  }
  void read(int layer, cudaStream_t stream) const {
    read_all<<<132 * 8, 256, 0, stream>>>(reinterpret_cast<const uint4*>(planes[static_cast<size_t>(layer)]),
                                          2 * plane_bytes / 16, sink);
  }

  template <class Launch>
  double median_us(Launch launch) {
    return time_graph(std::max(n_layers, 24), [&](int i, cudaStream_t stream) { launch(i % n_layers, stream); }).median;
  }
};

void run(const Case& c) {
  Bench bench(c);
  const double attention = bench.median_us([&](int layer, cudaStream_t s) { bench.attend(layer, s); });
  const double read = bench.median_us([&](int layer, cudaStream_t s) { bench.read(layer, s); });
  std::string contexts;
  for (const int n : c.contexts) contexts += (contexts.empty() ? "" : ",") + std::to_string(n);
  if (c.contexts.size() > 4) contexts = std::to_string(c.contexts.size()) + " sequences";
  std::printf("%-22s %14s %8.1f MB %8.2f us   read %8.2f us  %4.0f%%  chunks %lld\n", c.name, contexts.c_str(),
              2e-6 * static_cast<double>(bench.plane_bytes), attention, read, 100 * read / attention,
              static_cast<long long>(bench.a.n_chunks));
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<Case> cases;
  for (const int n : {128, 1024, 4096, 16384, 32768, 131072}) {
    cases.push_back({"f16 32/8 x 128", KvType::f16, 128, 32, 8, {n}});
    cases.push_back({"f16 32/4 x 128", KvType::f16, 128, 32, 4, {n}});
    if (n == 128 || n == 16384 || n == 131072) continue;
    cases.push_back({"q8_0 32/8 x 128", KvType::q8_0, 128, 32, 8, {n}});
    cases.push_back({"f8 32/8 x 128", KvType::f8, 128, 32, 8, {n}});
    cases.push_back({"bf16 32/8 x 128", KvType::bf16, 128, 32, 8, {n}});
    cases.push_back({"f16 32/8 x 64", KvType::f16, 64, 32, 8, {n}});
    cases.push_back({"f16 16/8 x 256", KvType::f16, 256, 16, 8, {n}});
    cases.push_back({"f16 64/8 x 128", KvType::f16, 128, 64, 8, {n}});
  }
  cases.push_back({"f16 32/8 x 128", KvType::f16, 128, 32, 8, {512, 1000, 2000, 3000, 4000, 4000, 5000, 16000}});
  cases.push_back({"f16 32/8 x 128", KvType::f16, 128, 32, 8, std::vector<int>(64, 1024)});
  for (const Case& c : cases)
    if (argc < 2 || std::strstr(c.name, argv[1])) run(c);
}
