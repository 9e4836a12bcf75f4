// src/backend/cuda/ptx/mma.cuh, emulated.
#pragma once

#include <cstdint>

#include "backend/cuda/emulator/matrix.h"

namespace tokamak::cuda::ptx {

inline void load_matrices(uint32_t (&out)[4], uint32_t at) { emulator::load_matrices(out, at, false); }
inline void load_transposed(uint32_t (&out)[4], uint32_t at) { emulator::load_matrices(out, at, true); }
inline uint32_t transpose(uint32_t x) { return emulator::transpose(x); }
inline void multiply_f16(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  emulator::multiply(c, a, {b0, b1}, emulator::half_to_float);
}
inline void multiply_bf16(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  emulator::multiply(c, a, {b0, b1}, emulator::bfloat_to_float);
}

}  // namespace tokamak::cuda::ptx
