// Products of a warpgroup: wgmma.mma_async of f16 with sums in f32 (PTX ISA 9.0, 9.7.15).
#pragma once

#include <cstddef>
#include <cstdint>

namespace tokamak::cuda::emulator {

// All threads of the warpgroup are here.
void sync_warpgroup();

struct Operand {
  uint64_t descriptor;  // with the 128-byte swizzle
  bool transposed;      // what is summed over lies across the rows in memory
  // The half at (n, k), n below 256 and k below 16.
  float at(uint32_t n, uint32_t k) const;
};

// sums (4 for each 8 columns) = a * b [+ sums], columns below n. a: the thread's registers of it.
void multiply_registers(float* sums, int n, const uint32_t (&a)[4], Operand b, bool adds);
// The same with a in shared memory.
void multiply_shared(float* sums, int n, uint64_t a, Operand b, bool adds);
// What was begun since the last call is a group.
void products_end();
// Until at most n_left groups are unfinished.
void products_wait(size_t n_left);

}  // namespace tokamak::cuda::emulator
