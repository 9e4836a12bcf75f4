// What all tiles share: the columns they read, scalar loads, prefetch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "backend/cpu/matmul/formats.h"

namespace tokamak::cpu {
namespace {

// Columns [first, first + NC) of an activation panel of n_cols <= 8 columns.
struct TileColumns {
  const std::byte* panel;
  int64_t n_cols, first;
};

// The columns of a tile as seen by its kernel. Layers that handle 8 columns at once always see whole panels: then the
// panel's width is a constant and all addresses are immediate offsets.
template <class V, int NC>
class TilePosition {
 public:
  explicit TilePosition(const TileColumns& a) : n_cols_(a.n_cols), first_(a.first) {}
  int64_t n_cols() const { return kWhole ? NC : n_cols_; }
  int64_t first() const { return kWhole ? 0 : first_; }

 private:
  static constexpr bool kWhole = V::kMaxCols == kPanelCols;
  int64_t n_cols_, first_;
};

template <class T>
[[gnu::always_inline]] inline T load_scalar(const std::byte* p) {
  T x;
  std::memcpy(&x, p, sizeof x);
  return x;
}

// The same pointer, of which the compiler knows nothing: loads through it are repeated instead of kept in registers.
[[gnu::always_inline]] inline const std::byte* opaque(const std::byte* p) {
  asm volatile("" : "+r"(p));
  return p;
}

// The hardware follows the stream by itself for few columns; from 4 on it needs help.
// May point past the end of the weights: a prefetch never faults.
template <int NC, int kBytes>
[[gnu::always_inline]] inline void prefetch_chunk(const std::byte* w) {
  if constexpr (NC >= 4) {
    const auto ahead = reinterpret_cast<uintptr_t>(w) + 4096;
#pragma GCC unroll 64
    for (int i = 0; i < kBytes; i += 64)
      __builtin_prefetch(reinterpret_cast<const void*>(ahead + static_cast<uintptr_t>(i)));
  }
}

}  // namespace
}  // namespace tokamak::cpu
