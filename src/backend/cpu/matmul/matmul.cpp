#include "backend/cpu/matmul/matmul.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <cstring>
#include <vector>

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
    const float* x = t.x + (t.x_rows == nullptr ? col : t.x_rows[col]) * t.x_stride_elems;
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

// The task of panels [begin, end) alone, on weights in scratch.
GemmTask task_of_panels(const GemmTask& t, int64_t begin, int64_t end, const void* weights, const void* up) {
  const int64_t row = begin * kPanelRows;
  GemmTask part = t;
  part.weights = static_cast<const std::byte*>(weights);
  if (t.up != nullptr) part.up = static_cast<const std::byte*>(up);
  part.n_rows = t.n_rows - row;
  part.panel_begin = 0;
  part.panel_end = end - begin;
  part.y += row;
  Epilogue& e = part.epilogue;
  if (e.bias != nullptr) e.bias += row;
  if (e.up_bias != nullptr) e.up_bias += row;
  if (e.residual != nullptr) e.residual += row;
  return part;
}

void gemm_raw(const GemmKernel& kernel, DType dtype, const GemmTask& t) {
  CHECK(t.scratch != nullptr, dtype_name(dtype));
  const RawScratch scratch = split_scratch(t.scratch, t.k);
  for (int64_t p = t.panel_begin; p < t.panel_end; ++p) {
    decode_panel(dtype, t.weights, t, p, scratch.row, scratch.panel);
    if (t.up != nullptr) decode_panel(dtype, t.up, t, p, scratch.row, scratch.up_panel);
    kernel.run(task_of_panels(t, p, p + 1, scratch.panel, scratch.up_panel));
  }
}

// Panels of one matrix that are expanded together: they share an activation panel while it is in the level-1 cache,
// and all of them stay in the level-2 cache.
int64_t expanded_panels(const ExpandedFormat& format, int64_t k) {
  constexpr int64_t kGroupBytes = 256 << 10;
  return std::max<int64_t>(1, kGroupBytes / std::max<int64_t>(1, expanded_panel_bytes(format, k)));
}

void expand_panels(const ExpandedFormat& format, const std::byte* rows, const GemmTask& t, int64_t begin, int64_t end,
                   std::byte* out) {
  const auto row_bytes = static_cast<int64_t>(dtype_bytes(format.dtype, static_cast<uint64_t>(t.k)));
  for (int64_t p = begin; p < end; ++p, out += expanded_panel_bytes(format, t.k))
    format.expand({rows + p * kPanelRows * row_bytes, row_bytes,
                   std::min<int64_t>(kPanelRows, t.n_rows - p * kPanelRows), t.k, out});
}

void gemm_expanded(const GemmKernel& kernel, const ExpandedFormat& format, const GemmTask& t) {
  CHECK(t.scratch != nullptr, kernel.name);
  const int64_t group = expanded_panels(format, t.k);
  std::byte *panels = t.scratch, *up_panels = t.scratch + group * expanded_panel_bytes(format, t.k);
  for (int64_t begin = t.panel_begin; begin < t.panel_end; begin += group) {
    const int64_t end = std::min(t.panel_end, begin + group);
    expand_panels(format, t.weights, t, begin, end, panels);
    if (t.up != nullptr) expand_panels(format, t.up, t, begin, end, up_panels);
    kernel.run(task_of_panels(t, begin, end, panels, up_panels));
  }
}

std::vector<GemmKernel> make_kernel_table() {
  std::vector<GemmKernel> rows;
  for (const KernelIsa& row : kKernelIsas)
    for (const KernelFamily& family : row.families)
      for (const GemmTile& tile : family.tiles()) {
        std::string name =
            fmt::format("gemm_{}_{}{}_{}", dtype_name(tile.dtype),
                        family.activation == ActivationKind::int16 ? "i16_" : "", row.shape, isa_name(row.isa));
        for (char& c : name) c = static_cast<char>(std::tolower(c));
        rows.push_back({std::move(name), tile.dtype, family.activation, row.isa, tile.run});
      }
  return rows;
}

}  // namespace

void pack_activations(ActivationKind kind, Isa isa, const PackActivationsTask& t) {
  CHECK(t.k % activation_format(kind).group_elems == 0, t.k);
  CHECK(t.col_begin >= 0 && t.col_end <= t.n_cols, t.col_begin, t.col_end, t.n_cols);
  if (kind == ActivationKind::f32) return pack_f32_activations(t);
  switch (isa) {
#if defined(__x86_64__)
    case Isa::avx512:
      return pack_integer_activations<Isa::avx512>(kind, t);
    case Isa::avx2:
      return pack_integer_activations<Isa::avx2>(kind, t);
#elif defined(__aarch64__)
    case Isa::neon:
      return pack_integer_activations<Isa::neon>(kind, t);
#endif
    default:
      return pack_integer_activations<Isa::scalar>(kind, t);
  }
}

void pack_weights(DType dtype, const PackWeightsTask& t) {
  if (const PackedFormat* format = find_packed_format(dtype)) return format->pack(t);
  const size_t n_bytes = dtype_bytes(dtype, static_cast<uint64_t>(t.k));
  for (int64_t r = t.panel_begin * kPanelRows; r < std::min(t.n_rows, t.panel_end * kPanelRows); ++r)
    std::memcpy(t.out + static_cast<size_t>(r) * n_bytes, t.rows + static_cast<size_t>(r) * t.row_bytes, n_bytes);
}

std::span<const GemmKernel> gemm_kernels() {
  static const std::vector<GemmKernel> rows = make_kernel_table();
  return rows;
}

const GemmKernel& select_gemm_kernel(DType dtype, ActivationKind integer, Isa isa) {
  CHECK(isa_available(isa), isa_name(isa));
  const DType packed = has_kernels(dtype) ? dtype : DType::f32;
  const ActivationKind activation = activation_kind(packed, integer);
  for (const GemmKernel& row : gemm_kernels())
    if (row.dtype == packed && row.activation == activation && (row.isa == isa || row.isa == Isa::scalar)) return row;
  CHECK(false, dtype_name(dtype));  // every packed format has scalar tiles (a test looks)
  std::abort();
}

size_t gemm_scratch_bytes(DType dtype, int64_t k, bool with_up) {
  const int64_t n = with_up ? 2 : 1;
  if (const ExpandedFormat* format = find_expanded_format(dtype))
    return static_cast<size_t>(n * expanded_panels(*format, k) * expanded_panel_bytes(*format, k));
  return is_raw(dtype) ? static_cast<size_t>(align64(4 * k) + 64 * k * n) : 0;
}

void gemm(const GemmKernel& kernel, DType dtype, const GemmTask& t) {
  CHECK(t.panel_begin >= 0 && t.panel_end <= n_panels(t.n_rows), t.panel_begin, t.panel_end, t.n_rows);
  CHECK(t.k % dtype_row(dtype).block_elems == 0, t.k, dtype_name(dtype));
  if (!has_kernels(dtype)) return gemm_raw(kernel, dtype, t);
  CHECK(kernel.dtype == dtype, kernel.name, dtype_name(dtype));
  if (const ExpandedFormat* format = find_expanded_format(dtype)) return gemm_expanded(kernel, *format, t);
  kernel.run(t);
}

}  // namespace tokamak::cpu
