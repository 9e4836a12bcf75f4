// Times of the CUDA mat-vec kernels beside a pure read of the same bytes, in one run.
//   cuda_matvec_bench [quick]
// Every time is the median (and spread) over replays of a CUDA graph of at least 48 launches that rotate over copies of
// the weights, at least 400 MB of them: the L2 is cold. "alone": plain graph nodes; "PDL": programmatic dependent
// launch.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <vector>

#include "backend/cuda/matvec/matvec.h"
#include "cuda_weights.h"

using namespace tokamak;
using namespace tokamak::cuda;

namespace {

// --- what an engine without fused epilogues launches.
__global__ void scale_kernel(float* y, const float* scale, const int32_t* ids, int64_t n) {
  const int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x, col = blockIdx.y;
  if (i < n) y[col * n + i] *= scale[ids ? ids[col] : 0];
}
__global__ void bias_kernel(float* y, const float* bias, const int32_t* ids, int64_t n) {
  const int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x, col = blockIdx.y;
  if (i < n) y[col * n + i] += bias[(ids ? ids[col] : 0) * n + i];
}
__global__ void swiglu_kernel(const float* gate, const float* up, float* y, int64_t n) {
  const int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x, at = blockIdx.y * n + i;
  if (i < n) y[at] = gate[at] / (1.0f + expf(-gate[at])) * up[at];
}

// A stack of matrices and everything a launch may need.
struct Bench {
  DType dtype;
  int64_t n_matrices, n_rows, k;
  int n_launches;  // that read kColdWeightBytes
  ColdWeights weights;
  std::vector<float> host_x;
  uint8_t* q8;
  float *x, *y, *gate, *up, *scale, *bias;
  int32_t* ids;

  static int64_t launches(int64_t read_bytes) { return std::max<int64_t>(48, kColdWeightBytes / read_bytes + 1); }

  Bench(DType type, int64_t matrices, int64_t rows, int64_t width, int64_t used = 1)
      : dtype(type),
        n_matrices(matrices),
        n_rows(rows),
        k(width),
        n_launches(static_cast<int>(launches(ColdWeights::bytes_of_copy(dtype, used, n_rows, k)))),
        weights(dtype, n_matrices, n_rows, k,
                std::clamp<int64_t>(kColdWeightBytes / ColdWeights::bytes_of_copy(dtype, n_matrices, n_rows, k) + 1, 2,
                                    n_launches)),
        host_x(testing::random_floats(static_cast<size_t>(8 * k), 78)),
        q8(device_alloc(static_cast<size_t>(8 * q8_column_bytes(k)))),
        x(upload(host_x)) {
    if (activation_of(dtype) != ActivationForm::f32) check(launch_quantize_q8({x, 8, k, k, q8}, nullptr), "quantize");
    for (float** p : {&y, &gate, &up}) *p = device_array<float>(8 * n_rows);
    for (float** p : {&scale, &bias}) *p = upload(std::vector<float>(static_cast<size_t>(n_matrices * n_rows), 0.5f));
    std::vector<int32_t> list(1024 * 8);
    for (size_t i = 0; i < list.size(); ++i)  // eight different ones, another eight in the next launch
      list[i] = static_cast<int32_t>(i / 8 * 8 % static_cast<size_t>(n_matrices) + (i * 5) % 8) %
                static_cast<int32_t>(n_matrices);
    ids = upload(list);
    check(cudaDeviceSynchronize(), "setup");
  }
  ~Bench() { device_free(q8, x, y, gate, up, scale, bias, ids); }
  Bench(const Bench&) = delete;

  // 0, 1, ...: another copy (experts: also other ids) each time.
  MatvecArgs args(int launch, int n_cols, bool overlap) const {
    MatvecArgs a{.dtype = dtype, .weights = weights.of(launch), .n_rows = n_rows, .k = k};
    a.n_cols = n_cols;
    a.x = activation_of(dtype) != ActivationForm::f32 ? static_cast<const void*>(q8) : x;
    a.x_stride = k, a.y = y, a.y_stride = n_rows, a.overlap = overlap;
    return a;
  }
  MatvecArgs expert_args(int launch, int n_used, bool overlap, bool settled) const {
    MatvecArgs a = args(launch, n_used, overlap);
    a.ids = ids + launch % 1024 * 8, a.n_used = n_used, a.ids_stride = n_used, a.ids_are_settled = settled;
    return a;
  }
  // Largest difference to the host twin, relative to the root mean square of y; rows must repeat exactly.
  double error() const {
    constexpr auto kPatternRows = ColdWeights::kPatternRows;
    check(cudaMemset(y, 0xFF, static_cast<size_t>(n_rows) * 4), "poison");
    check(launch_matvec(args(weights.n_copies - 1, 1, false), nullptr), "launch");
    std::vector<float> got(static_cast<size_t>(n_rows)), expected(static_cast<size_t>(kPatternRows));
    check(cudaMemcpy(got.data(), y, got.size() * 4, cudaMemcpyDeviceToHost), "copy");
    std::vector<std::byte> column(static_cast<size_t>(q8_column_bytes(k)));
    const bool quantized = activation_of(dtype) != ActivationForm::f32;
    if (quantized) quantize_q8_column(host_x.data(), k, column.data());
    find_matvec_layout(dtype)->multiply(weights.pattern.data(), 0, kPatternRows, k,
                                        quantized ? static_cast<const void*>(column.data()) : host_x.data(),
                                        expected.data());
    double worst = 0, squares = 0;
    for (size_t i = 0; i < got.size(); ++i) {
      const double e = expected[i % static_cast<size_t>(kPatternRows)];
      squares += e * e;
      worst = std::max(worst, std::isfinite(got[i]) ? std::fabs(got[i] - e) : INFINITY);
      if (got[i] != got[i % static_cast<size_t>(kPatternRows)]) worst = INFINITY;
    }
    return worst / std::sqrt(squares / static_cast<double>(n_rows));
  }
  Time time(int n_cols, bool overlap) const {
    return time_graph(n_launches,
                      [&](int i, cudaStream_t s) { check(launch_matvec(args(i, n_cols, overlap), s), "matvec"); });
  }
};

void bench_types() {
  std::printf(
      "4096 x 14336, us; stream: pure read of the file's bytes; share = stream / time\n"
      "%-8s %8s %7s %14s %6s %7s %6s %7s %7s %7s %9s\n",
      "type", "MB", "stream", "alone (spread)", "share", "PDL", "share", "2 cols", "4 cols", "8 cols", "error");
  for (const MatvecLayout& layout : matvec_layouts()) {
    const Bench b(layout.dtype, 1, 4096, 14336);
    const double mb = static_cast<double>(dtype_bytes(layout.dtype, 4096 * 14336)) / 1e6;
    const Time stream = time_stream(static_cast<int64_t>(mb * 1e6));
    const double error = b.error();
    const Time alone = b.time(1, false), pdl = b.time(1, true), c2 = b.time(2, false), c4 = b.time(4, false),
               c8 = b.time(8, false);
    std::printf("%-8s %8.1f %7.2f %6.2f %4.2f-%-4.2f %5.0f%% %7.2f %5.0f%% %7.2f %7.2f %7.2f %9.1e\n",
                dtype_name(layout.dtype).data(), mb, stream.median, alone.median, alone.low, alone.high,
                100 * stream.median / alone.median, pdl.median, 100 * stream.median / pdl.median, c2.median, c4.median,
                c8.median, error);
    std::fflush(stdout);
  }
}

void bench_shapes() {
  struct Shape {
    int64_t n_rows, k;
  };
  std::printf("\nalone / PDL, us\n%-14s", "shape");
  const DType types[] = {DType::nvfp4, DType::q4_0, DType::mxfp4, DType::q4_k, DType::q6_k, DType::q8_0, DType::q2_0};
  for (const DType type : types) std::printf(" %15s", dtype_name(type).data());
  std::printf("\n");
  for (const auto& [n_rows, k] : {Shape{28672, 4096}, {14336, 4096}, {6144, 4096}, {4096, 4096}, {1024, 4096}}) {
    std::printf("%5lld x %-6lld", static_cast<long long>(n_rows), static_cast<long long>(k));
    for (const DType type : types) {
      const Bench b(type, 1, n_rows, k);
      std::printf(" %7.2f/%-7.2f", b.time(1, false).median, b.time(1, true).median);
      std::fflush(stdout);
    }
    std::printf("\n");
  }
}

void bench_experts() {
  std::printf(
      "\n8 of 128 experts, ids in device memory, us: alone / PDL, ids of the kernel before / PDL, ids settled\n");
  struct Shape {
    int64_t n_rows, k;
  };
  for (const auto& [n_rows, k] : {Shape{768, 2048}, {2048, 768}})
    for (const DType type : {DType::nvfp4, DType::mxfp4, DType::q4_0, DType::q4_k, DType::q8_0}) {
      const Bench b(type, 128, n_rows, k, 8);
      const auto timed = [&](bool overlap, bool settled) {
        return time_graph(b.n_launches,
                          [&](int i, cudaStream_t s) {
                            check(launch_matvec(b.expert_args(i, 8, overlap, settled), s), "matvec");
                          })
            .median;
      };
      std::printf("%-6s %4lld x %-5lld %6.2f / %5.2f / %5.2f\n", dtype_name(type).data(),
                  static_cast<long long>(n_rows), static_cast<long long>(k), timed(false, false), timed(true, false),
                  timed(true, true));
      std::fflush(stdout);
    }
}

// Gate and up with scale and bias each, then SwiGLU: one launch, against seven. Both read the same activations.
void bench_fused(const char* what, int64_t n_matrices, int64_t n_rows, int64_t k, int n_used) {
  const Bench b(DType::nvfp4, n_matrices, n_rows, k, n_used);
  const bool experts = n_matrices > 1;
  const auto base = [&](int i, bool overlap) {
    MatvecArgs a = experts ? b.expert_args(i, n_used, overlap, true) : b.args(i, 1, overlap);
    return a;
  };
  const auto fused = [&](int i, cudaStream_t s, bool overlap) {
    MatvecArgs a = base(2 * i, overlap);
    a.up = base(2 * i + 1, overlap).weights;
    a.scale = a.up_scale = b.scale, a.bias = a.up_bias = b.bias, a.glu = 2;
    check(launch_matvec(a, s), "fused");
  };
  const auto unfused = [&](int i, cudaStream_t s) {
    const dim3 grid(static_cast<unsigned>((n_rows + 255) / 256), static_cast<unsigned>(n_used));
    const int32_t* ids = experts ? base(2 * i, false).ids : nullptr;
    for (int lane = 0; lane < 2; ++lane) {
      MatvecArgs a = base(2 * i, false);
      a.weights = base(2 * i + lane, false).weights;
      a.y = lane == 0 ? b.gate : b.up;
      check(launch_matvec(a, s), "lane");
      scale_kernel<<<grid, 256, 0, s>>>(a.y, b.scale, ids, n_rows);
      bias_kernel<<<grid, 256, 0, s>>>(a.y, b.bias, ids, n_rows);
    }
    swiglu_kernel<<<grid, 256, 0, s>>>(b.gate, b.up, b.x, n_rows);
  };
  // Same values first: one of each, on the same copies.
  const size_t n = static_cast<size_t>(n_rows) * static_cast<size_t>(n_used);
  std::vector<float> one(n), seven(n);
  fused(1, nullptr, false);
  check(cudaMemcpy(one.data(), b.y, n * 4, cudaMemcpyDeviceToHost), "copy");
  const std::vector<float>& keep = b.host_x;
  unfused(1, nullptr);
  check(cudaMemcpy(seven.data(), b.x, n * 4, cudaMemcpyDeviceToHost), "copy");
  check(cudaMemcpy(b.x, keep.data(), keep.size() * 4, cudaMemcpyHostToDevice), "copy");
  double difference = 0, total = 0;
  for (size_t i = 0; i < n; ++i)
    difference += std::pow(double{one[i]} - seven[i], 2), total += std::pow(double{seven[i]}, 2);
  const int n_pairs = std::max(24, b.n_launches / 2);
  const Time f = time_graph(n_pairs, [&](int i, cudaStream_t s) { fused(i, s, false); });
  const Time p = time_graph(n_pairs, [&](int i, cudaStream_t s) { fused(i, s, true); });
  const Time u = time_graph(n_pairs, unfused);
  std::printf("%-30s fused %6.2f us (1 launch; PDL %5.2f), unfused %6.2f us (7 launches), ratio %.2f, NMSE %.1e\n",
              what, f.median, p.median, u.median, u.median / f.median, difference / total);
}

}  // namespace

int main(int argc, char**) {
  if (argc > 1) g_replays = 5;
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, 0), "no device");
  std::printf("%s, %d multiprocessors, L2 %d MB\n", properties.name, properties.multiProcessorCount,
              properties.l2CacheSize >> 20);
  bench_types();
  bench_shapes();
  bench_experts();
  std::printf("\nNVFP4 gate and up with scale, bias and SwiGLU\n");
  bench_fused("dense 2 x 14336 x 4096", 1, 14336, 4096, 1);
  bench_fused("8 of 128 experts 2 x 768 x 2048", 128, 768, 2048, 8);
  return 0;
}
