// One weight out of a packed matrix, for the GPU and (for tests) the host: the value that the dequantizer of src/quant
// gives, in the same operations where the layout allows.
#pragma once

#include "backend/cuda/matvec/geometry.h"
#include "backend/cuda/matvec/types_grid.h"
#include "backend/cuda/matvec/types_k.h"
#include "backend/cuda/matvec/types_plain.h"
#include "tensor/dtypes.h"

namespace tokamak::cuda {

// Calls f with a value of the type struct of `dtype`; false: it has no layout.
template <class F>
bool with_packed_type(DType dtype, F&& f) {
  switch (dtype) {
    // clang-format off
    case DType::f32: return f(F32{}), true;
    case DType::f16: return f(F16{}), true;
    case DType::bf16: return f(BF16{}), true;
    case DType::q4_0: return f(Q4_0{}), true;
    case DType::q4_1: return f(Q4_1{}), true;
    case DType::q5_0: return f(Q5_0{}), true;
    case DType::q5_1: return f(Q5_1{}), true;
    case DType::q8_0: return f(Q8_0{}), true;
    case DType::mxfp4: return f(MXFP4{}), true;
    case DType::nvfp4: return f(NVFP4{}), true;
    case DType::iq4_nl: return f(IQ4_NL{}), true;
    case DType::iq4_xs: return f(IQ4_XS{}), true;
    case DType::q2_k: return f(Q2_K{}), true;
    case DType::q3_k: return f(Q3_K{}), true;
    case DType::q4_k: return f(Q4_K{}), true;
    case DType::q5_k: return f(Q5_K{}), true;
    case DType::q6_k: return f(Q6_K{}), true;
    case DType::q1_0: return f(Q1_0{}), true;
    case DType::q2_0: return f(Q2_0{}), true;
    case DType::tq1_0:
    case DType::tq2_0: return f(TQ2_0{}), true;
    case DType::iq2_xxs: return f(IQ2_XXS{}), true;
    case DType::iq2_xs: return f(IQ2_XS{}), true;
    case DType::iq2_s: return f(IQ2_S{}), true;
    case DType::iq3_xxs: return f(IQ3_XXS{}), true;
    case DType::iq3_s: return f(IQ3_S{}), true;
    case DType::iq1_s: return f(IQ1_S{}), true;
    case DType::iq1_m: return f(IQ1_M{}), true;
    default: return false;
      // clang-format on
  }
}

// Word i of a few: an index that the compiler does not know would put them into memory.
template <int n>
TOKAMAK_HD uint32_t pick_word(const uint32_t (&w)[n], int i) {
  uint32_t out = w[0];
  for (int j = 1; j < n; ++j) out = i == j ? w[j] : out;
  return out;
}

// q: the code less its offset; half: which 16 weights of the unit.
TOKAMAK_HD float scaled(const UnitD& u, float q, int, float factor) { return u.d * factor * q; }
TOKAMAK_HD float scaled(const UnitDM& u, float q, int, float factor) { return (u.d * q + u.m) * factor; }
TOKAMAK_HD float scaled(const UnitD2& u, float q, int half, float factor) { return (half ? u.d1 : u.d0) * factor * q; }
TOKAMAK_HD float scaled(const UnitDM2& u, float q, int half, float factor) {
  return ((half ? u.d1 : u.d0) * q + (half ? u.m1 : u.m0)) * factor;
}

// Weight i of a decoded unit.
template <class P>
TOKAMAK_HD float element_of(const typename P::Decoded& u, int i) {
  if constexpr (P::kQuantized) {
    const uint32_t byte = pick_word(u.w, i / 4) >> (8 * (i % 4)) & 255;
    int code = P::kSigned ? static_cast<int8_t>(byte) : static_cast<int>(byte);
    if (P::kHigh16 && i >= 16) code >>= 4;
    return scaled(u, static_cast<float>(code - P::kOffset), i / 16, P::kFactor);
  } else {
    constexpr int kPerPart = 16 * static_cast<int>(sizeof(Words<4>)) / static_cast<int>(sizeof(u.c));
    const Words<4>& part = u.c.part[i / kPerPart];
    const int at = i % kPerPart;
    if constexpr (kPerPart == 4) return as_float(pick_word(part.w, at));
    const uint32_t word = pick_word(part.w, at / 2);
    return at % 2 ? P::high(word) : P::low(word);
  }
}

// Weight [row, col] of the matrix at `packed` (with the type's table in front).
template <class P>
TOKAMAK_HD float packed_element(const uint8_t* packed, const Geometry& g, int64_t row, int64_t col) {
  const int unit_idx = static_cast<int>(col / P::kUnit), slice = unit_idx / kSliceUnits;
  const int in_block = static_cast<int>(row % P::kRows);
  const uint8_t* tile =
      packed + P::kTableBytes + row / P::kRows * g.row_block_bytes + static_cast<int64_t>(slice) * g.tile_bytes;
  const Unit unit = make_unit<P>(tile, unit_idx % kSliceUnits, slice + 1 == g.n_slices ? g.last_units : kSliceUnits);
  const Lookup lookup{reinterpret_cast<const uint32_t*>(packed), 0};
  const auto scales = P::prepare(P::load_scales(unit));
  const auto decoded = decode_unit<P>(P::load_codes(unit, in_block), scales, in_block, lookup);
  return element_of<P>(decoded, static_cast<int>(col % P::kUnit));
}

}  // namespace tokamak::cuda
