// Operands in shared memory of a warpgroup's products (wgmma.cuh), as numbers that say where they lie.
//
// They lie in panels: [rows][128 bytes] that begin at multiples of 1024 bytes, 16-byte chunk c of row r at c ^ (r % 8).
// Source: PTX ISA 9.0, 9.7.15.5.1 "Shared memory matrix layout", matrix descriptor.
#pragma once

#include <cstdint>

namespace tokamak::cuda::ptx {

// What is summed over lies along the rows; advance by 32 bytes per 16 elements.
__device__ __forceinline__ uint64_t rows_operand(uint32_t at) {
  return uint64_t{at >> 4 & 0x3FFF} | uint64_t{1} << 16 | uint64_t{1024 >> 4} << 32 | uint64_t{1} << 62;
}
// The panel's rows are summed over, 64 columns lie along each, further panels `panel_bytes` apart; advance by 2048
// bytes per 16 rows.
__device__ __forceinline__ uint64_t columns_operand(uint32_t at, uint32_t panel_bytes) {
  return uint64_t{at >> 4 & 0x3FFF} | uint64_t{panel_bytes >> 4} << 16 | uint64_t{1024 >> 4} << 32 | uint64_t{1} << 62;
}
__device__ __forceinline__ uint64_t advanced(uint64_t operand, uint32_t n_bytes) { return operand + (n_bytes >> 4); }

}  // namespace tokamak::cuda::ptx
