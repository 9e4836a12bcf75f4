// Matrices spread over a warp, as PTX ISA 9.0, 9.7.14.5 lays them out.
#pragma once

#include <array>
#include <cstdint>

#include "backend/cuda/emulator/number.h"

namespace tokamak::cuda::emulator {

// ldmatrix.x4: lane 8 i + r names row r of matrix i.
void load_matrices(uint32_t (&out)[4], uint32_t at, bool transposed);
// movmatrix.
uint32_t transpose(uint32_t x);
// mma.m16n8k16 with sums in f32. Products are exact, their sum with c is rounded once.
void multiply(float (&c)[4], const uint32_t (&a)[4], std::array<uint32_t, 2> b, float (*decode)(uint32_t));

}  // namespace tokamak::cuda::emulator
