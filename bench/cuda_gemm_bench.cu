// Times of the CUDA products with many columns.
//   cuda_gemm_bench [columns...]      (32 64 128 256 512 2048)
// Every time is the median over replays of a CUDA graph whose launches rotate over copies of the weights, at least
// 260 MB of them: the L2 is cold. Conversion of the activations is timed apart.
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "backend/cuda/gemm/gemm.h"
#include "backend/cuda/matvec/layout.h"
#include "backend/cuda/matvec/random_weights.h"
#include "cuda_bench.h"

using namespace tokamak;
using namespace tokamak::cuda;

namespace {

struct Bench {
  DType dtype;
  int64_t n_rows, k, copy_bytes;
  int n_copies, max_cols;
  uint8_t *weights, *halves, *workspace;
  float *x, *y;

  Bench(DType type, int64_t rows, int64_t width, int cols) : dtype(type), n_rows(rows), k(width), max_cols(cols) {
    const int64_t table = static_cast<int64_t>(packed_bytes(dtype, 0, 1, k));
    copy_bytes = static_cast<int64_t>(packed_bytes(dtype, 1, n_rows, k) + 255) / 256 * 256;
    n_copies = static_cast<int>(std::max<int64_t>(2, 260'000'000 / copy_bytes + 1));
    weights = device_alloc(static_cast<size_t>(copy_bytes * n_copies));
    const std::vector<std::byte> pattern = testing::random_rows(dtype, 64, k, 77);
    std::vector<std::byte> packed(packed_bytes(dtype, 1, 64, k));
    pack_matrices(dtype, {pattern.data(), 1, 64, k, packed.data()});
    const int64_t body = static_cast<int64_t>(packed.size()) - table;
    check(cudaMemcpy(weights, packed.data(), packed.size(), cudaMemcpyHostToDevice), "copy");
    for (int64_t at = table + body; at + body <= copy_bytes; at += body)
      check(cudaMemcpyAsync(weights + at, weights + table, static_cast<size_t>(body), cudaMemcpyDeviceToDevice),
            "copy");
    for (int c = 1; c < n_copies; ++c)
      check(
          cudaMemcpyAsync(weights + c * copy_bytes, weights, static_cast<size_t>(copy_bytes), cudaMemcpyDeviceToDevice),
          "copy");
    std::vector<float> host(static_cast<size_t>(max_cols * k));
    for (size_t i = 0; i < host.size(); ++i) host[i] = testing::random_unit(78, i);
    x = reinterpret_cast<float*>(device_alloc(host.size() * 4));
    check(cudaMemcpy(x, host.data(), host.size() * 4, cudaMemcpyHostToDevice), "copy");
    halves = device_alloc(static_cast<size_t>(half_columns_bytes(max_cols, k)));
    y = reinterpret_cast<float*>(device_alloc(static_cast<size_t>(max_cols * n_rows) * 4));
    uint64_t n_bytes = 16;
    for (int n = 1; n <= max_cols; ++n) n_bytes = std::max(n_bytes, gemm_workspace_bytes(args(0, n, false)));
    workspace = device_alloc(n_bytes);
  }
  ~Bench() {
    for (void* p : {static_cast<void*>(weights), static_cast<void*>(halves), static_cast<void*>(workspace),
                    static_cast<void*>(x), static_cast<void*>(y)})
      cudaFree(p);
  }
  Bench(const Bench&) = delete;

  GemmArgs args(int launch, int n_cols, bool glu) const {
    GemmArgs a{.dtype = dtype, .weights = weights + launch % n_copies * copy_bytes, .n_rows = n_rows, .k = k};
    if (glu) a.up = weights + (launch + 1) % n_copies * copy_bytes, a.glu = 2;
    a.n_cols = n_cols, a.x = halves, a.y = y, a.y_stride = n_rows, a.workspace = workspace;
    return a;
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
  for (const auto& [n_rows, k] : {Shape{4096, 14336}, {28672, 4096}, {4096, 4096}, {6144, 4096}})
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
  std::printf("gate and up of 14336 x 4096 with SwiGLU\n");
  for (const int n : columns) {
    std::printf("%21d", n);
    for (const DType type : types) std::printf(" %7.1f", Bench(type, 14336, 4096, n).time(n, true));
    std::printf("\n");
  }
  return 0;
}
