// A step of one token between the product of q, k and v and the next product, as a model of 32 layers runs it: one CUDA
// graph of overlapping launches [product, heads, attention] beside [product, attention that makes the heads], with cold
// weights, at several contexts. Both must leave the same bits.
//   cuda_decode_heads_bench [context]...
#include <cuda_runtime_api.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "backend/cuda/attention/attention.h"
#include "backend/cuda/matvec/matvec.h"
#include "cuda_weights.h"

using namespace tokamak;
using namespace tokamak::cuda;

namespace {

constexpr int kPage = 64, kLayers = 32;
constexpr int64_t kHeads = 32, kHeadsKv = 8, kDim = 128, kEmbd = kHeads * kDim, kKv = kHeadsKv * kDim;
constexpr DType kWeights = DType::nvfp4;

enum class Form : uint8_t { product, two_launches, one_launch };
constexpr const char* kFormNames[] = {"product", "product, heads, attention", "product, attention with heads"};

struct Bench {
  int context;
  int64_t plane_bytes;
  ColdWeights weights{kWeights, 1, kEmbd + 2 * kKv, kEmbd, kLayers};
  std::vector<uint8_t*> planes;  // keys and values of a layer together
  AttentionArgs a;
  TokenHeads heads;
  float *qkv = device_array<float>(kEmbd + 2 * kKv), *scale = nullptr, *rotated = device_array<float>(kEmbd);
  uint8_t* x = device_array<uint8_t>(q8_column_bytes(kEmbd));

  explicit Bench(int n) : context(n) {
    const int64_t n_pages = (n + kPage - 1) / kPage;
    const KvHeadLayout layout = kv_head_layout(KvType::f16, kDim, kPage);
    plane_bytes = n_pages * kHeadsKv * layout.head_page_bytes;
    for (int i = 0; i < kLayers; ++i) planes.push_back(device_array<uint8_t>(2 * plane_bytes));
    std::vector<int32_t> pages;
    for (int64_t i = 0; i < n_pages; ++i) pages.push_back(static_cast<int32_t>(n_pages - 1 - i));
    scale = upload(std::vector<float>{1e-3f});
    std::vector<float> table(2 * kDim, 0.7f);
    int64_t most = kKeyChunk;
    while (most < n) most *= 2;  // as programs do
    a = {.q = rotated,
         .q_stride = kEmbd,
         .q_head_stride = kDim,
         .y = device_array<float>(kEmbd),
         .q8 = x,
         .n_tokens = 1,
         .n_head = kHeads,
         .n_head_kv = kHeadsKv,
         .dk = kDim,
         .dv = kDim,
         .page_size = kPage,
         .positions = upload(std::vector<int32_t>{n - 1}),
         .seq_ids = device_array<int32_t>(1),
         .page_begin = device_array<int32_t>(1),
         .n_keys = upload(std::vector<int32_t>{n}),
         .pages = upload(pages),
         .scale = 0.05f,
         .most_keys = most};
    a.n_chunks = attention_chunks(a, most);
    if (most > kKeyChunk) a.partials = device_array<float>(attention_partial_floats(1, kHeads, kDim, a.n_chunks));
    const HeadJob job{.x = qkv, .x_head_stride = kDim, .head_dim = kDim};
    heads = {job, job, job};
    heads.q.n_head = kHeads, heads.k.n_head = heads.v.n_head = kHeadsKv;
    heads.k.x += kEmbd, heads.v.x += kEmbd + kKv;
    heads.q.table = heads.k.table = upload(table);
    heads.q.n_rot = heads.k.n_rot = kDim;
    heads.k.layout = heads.v.layout = layout;
    heads.k.slots = heads.v.slots = upload(std::vector<int32_t>{pages.back() * kPage + (n - 1) % kPage});
    fill();
  }
  // The state that every form begins with.
  void fill() {
    for (uint8_t* p : planes) fill_cache<<<1024, 256>>>(reinterpret_cast<uint16_t*>(p), plane_bytes);
    check(cudaMemset(x, 0, static_cast<size_t>(q8_column_bytes(kEmbd))), "x");
    std::vector<float> ones(static_cast<size_t>(kEmbd), 1.0f);
    check(cudaMemcpy(a.y, ones.data(), ones.size() * sizeof(float), cudaMemcpyHostToDevice), "y");
    check(launch_quantize_q8({.x = a.y, .k = kEmbd, .x_stride = kEmbd, .q8 = x}, nullptr), "x");
    check(cudaDeviceSynchronize(), "fill");
  }

  void product(int layer, cudaStream_t stream) const {
    const uint8_t* w = weights.of(layer);
    const auto part = [&](int64_t first, int64_t n) {
      return MatvecPartArgs{.weights = w + packed_bytes(kWeights, 1, first, kEmbd),
                            .n_rows = n,
                            .y = qkv + first,
                            .y_stride = n,
                            .scale = scale};
    };
    const MatvecPartArgs parts[] = {part(0, kEmbd), part(kEmbd, kKv), part(kEmbd + kKv, kKv)};
    check(launch_matvec_group(
              {.dtype = kWeights, .parts = parts, .k = kEmbd, .x = x, .x_stride = kEmbd, .overlap = true}, stream),
          "product");
  }
  void run(Form form, int layer, cudaStream_t stream) {
    product(layer, stream);
    if (form == Form::product) return;
    a.keys = heads.k.cache = planes[static_cast<size_t>(layer)];
    a.values = heads.v.cache = planes[static_cast<size_t>(layer)] + plane_bytes;
    if (form == Form::one_launch) {
      check(launch_attention_with_heads(a, heads, stream), "attention with heads");
    } else {
      HeadsArgs args{.jobs = {heads.q, heads.k, heads.v}, .n_jobs = 3, .n_tokens = 1};
      args.jobs[0].y = rotated;
      check(launch_heads(args, stream), "heads");
      check(launch_attention(a, stream), "attention");
    }
    if (a.partials) check(launch_attention_merge(a, stream), "merge");
  }
  // The last result and the cache of the last layer, after a step.
  std::vector<uint8_t> outcome(Form form) {
    fill();
    for (int layer = 0; layer < kLayers; ++layer) run(form, layer, nullptr);
    std::vector<uint8_t> out(static_cast<size_t>(kEmbd) * 4 + static_cast<size_t>(2 * plane_bytes));
    check(cudaMemcpy(out.data(), a.y, static_cast<size_t>(kEmbd) * 4, cudaMemcpyDeviceToHost), "y");
    check(
        cudaMemcpy(out.data() + kEmbd * 4, planes.back(), static_cast<size_t>(2 * plane_bytes), cudaMemcpyDeviceToHost),
        "cache");
    return out;
  }
};

void run(int context) {
  Bench bench(context);
  const bool equal = bench.outcome(Form::two_launches) == bench.outcome(Form::one_launch);
  double us[3];
  for (const Form form : {Form::product, Form::two_launches, Form::one_launch})
    us[static_cast<int>(form)] =
        time_graph(kLayers, [&](int layer, cudaStream_t stream) { bench.run(form, layer, stream); }).median;
  std::printf("context %6d: us per layer:", context);
  for (const Form form : {Form::product, Form::two_launches, Form::one_launch})
    std::printf(" %s %.2f;", kFormNames[static_cast<int>(form)], us[static_cast<int>(form)]);
  std::printf(" saved %.2f; %s\n", us[1] - us[2], equal ? "same bits" : "OTHER BITS");
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<int> contexts;
  for (int i = 1; i < argc; ++i) contexts.push_back(std::atoi(argv[i]));
  if (contexts.empty()) contexts = {16, 128, 512, 4096, 32768};
  for (const int context : contexts) run(context);
}
