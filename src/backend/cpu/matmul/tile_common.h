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

template <class T>
[[gnu::always_inline]] inline T load_scalar(const std::byte* p) {
  T x;
  std::memcpy(&x, p, sizeof x);
  return x;
}

// The hardware follows the stream by itself for few columns; from 4 on it needs help (facts/cpu_kernels.md, 5).
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
