// Times of the CUDA products with many columns.
//   cuda_gemm_bench [columns...]      (32 64 128 256 512 2048)
// Every time is the median over replays of a CUDA graph whose launches rotate over copies of the weights, at least
// 260 MB of them: the L2 is cold. Conversion of the activations is timed apart.
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "backend/cuda/gemm/gemm.h"
#include "cuda_weights.h"

using namespace tokamak;
using namespace tokamak::cuda;

namespace {

struct Bench {
  DType dtype;
  int64_t n_rows, k;
  ColdWeights weights;
  uint8_t *halves, *workspace;
  float *x, *y;

  Bench(DType type, int64_t rows, int64_t width, int max_cols)
      : dtype(type),
        n_rows(rows),
        k(width),
        weights(dtype, 1, rows, k,
                std::max<int64_t>(2, 260'000'000 / ColdWeights::bytes_of_copy(dtype, 1, rows, k) + 1)),
        halves(device_alloc(static_cast<size_t>(half_columns_bytes(max_cols, k)))),
        x(upload(testing::random_floats(static_cast<size_t>(max_cols * k), 78))),
        y(device_array<float>(max_cols * n_rows)) {
    uint64_t n_bytes = 16;
    for (int n = 1; n <= max_cols; ++n) n_bytes = std::max(n_bytes, gemm_workspace_bytes(args(0, n, false)));
    workspace = device_alloc(n_bytes);
  }
  ~Bench() { device_free(halves, workspace, x, y); }
  Bench(const Bench&) = delete;

  GemmArgs args(int launch, int n_cols, bool glu) const {
    const MatvecArgs product{.dtype = dtype,
                             .weights = weights.of(launch),
                             .up = glu ? weights.of(launch + 1) : nullptr,
                             .n_rows = n_rows,
                             .k = k,
                             .n_cols = n_cols,
                             .x = halves,
                             .y = y,
                             .y_stride = n_rows,
                             .glu = glu ? 2 : -1};
    return {.product = product, .workspace = workspace};
  }
  HalfColumnsArgs convert_args(int n_cols) const {
    return {.x = x, .n_cols = n_cols, .k = k, .x_stride = k, .halves = halves};
  }
  double time(int n_cols, bool glu = false) const {
    check(launch_half_columns(convert_args(n_cols), nullptr), "convert");
    const int n_launches = n_cols > 256 ? 8 : n_cols > 64 ? 16 : 32;
    return time_graph(n_launches,
                      [&](int i, cudaStream_t s) { check(launch_gemm(args(glu ? 2 * i : i, n_cols, glu), s), "gemm"); })
        .median;
  }
  double time_convert(int n_cols) const {
    return time_graph(16, [&](int, cudaStream_t s) { check(launch_half_columns(convert_args(n_cols), s), "convert"); })
        .median;
  }
};

// One layer's experts as in Qwen3-30B-A3B: 128 experts, 8 used, gate and up of 768 x 2048, down of 2048 x 768.
void bench_experts(DType dtype, int n_tokens, int tile_cols) {
  const int64_t n_expert = 128, n_used = 8, n_embd = 2048, n_ff = 768, n_pairs = n_tokens * n_used;
  const RouteShape shape{n_tokens, 8, 128, tile_cols};
  const ColdWeights gate(dtype, n_expert, n_ff, n_embd, 1), up(dtype, n_expert, n_ff, n_embd, 1),
      down(dtype, n_expert, n_embd, n_ff, 1);
  auto *x = device_array<float>(n_tokens * n_embd), *h = device_array<float>(n_pairs * n_ff),
       *y = device_array<float>(n_pairs * n_embd);
  std::vector<int32_t> list(static_cast<size_t>(n_pairs));
  for (size_t i = 0; i < list.size(); ++i)
    list[i] = static_cast<int32_t>((testing::random_bits(5, i / 8) + i % 8 * 17) % 128);
  auto* ids = upload(list);
  uint8_t* route = device_alloc(static_cast<size_t>(Route::bytes(shape)));
  uint8_t* in = device_alloc(static_cast<size_t>(half_columns_bytes(shape.n_columns(), n_embd)));
  uint8_t* mid = device_alloc(static_cast<size_t>(half_columns_bytes(shape.n_columns(), n_ff)));
  const auto product = [&](const void* w, const void* u, int64_t rows, int64_t k, const void* cols, float* out) {
    MatvecArgs a{.dtype = dtype, .weights = w, .up = u, .n_rows = rows, .k = k, .n_cols = static_cast<int>(n_pairs)};
    a.x = cols, a.y = out, a.y_stride = rows, a.glu = u ? 2 : -1;
    return GemmArgs{.product = a, .shape = &shape, .route = route};
  };
  const std::function<void(cudaStream_t)> steps[] = {
      [&](cudaStream_t s) { check(launch_route(ids, 8, shape, route, false, s), "route"); },
      [&](cudaStream_t s) {
        check(launch_half_columns({x, n_tokens, n_embd, n_embd, in, false, &shape, route, 8}, s), "convert");
      },
      [&](cudaStream_t s) { check(launch_gemm(product(gate.data, up.data, n_ff, n_embd, in, h), s), "gate"); },
      [&](cudaStream_t s) {
        check(launch_half_columns({h, n_pairs, n_ff, n_ff, mid, false, &shape, route, 1}, s), "convert");
      },
      [&](cudaStream_t s) { check(launch_gemm(product(down.data, nullptr, n_embd, n_ff, mid, y), s), "down"); }};
  for (const auto& step : steps) step(nullptr);
  const double all = time_graph(8, [&](int, cudaStream_t s) {
                       for (const auto& step : steps) step(s);
                     }).median;
  std::printf("experts %-6s %5d tokens, tiles of %3d: %7.1f us;", dtype_name(dtype).data(), n_tokens, tile_cols, all);
  for (const auto& step : steps) std::printf(" %6.1f", time_graph(8, [&](int, cudaStream_t s) { step(s); }).median);
  std::printf("\n");
  device_free(x, h, y, ids, route, in, mid);
}

}  // namespace

int main(int argc, char** argv) {
  g_replays = 5;
  std::vector<int> columns;
  for (int i = 1; i < argc; ++i) columns.push_back(std::atoi(argv[i]));
  if (columns.empty()) columns = {32, 64, 128, 256, 512, 2048};
  struct Shape {
    int64_t n_rows, k;
  };
  const DType types[] = {DType::nvfp4, DType::q4_0, DType::q4_k, DType::q8_0, DType::mxfp4, DType::q6_k, DType::bf16};
  std::printf("us (TFLOP/s)\n%-14s %6s", "shape", "n");
  for (const DType type : types) std::printf(" %13s", dtype_name(type).data());
  std::printf(" %8s\n", "convert");
  for (const auto& [n_rows, k] : {Shape{4096, 14336}, {28672, 4096}, {4096, 4096}, {6144, 4096}}) {
    for (const int n : columns) {
      std::printf("%5lld x %-6lld %6d", static_cast<long long>(n_rows), static_cast<long long>(k), n);
      double convert = 0;
      for (const DType type : types) {
        const Bench b(type, n_rows, k, n);
        const double us = b.time(n);
        if (type == types[0]) convert = b.time_convert(n);
        std::printf(" %7.1f (%3.0f)", us, 2e-6 * static_cast<double>(n_rows * k) * n / us);
        std::fflush(stdout);
      }
      std::printf(" %8.1f\n", convert);
    }
  }
  std::printf("gate and up of 14336 x 4096 with SwiGLU\n");
  for (const int n : columns) {
    std::printf("%21d", n);
    for (const DType type : types) std::printf(" %7.1f", Bench(type, 14336, 4096, n).time(n, true));
    std::printf("\n");
  }
  std::printf("one layer of experts: all; route, convert, gate and up, convert, down\n");
  for (const DType type : {DType::nvfp4, DType::q4_k})
    for (const int n_tokens : {32, 128, 512, 2048})
      for (const int tile_cols : {64, 128, 256})
        if (tile_cols * 16 >= n_tokens && tile_cols <= n_tokens) bench_experts(type, n_tokens, tile_cols);
  return 0;
}
