// selftest of the matmul kernels: every row of the table on a few shapes.
#include <algorithm>
#include <cstring>
#include <map>
#include <tuple>

#include "backend/cpu/matmul/matmul.h"
#include "base/check.h"
#include "base/half.h"
#include "cli/selftest.h"
#include "quant/codec.h"

namespace tokamak::cli {

namespace {
using namespace cpu;

struct Size {
  int64_t n_rows, n_cols, k;
};
constexpr Size kSizes[] = {{1, 1, 256}, {37, 3, 512}, {64, 13, 256}, {16, 8, 1024}};

// 64-byte aligned bytes.
class Bytes {
 public:
  explicit Bytes(int64_t n) : storage_(static_cast<size_t>(n) + 64) {}
  std::byte* data() { return storage_.data() + (64 - reinterpret_cast<uintptr_t>(storage_.data()) % 64) % 64; }

 private:
  std::vector<std::byte> storage_;
};

// Rows as in a file.
std::vector<std::byte> make_rows(DType type, const Size& size) {
  const int64_t n = size.n_rows * size.k;
  std::vector<std::byte> rows(dtype_bytes(type, static_cast<uint64_t>(n)));
  const std::vector<float> values = random_numbers(static_cast<size_t>(n), 11);
  CHECK(encode_row(type, values.data(), n, nullptr, rows.data()).has_value(), dtype_name(type));
  return rows;
}

// What the kernels multiply with: x itself, or its integer codes times their scale (matmul.h, pack_activations).
std::vector<double> rounded_activations(ActivationKind kind, const std::vector<float>& x) {
  std::vector<double> out(x.begin(), x.end());
  if (kind == ActivationKind::f32) return out;
  const auto group = static_cast<size_t>(activation_format(kind).group_elems);
  const auto max_code = static_cast<float>(activation_format(kind).max_code);
  for (size_t begin = 0; begin < x.size(); begin += group) {
    float largest = 0;
    for (size_t i = begin; i < begin + group; ++i) largest = std::max(largest, std::fabs(x[i]));
    const float scale = largest / max_code, inverse = max_code / largest;
    for (size_t i = begin; i < begin + group; ++i) out[i] = double{scale} * std::nearbyint(x[i] * inverse);
  }
  return out;
}

// y of one kernel on one size.
std::vector<float> multiply(const GemmKernel& kernel, DType type, const Size& size, std::vector<std::byte>& rows,
                            const std::vector<float>& x) {
  const size_t row_bytes = dtype_bytes(type, static_cast<uint64_t>(size.k));
  Bytes weights(packed_bytes(type, size.n_rows, size.k));
  pack_weights(type, {rows.data(), row_bytes, size.n_rows, size.k, 0, n_panels(size.n_rows), weights.data()});
  const ActivationKind kind = kernel.activation;
  Bytes columns(activation_bytes(kind, size.n_cols, size.k));
  pack_activations(kind, kernel.isa, {x.data(), size.k, size.n_cols, size.k, 0, size.n_cols, columns.data()});
  Bytes scratch(static_cast<int64_t>(gemm_scratch_bytes(type, size.k, false)));
  std::vector<float> y(static_cast<size_t>(size.n_rows * size.n_cols));
  gemm(kernel, type,
       {.weights = weights.data(),
        .activations = columns.data(),
        .n_rows = size.n_rows,
        .n_cols = size.n_cols,
        .k = size.k,
        .panel_begin = 0,
        .panel_end = n_panels(size.n_rows),
        .y = y.data(),
        .y_stride_elems = size.n_rows,
        .scratch = scratch.data()});
  return y;
}

// n f32 steps on terms of at most three times |largest weight| * |x| (code times scale, minus a minimum).
void compare(const std::vector<float>& y, DType type, ActivationKind kind, const Size& size,
             const std::vector<std::byte>& rows, const std::vector<double>& x, ErrorMeter& meter) {
  std::vector<float> w(static_cast<size_t>(size.k));
  const size_t row_bytes = dtype_bytes(type, static_cast<uint64_t>(size.k));
  const double n_steps =
      kind == ActivationKind::f32 ? static_cast<double>(size.k) : static_cast<double>(size.k) / 16 + 8;
  for (int64_t row = 0; row < size.n_rows; ++row) {
    decode_row(type, rows.data() + static_cast<size_t>(row) * row_bytes, size.k, w.data());
    double largest = 0;
    for (float v : w) largest = std::max(largest, std::abs(double{v}));
    for (int64_t col = 0; col < size.n_cols; ++col) {
      double exact = 0, magnitude = 0;
      for (int64_t i = 0; i < size.k; ++i) {
        const double value = x[static_cast<size_t>(col * size.k + i)];
        exact += double{w[static_cast<size_t>(i)]} * value;
        magnitude += 3 * largest * std::abs(value);
      }
      meter.add(y[static_cast<size_t>(col * size.n_rows + row)], exact, n_steps * kUnit * magnitude);
    }
  }
}

class MatmulChecks {
 public:
  void check(const GemmKernel& kernel) {
    const DType type = kernel.dtype;
    CheckResult result{.name = std::string(kernel.name), .isa = std::string(isa_name(kernel.isa))};
    for (size_t i = 0; i < std::size(kSizes); ++i) {
      const Size& size = kSizes[i];
      std::vector<std::byte>& rows = rows_[{type, i}];  // encoding takes longer than all the rest
      if (rows.empty()) rows = make_rows(type, size);
      const std::vector<float> x = random_numbers(static_cast<size_t>(size.n_cols * size.k), 13);
      const std::vector<float> y = multiply(kernel, type, size, rows, x);
      compare(y, type, kernel.activation, size, rows, rounded_activations(kernel.activation, x), result.meter);
      // The scalar kernel of a type comes first and sets the bits.
      auto& bits = bits_[{type, kernel.activation, i}];
      if (bits.empty()) bits = y;
      result.same_bits &= std::memcmp(bits.data(), y.data(), y.size() * sizeof(float)) == 0;
    }
    results.push_back(std::move(result));
  }

  std::vector<CheckResult> results;

 private:
  std::map<std::pair<DType, size_t>, std::vector<std::byte>> rows_;
  std::map<std::tuple<DType, ActivationKind, size_t>, std::vector<float>> bits_;
};
}  // namespace

std::vector<CheckResult> check_matmul_kernels(const std::vector<Isa>& isas) {
  MatmulChecks checks;
  for (Isa isa : isas)
    for (const GemmKernel& kernel : gemm_kernels())
      if (kernel.isa == isa) checks.check(kernel);
  return std::move(checks.results);
}

}  // namespace tokamak::cli
