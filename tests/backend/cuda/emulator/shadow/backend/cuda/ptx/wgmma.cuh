// src/backend/cuda/ptx/wgmma.cuh, emulated. Products are made at once or, in ascending order, when they are waited for.
#pragma once

#include <cstdint>

#include "backend/cuda/emulator/warpgroup.h"
#include "backend/cuda/ptx/operand.cuh"

#define TOKAMAK_HAS_WGMMA 1

namespace tokamak::cuda::ptx {

template <int n>
void take_registers() {
  emulator::sync_warpgroup();
}
template <int n>
void give_registers() {
  emulator::sync_warpgroup();
}
inline void products_begin() { emulator::sync_warpgroup(); }
inline void products_end() { emulator::products_end(); }
template <int n_left>
void products_wait() {
  emulator::products_wait(n_left);
}
template <int kN>
void settle(float (&)[kN][4]) {}

template <int kFirst, bool kTransposed, int kN>
void multiply_registers_64(float (&c)[kN][4], const uint32_t (&a)[4], uint64_t b, int adds) {
  emulator::multiply_registers(c[kFirst], 64, a, {b, kTransposed}, adds != 0);
}
template <int kFirst, bool kTransposed, int kN>
void multiply_registers_128(float (&c)[kN][4], const uint32_t (&a)[4], uint64_t b, int adds) {
  emulator::multiply_registers(c[kFirst], 128, a, {b, kTransposed}, adds != 0);
}
template <int kFirst, bool kTransposed, int kN>
void multiply_shared_64(float (&c)[kN][4], uint64_t a, uint64_t b, int adds) {
  emulator::multiply_shared(c[kFirst], 64, a, {b, kTransposed}, adds != 0);
}
template <int n>
void multiply_columns(float (&sum)[n / 2], uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3, uint64_t b) {
  emulator::multiply_registers(sum, n, {a0, a1, a2, a3}, {b, false}, true);
}

}  // namespace tokamak::cuda::ptx
