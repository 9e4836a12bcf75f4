#include "backend/cpu/matmul/matmul.h"

#include <algorithm>
#include <cstring>

#include "backend/cpu/matmul/kernels.h"
#include "base/check.h"
#include "quant/codec.h"

namespace tokamak::cpu {
namespace {

// [k][n] f32 per panel.
void pack_f32_activations(const PackActivationsTask& t) {
  for (int64_t col = t.col_begin; col < t.col_end; ++col) {
    const int64_t first = col / kPanelCols * kPanelCols, n_cols = std::min<int64_t>(kPanelCols, t.n_cols - first);
    float* out = reinterpret_cast<float*>(t.out) + first * t.k + (col - first);
    const float* x = t.x + col * t.x_stride_elems;
    if (n_cols == 1) {
      std::memcpy(out, x, static_cast<size_t>(t.k) * sizeof(float));
    } else {
      for (int64_t k = 0; k < t.k; ++k) out[k * n_cols] = x[k];
    }
  }
}

struct RawScratch {
  float *row, *panel, *up_panel;  // f32 [k], [k][16], [k][16]
};

constexpr int64_t align64(int64_t n_bytes) { return (n_bytes + 63) / 64 * 64; }

RawScratch split_scratch(std::byte* scratch, int64_t k) {
  return {reinterpret_cast<float*>(scratch), reinterpret_cast<float*>(scratch + align64(4 * k)),
          reinterpret_cast<float*>(scratch + align64(4 * k) + 64 * k)};
}

// Panel p of raw rows -> f32 [k][16], zero past the last row.
void decode_panel(DType dtype, const std::byte* rows, const GemmTask& t, int64_t p, float* row_buffer, float* panel) {
  const int64_t row_bytes = static_cast<int64_t>(dtype_bytes(dtype, static_cast<uint64_t>(t.k)));
  const int64_t n = std::min<int64_t>(kPanelRows, t.n_rows - p * kPanelRows);
  if (n < kPanelRows) std::fill_n(panel, kPanelRows * t.k, 0.0f);
  for (int64_t r = 0; r < n; ++r) {
    decode_row(dtype, rows + (p * kPanelRows + r) * row_bytes, t.k, row_buffer);
    for (int64_t k = 0; k < t.k; ++k) panel[k * kPanelRows + r] = row_buffer[k];
  }
}

// The task of panel p alone, on decoded f32 weights.
GemmTask one_panel_task(const GemmTask& t, int64_t p, const RawScratch& scratch) {
  const int64_t row = p * kPanelRows;
  GemmTask one = t;
  one.weights = reinterpret_cast<const std::byte*>(scratch.panel);
  if (t.up != nullptr) one.up = reinterpret_cast<const std::byte*>(scratch.up_panel);
  one.n_rows = t.n_rows - row;
  one.panel_begin = 0;
  one.panel_end = 1;
  one.y += row;
  Epilogue& e = one.epilogue;
  if (e.bias != nullptr) e.bias += row;
  if (e.up_bias != nullptr) e.up_bias += row;
  if (e.residual != nullptr) e.residual += row;
  return one;
}

void gemm_raw(const GemmKernel& kernel, DType dtype, const GemmTask& t) {
  CHECK(t.scratch != nullptr, dtype_name(dtype));
  const RawScratch scratch = split_scratch(t.scratch, t.k);
  for (int64_t p = t.panel_begin; p < t.panel_end; ++p) {
    decode_panel(dtype, t.weights, t, p, scratch.row, scratch.panel);
    if (t.up != nullptr) decode_panel(dtype, t.up, t, p, scratch.row, scratch.up_panel);
    kernel.run(one_panel_task(t, p, scratch));
  }
}

}  // namespace

void pack_activations(ActivationKind kind, Isa isa, const PackActivationsTask& t) {
  CHECK(t.k % activation_format(kind).group_elems == 0, t.k);
  CHECK(t.col_begin >= 0 && t.col_end <= t.n_cols, t.col_begin, t.col_end, t.n_cols);
  if (kind == ActivationKind::f32) return pack_f32_activations(t);
  switch (isa) {
#if defined(__x86_64__)
    case Isa::avx512:
      return pack_int8_activations<Isa::avx512>(kind, t);
    case Isa::avx2:
      return pack_int8_activations<Isa::avx2>(kind, t);
#elif defined(__aarch64__)
    case Isa::neon:
      return pack_int8_activations<Isa::neon>(kind, t);
#endif
    default:
      return pack_int8_activations<Isa::scalar>(kind, t);
  }
}

void pack_weights(DType dtype, const PackWeightsTask& t) {
  if (const PackedFormat* format = find_packed_format(dtype)) return format->pack(t);
  const size_t n_bytes = dtype_bytes(dtype, static_cast<uint64_t>(t.k));
  for (int64_t r = t.panel_begin * kPanelRows; r < std::min(t.n_rows, t.panel_end * kPanelRows); ++r)
    std::memcpy(t.out + static_cast<size_t>(r) * n_bytes, t.rows + static_cast<size_t>(r) * t.row_bytes, n_bytes);
}

std::span<const GemmKernel> gemm_kernels() { return kGemmKernels; }

const GemmKernel& select_gemm_kernel(DType dtype, Isa isa) {
  CHECK(isa_available(isa), isa_name(isa));
  const DType packed = is_raw(dtype) ? DType::f32 : dtype;
  const GemmKernel* found = nullptr;
  for (const GemmKernel& row : kGemmKernels)
    if (row.dtype == packed && (row.isa == isa || row.isa == Isa::scalar)) {
      found = &row;
      break;
    }
  return *found;  // the table's static_assert promises a scalar row
}

size_t gemm_scratch_bytes(DType dtype, int64_t k, bool with_up) {
  return is_raw(dtype) ? static_cast<size_t>(align64(4 * k) + 64 * k * (with_up ? 2 : 1)) : 0;
}

void gemm(const GemmKernel& kernel, DType dtype, const GemmTask& t) {
  CHECK(t.panel_begin >= 0 && t.panel_end <= n_panels(t.n_rows), t.panel_begin, t.panel_end, t.n_rows);
  CHECK(t.k % dtype_row(dtype).block_elems == 0, t.k, dtype_name(dtype));
  if (is_raw(dtype)) return gemm_raw(kernel, dtype, t);
  CHECK(kernel.dtype == dtype, kernel.name, dtype_name(dtype));
  kernel.run(t);
}

}  // namespace tokamak::cpu
