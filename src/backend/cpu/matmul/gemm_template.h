// The loops around a tile and its epilogue, compiled once per weight type and instruction set.
#pragma once

#include <utility>

#include "backend/cpu/matmul/kernel_functions.h"
#include "backend/cpu/matmul/math_template.h"
#include "backend/cpu/matmul/tile_common.h"

namespace tokamak::cpu {
namespace {

// sums[c][r] of one 16-row panel.
template <class V, class W, int NC>
[[gnu::noinline]] void compute_tile(const std::byte* w, const TileColumns& columns, int64_t n_chunks, float* sums) {
  typename V::F f[NC];
#pragma GCC unroll 8
  for (int c = 0; c < NC; ++c) f[c] = V::zero();
  W::template run<NC>(w, columns, n_chunks, f);
#pragma GCC unroll 8
  for (int c = 0; c < NC; ++c) V::store(sums + 16 * c, f[c]);
}

template <class V, class W>
struct Tiles {
  using Function = void (*)(const std::byte*, const TileColumns&, int64_t, float*);
  template <int... i>
  static constexpr std::array<Function, sizeof...(i)> make(std::integer_sequence<int, i...>) {
    return {compute_tile<V, W, i + 1>...};
  }
  static constexpr auto kByColumns = make(std::make_integer_sequence<int, V::kMaxCols>{});  // [NC - 1]
};

// All columns of one activation panel.
template <class V, class W>
inline void compute_columns(const std::byte* w, const std::byte* panel, int64_t n_cols, int64_t n_chunks, float* sums) {
  for (int64_t first = 0; first < n_cols; first += V::kMaxCols) {
    const int64_t n = n_cols - first < V::kMaxCols ? n_cols - first : V::kMaxCols;
    Tiles<V, W>::kByColumns[static_cast<size_t>(n - 1)](w, {panel, n_cols, first}, n_chunks, sums + 16 * first);
  }
}

// 16 values of a row vector; lanes past n are 0.
template <class V>
inline typename V::F load_rows(const float* p, int64_t n) {
  if (n >= kPanelRows) return V::load(p);
  float buffer[kPanelRows] = {};
  std::memcpy(buffer, p, static_cast<size_t>(n) * sizeof(float));
  return V::load(buffer);
}

template <class V>
inline void store_rows(float* p, int64_t n, const typename V::F& x) {
  if (n >= kPanelRows) return V::store(p, x);
  float buffer[kPanelRows];
  V::store(buffer, x);
  std::memcpy(p, buffer, static_cast<size_t>(n) * sizeof(float));
}

template <class V>
inline typename V::F scale_and_bias(const float* sums, float scale, const float* bias, int64_t n) {
  const auto x = V::mul(V::load(sums), V::set1(scale));
  return bias == nullptr ? x : V::add(x, load_rows<V>(bias, n));
}

// act(gate) * up
template <class V>
inline typename V::F gated(const Epilogue& e, const typename V::F& gate, const typename V::F& up) {
  if (e.glu != GemmGlu::swiglu_oai) return V::mul(glu_activation<V>(e.glu, gate), up);
  const auto limit = V::set1(e.limit), g = V::min(limit, gate);
  const auto u = V::max(V::sub(V::zero(), limit), V::min(limit, up));
  return V::mul(times_sigmoid<V>(g, V::mul(V::set1(e.alpha), g)), V::add(u, V::set1(1.0f)));
}

// y of one panel (rows from `row` on) and n_cols columns from `col` on.
template <class V>
inline void finish_tile(const GemmTask& t, int64_t row, int64_t col, int64_t n_cols, const float* sums,
                        const float* up_sums) {
  const Epilogue& e = t.epilogue;
  const int64_t n = t.n_rows - row < kPanelRows ? t.n_rows - row : kPanelRows;
  for (int64_t c = 0; c < n_cols; ++c) {
    const int64_t y_col = t.y_cols == nullptr ? col + c : t.y_cols[col + c];
    auto x = scale_and_bias<V>(sums + 16 * c, e.scale, e.bias == nullptr ? nullptr : e.bias + row, n);
    if (t.up != nullptr) {
      const auto up =
          scale_and_bias<V>(up_sums + 16 * c, e.up_scale, e.up_bias == nullptr ? nullptr : e.up_bias + row, n);
      x = gated<V>(e, x, up);
    }
    if (e.residual != nullptr) x = V::add(x, load_rows<V>(e.residual + y_col * e.residual_stride_elems + row, n));
    store_rows<V>(t.y + y_col * t.y_stride_elems + row, n, x);
  }
}

// Panels [begin, end) and the columns of one activation panel.
template <class V, class W>
inline void compute_panels(const GemmTask& t, int64_t begin, int64_t end, int64_t col) {
  const int64_t n_chunks = packed_chunks(W::kFormat, t.k), panel_bytes = packed_panel_bytes(W::kFormat, t.k);
  const int64_t n_cols = t.n_cols - col < kPanelCols ? t.n_cols - col : kPanelCols;
  const std::byte* panel = t.activations + col * activation_bytes(W::kActivation, 1, t.k);
  alignas(64) float sums[kPanelCols * kPanelRows], up_sums[kPanelCols * kPanelRows];
  for (int64_t p = begin; p < end; ++p) {
    compute_columns<V, W>(t.weights + p * panel_bytes, panel, n_cols, n_chunks, sums);
    if (t.up != nullptr) compute_columns<V, W>(t.up + p * panel_bytes, panel, n_cols, n_chunks, up_sums);
    finish_tile<V>(t, p * kPanelRows, col, n_cols, sums, up_sums);
  }
}

// Weights go through in groups of panels that fit into half a level-2 cache: a group is read from memory once, and
// an activation panel serves the whole group before the next one is fetched.
template <class V, class W>
void run_gemm(const GemmTask& t) {
  constexpr int64_t kGroupBytes = 256 << 10;
  const int64_t panel_bytes = packed_panel_bytes(W::kFormat, t.k) * (t.up == nullptr ? 1 : 2);
  const int64_t group = panel_bytes >= kGroupBytes ? 1 : kGroupBytes / (panel_bytes > 0 ? panel_bytes : 1);
  for (int64_t begin = t.panel_begin; begin < t.panel_end; begin += group) {
    const int64_t end = t.panel_end - begin < group ? t.panel_end : begin + group;
    for (int64_t col = 0; col < t.n_cols; col += kPanelCols) compute_panels<V, W>(t, begin, end, col);
  }
}

}  // namespace
}  // namespace tokamak::cpu
