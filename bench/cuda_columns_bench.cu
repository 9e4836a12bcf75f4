// Times of products of 1 (matvec/) and 2 to 16 columns (columns/), cold L2; of q, k and v in one launch and in three.
//   cuda_columns_bench [TYPE...]
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string_view>
#include <vector>

#include "backend/cuda/columns/columns.h"
#include "cuda_weights.h"

using namespace tokamak;
using namespace tokamak::cuda;

namespace {

struct Matrices {
  DType dtype;
  int64_t n_rows, k;
  int n_launches;
  ColdWeights weights;
  uint8_t *q8, *halves, *halves_of_8;
  float *x, *y;

  Matrices(DType type, int64_t rows, int64_t width)
      : dtype(type),
        n_rows(rows),
        k(width),
        n_launches(static_cast<int>(
            std::max<int64_t>(48, kColdWeightBytes / ColdWeights::bytes_of_copy(dtype, 1, n_rows, k) + 1))),
        weights(dtype, 1, n_rows, k, kColdWeightBytes / ColdWeights::bytes_of_copy(dtype, 1, n_rows, k) + 1),
        q8(device_alloc(static_cast<size_t>(16 * q8_column_bytes(k)))),
        halves(device_alloc(static_cast<size_t>(halves_bytes(k, 16)))),
        halves_of_8(device_alloc(static_cast<size_t>(halves_bytes(k, 8)))),
        x(upload(testing::random_floats(static_cast<size_t>(16 * k), 78))),
        y(device_array<float>(16 * n_rows)) {
    if (quantized()) check(launch_quantize_q8({x, 16, k, k, q8}, nullptr), "quantize");
    check(launch_halve({x, 16, k, k, halves}, nullptr), "halve");
    check(launch_halve({x, 8, k, k, halves_of_8}, nullptr), "halve");
    check(cudaDeviceSynchronize(), "setup");
  }
  ~Matrices() { device_free(q8, halves, halves_of_8, x, y); }
  Matrices(const Matrices&) = delete;

  bool quantized() const { return activation_of(dtype) != ActivationForm::f32; }
  MatvecArgs args(int launch, int n_cols, bool overlap, bool tensor) const {
    MatvecArgs a{.dtype = dtype, .weights = weights.of(launch), .n_rows = n_rows, .k = k};
    a.n_cols = n_cols;
    a.x = tensor        ? static_cast<const void*>(n_cols > 8 ? halves : halves_of_8)
          : quantized() ? static_cast<const void*>(q8)
                        : x;
    a.x_stride = k, a.y = y, a.y_stride = n_rows, a.overlap = overlap;
    return a;
  }
  double time(int n_cols, bool overlap, bool tensor) const {
    return time_graph(n_launches,
                      [&](int i, cudaStream_t s) {
                        const MatvecArgs a = args(i, n_cols, overlap, tensor);
                        check(tensor ? launch_columns(a, s) : launch_matvec(a, s), "launch");
                      })
        .median;
  }
  // Root mean square of the difference between the forms over the first column, relative.
  double difference() const {
    std::vector<float> a(static_cast<size_t>(n_rows)), b(a.size());
    check(launch_matvec(args(0, 1, false, false), nullptr), "matvec");
    check(cudaMemcpy(a.data(), y, a.size() * 4, cudaMemcpyDeviceToHost), "copy");
    check(launch_columns(args(0, 8, false, true), nullptr), "columns");
    check(cudaMemcpy(b.data(), y, b.size() * 4, cudaMemcpyDeviceToHost), "copy");
    double errors = 0, squares = 0;
    for (size_t i = 0; i < a.size(); ++i)
      errors += std::pow(double{a[i]} - b[i], 2), squares += std::pow(double{a[i]}, 2);
    return std::sqrt(errors / squares);
  }
};

void bench_shape(int64_t n_rows, int64_t k, const std::vector<DType>& types) {
  std::printf("%lld x %lld, us\n%-8s %7s %7s | %6s %6s %6s %6s | %6s %6s | %6s %6s | %9s\n",
              static_cast<long long>(n_rows), static_cast<long long>(k), "type", "1", "PDL", "2", "4", "8", "16",
              "8 PDL", "16 PDL", "8:1", "16:1", "to int8");
  for (const DType type : types) {
    const Matrices m(type, n_rows, k);
    const double one = m.time(1, false, false), pdl = m.time(1, true, false), c8 = m.time(8, false, true),
                 c16 = m.time(16, false, true);
    std::printf("%-8s %7.2f %7.2f | %6.2f %6.2f %6.2f %6.2f | %6.2f %6.2f | %6.2f %6.2f | %9.1e\n",
                dtype_name(type).data(), one, pdl, m.time(2, false, true), m.time(4, false, true), c8, c16,
                m.time(8, true, true), m.time(16, true, true), c8 / one, c16 / one, m.difference());
    std::fflush(stdout);
  }
}

// q, k, v of a layer of an 8B model.
void bench_group(DType type, int n_cols) {
  const int64_t k = 4096;
  const Matrices q(type, 4096, k), kv(type, 1024, k);
  const bool tensor = n_cols > 1;
  const auto part = [&](const Matrices& m, int i) {
    const MatvecArgs a = m.args(i, n_cols, false, tensor);
    return MatvecPartArgs{a.weights, a.n_rows, a.y, a.y_stride, nullptr, nullptr};
  };
  for (const bool overlap : {false, true}) {
    const double together = time_graph(96, [&](int i, cudaStream_t s) {
                              const MatvecPartArgs parts[] = {part(q, i), part(kv, 2 * i), part(kv, 2 * i + 1)};
                              const MatvecArgs a = q.args(i, n_cols, overlap, tensor);
                              const MatvecGroupArgs group{type, parts, k, n_cols, a.x, a.x_stride, overlap};
                              check(tensor ? launch_columns_group(group, s) : launch_matvec_group(group, s), "group");
                            }).median;
    const double apart =
        time_graph(96, [&](int i, cudaStream_t s) {
          for (const MatvecArgs& a : {q.args(i, n_cols, overlap, tensor), kv.args(2 * i, n_cols, overlap, tensor),
                                      kv.args(2 * i + 1, n_cols, overlap, tensor)})
            check(tensor ? launch_columns(a, s) : launch_matvec(a, s), "launch");
        }).median;
    std::printf("%-8s %2d columns%s: q, k, v in one launch %.2f us, in three %.2f us\n", dtype_name(type).data(),
                n_cols, overlap ? ", overlapped" : "", together, apart);
  }
}

void bench_halve() {
  for (const int64_t k : {4096, 14336}) {
    const Matrices m(DType::q4_0, 64, k);
    for (const bool overlap : {false, true})
      std::printf("conversion of 8 columns of %lld%s: %.2f us\n", static_cast<long long>(k),
                  overlap ? ", overlapped" : "", time_graph(96, [&](int, cudaStream_t s) {
                                                   check(launch_halve({m.x, 8, k, k, m.halves, overlap}, s), "halve");
                                                 }).median);
  }
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<DType> types;
  for (const MatvecLayout& layout : matvec_layouts())
    for (int i = 1; i < std::max(argc, 2); ++i)
      if (has_columns(layout.dtype) && (argc == 1 || dtype_name(layout.dtype) == argv[i]))
        types.push_back(layout.dtype);
  for (const auto& [n_rows, k] : {std::pair<int64_t, int64_t>{4096, 14336}, {28672, 4096}, {4096, 4096}, {1024, 4096}})
    bench_shape(n_rows, k, types);
  for (const DType type : {DType::nvfp4, DType::q4_0, DType::q8_0})
    for (const int n_cols : {1, 8}) bench_group(type, n_cols);
  bench_halve();
  return 0;
}
