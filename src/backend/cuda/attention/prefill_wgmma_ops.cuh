// Matrix products of a warpgroup (four warps, 64 rows) and tiles copied by tensor maps: sm_90a.
//
// Operands in shared memory lie in panels: [rows][128 bytes] that begin at multiples of 1024 bytes, 16-byte chunk c of
// row r at c ^ (r % 8).
// Source: PTX ISA 9.0, "Asynchronous warpgroup level matrix instructions".
#pragma once

#include <cstdint>

namespace tokamak::cuda::prefill {

inline constexpr int kPanelRowBytes = 128, kPanelDims = 64;

// Dimensions of a panel's rows are what is summed over; advance by 32 bytes per 16 of them.
__device__ __forceinline__ uint64_t rows_operand(uint32_t at) {
  return uint64_t{at >> 4 & 0x3FFF} | uint64_t{1} << 16 | uint64_t{1024 >> 4} << 32 | uint64_t{1} << 62;
}
// The panel's rows are summed over, its dimensions are columns, further panels `panel_bytes` apart; advance by 2048
// bytes per 16 rows.
__device__ __forceinline__ uint64_t columns_operand(uint32_t at, uint32_t panel_bytes) {
  return uint64_t{at >> 4 & 0x3FFF} | uint64_t{panel_bytes >> 4} << 16 | uint64_t{1024 >> 4} << 32 | uint64_t{1} << 62;
}
__device__ __forceinline__ uint64_t advanced(uint64_t operand, uint32_t n_bytes) { return operand + (n_bytes >> 4); }

__device__ __forceinline__ void products_begin() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void products_end() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
// Until at most n_left groups are unfinished.
template <int n_left>
__device__ __forceinline__ void products_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(n_left) : "memory");
}
// Results of products are used after this point, and not moved before it.
template <int kN>
__device__ __forceinline__ void settle(float (&c)[kN][4]) {
#pragma unroll
  for (int n = 0; n < kN; ++n) asm volatile("" : "+f"(c[n][0]), "+f"(c[n][1]), "+f"(c[n][2]), "+f"(c[n][3])::"memory");
}

// c[64 x 8 n_tiles] (+)= a[64 x 16] * b[16 x ..], from c[kFirst] on; kTransposed: b is a columns_operand, else a
// rows_operand. adds = 0: c is overwritten. a: in registers, or a rows_operand.
template <int kFirst, bool kTransposed, int kN>
__device__ __forceinline__ void multiply_registers_64(float (&c)[kN][4], const uint32_t (&a)[4], uint64_t b, int adds) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %37, 0;\nwgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15,"
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
      "{%32, %33, %34, %35}, %36, p, 1, 1, %38;\n}"
      : "+f"(c[kFirst + 0][0]), "+f"(c[kFirst + 0][1]), "+f"(c[kFirst + 0][2]), "+f"(c[kFirst + 0][3]),
        "+f"(c[kFirst + 1][0]), "+f"(c[kFirst + 1][1]), "+f"(c[kFirst + 1][2]), "+f"(c[kFirst + 1][3]),
        "+f"(c[kFirst + 2][0]), "+f"(c[kFirst + 2][1]), "+f"(c[kFirst + 2][2]), "+f"(c[kFirst + 2][3]),
        "+f"(c[kFirst + 3][0]), "+f"(c[kFirst + 3][1]), "+f"(c[kFirst + 3][2]), "+f"(c[kFirst + 3][3]),
        "+f"(c[kFirst + 4][0]), "+f"(c[kFirst + 4][1]), "+f"(c[kFirst + 4][2]), "+f"(c[kFirst + 4][3]),
        "+f"(c[kFirst + 5][0]), "+f"(c[kFirst + 5][1]), "+f"(c[kFirst + 5][2]), "+f"(c[kFirst + 5][3]),
        "+f"(c[kFirst + 6][0]), "+f"(c[kFirst + 6][1]), "+f"(c[kFirst + 6][2]), "+f"(c[kFirst + 6][3]),
        "+f"(c[kFirst + 7][0]), "+f"(c[kFirst + 7][1]), "+f"(c[kFirst + 7][2]), "+f"(c[kFirst + 7][3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(adds), "n"(kTransposed ? 1 : 0)
      : "memory");
}
template <int kFirst, bool kTransposed, int kN>
__device__ __forceinline__ void multiply_registers_128(float (&c)[kN][4], const uint32_t (&a)[4], uint64_t b,
                                                       int adds) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %69, 0;\nwgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15,"
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31,"
      "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47,"
      "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
      "{%64, %65, %66, %67}, %68, p, 1, 1, %70;\n}"
      : "+f"(c[kFirst + 0][0]), "+f"(c[kFirst + 0][1]), "+f"(c[kFirst + 0][2]), "+f"(c[kFirst + 0][3]),
        "+f"(c[kFirst + 1][0]), "+f"(c[kFirst + 1][1]), "+f"(c[kFirst + 1][2]), "+f"(c[kFirst + 1][3]),
        "+f"(c[kFirst + 2][0]), "+f"(c[kFirst + 2][1]), "+f"(c[kFirst + 2][2]), "+f"(c[kFirst + 2][3]),
        "+f"(c[kFirst + 3][0]), "+f"(c[kFirst + 3][1]), "+f"(c[kFirst + 3][2]), "+f"(c[kFirst + 3][3]),
        "+f"(c[kFirst + 4][0]), "+f"(c[kFirst + 4][1]), "+f"(c[kFirst + 4][2]), "+f"(c[kFirst + 4][3]),
        "+f"(c[kFirst + 5][0]), "+f"(c[kFirst + 5][1]), "+f"(c[kFirst + 5][2]), "+f"(c[kFirst + 5][3]),
        "+f"(c[kFirst + 6][0]), "+f"(c[kFirst + 6][1]), "+f"(c[kFirst + 6][2]), "+f"(c[kFirst + 6][3]),
        "+f"(c[kFirst + 7][0]), "+f"(c[kFirst + 7][1]), "+f"(c[kFirst + 7][2]), "+f"(c[kFirst + 7][3]),
        "+f"(c[kFirst + 8][0]), "+f"(c[kFirst + 8][1]), "+f"(c[kFirst + 8][2]), "+f"(c[kFirst + 8][3]),
        "+f"(c[kFirst + 9][0]), "+f"(c[kFirst + 9][1]), "+f"(c[kFirst + 9][2]), "+f"(c[kFirst + 9][3]),
        "+f"(c[kFirst + 10][0]), "+f"(c[kFirst + 10][1]), "+f"(c[kFirst + 10][2]), "+f"(c[kFirst + 10][3]),
        "+f"(c[kFirst + 11][0]), "+f"(c[kFirst + 11][1]), "+f"(c[kFirst + 11][2]), "+f"(c[kFirst + 11][3]),
        "+f"(c[kFirst + 12][0]), "+f"(c[kFirst + 12][1]), "+f"(c[kFirst + 12][2]), "+f"(c[kFirst + 12][3]),
        "+f"(c[kFirst + 13][0]), "+f"(c[kFirst + 13][1]), "+f"(c[kFirst + 13][2]), "+f"(c[kFirst + 13][3]),
        "+f"(c[kFirst + 14][0]), "+f"(c[kFirst + 14][1]), "+f"(c[kFirst + 14][2]), "+f"(c[kFirst + 14][3]),
        "+f"(c[kFirst + 15][0]), "+f"(c[kFirst + 15][1]), "+f"(c[kFirst + 15][2]), "+f"(c[kFirst + 15][3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(adds), "n"(kTransposed ? 1 : 0)
      : "memory");
}
template <int kFirst, bool kTransposed, int kN>
__device__ __forceinline__ void multiply_shared_64(float (&c)[kN][4], uint64_t a, uint64_t b, int adds) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %34, 0;\nwgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15,"
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
      "%32, %33, p, 1, 1, 0, %35;\n}"
      : "+f"(c[kFirst + 0][0]), "+f"(c[kFirst + 0][1]), "+f"(c[kFirst + 0][2]), "+f"(c[kFirst + 0][3]),
        "+f"(c[kFirst + 1][0]), "+f"(c[kFirst + 1][1]), "+f"(c[kFirst + 1][2]), "+f"(c[kFirst + 1][3]),
        "+f"(c[kFirst + 2][0]), "+f"(c[kFirst + 2][1]), "+f"(c[kFirst + 2][2]), "+f"(c[kFirst + 2][3]),
        "+f"(c[kFirst + 3][0]), "+f"(c[kFirst + 3][1]), "+f"(c[kFirst + 3][2]), "+f"(c[kFirst + 3][3]),
        "+f"(c[kFirst + 4][0]), "+f"(c[kFirst + 4][1]), "+f"(c[kFirst + 4][2]), "+f"(c[kFirst + 4][3]),
        "+f"(c[kFirst + 5][0]), "+f"(c[kFirst + 5][1]), "+f"(c[kFirst + 5][2]), "+f"(c[kFirst + 5][3]),
        "+f"(c[kFirst + 6][0]), "+f"(c[kFirst + 6][1]), "+f"(c[kFirst + 6][2]), "+f"(c[kFirst + 6][3]),
        "+f"(c[kFirst + 7][0]), "+f"(c[kFirst + 7][1]), "+f"(c[kFirst + 7][2]), "+f"(c[kFirst + 7][3])
      : "l"(a), "l"(b), "r"(adds), "n"(kTransposed ? 1 : 0)
      : "memory");
}

// A box of a tensor map: 64 dimensions of n rows, from (first row, panel) on; counts into the barrier's phase.
__device__ __forceinline__ void copy_box(uint32_t to, const void* map, int row, int panel, uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4}], "
      "[%5];" ::"r"(to),
      "l"(map), "r"(0), "r"(row), "r"(panel), "r"(barrier)
      : "memory");
}

// Registers per thread of the warpgroup that calls.
template <int n>
__device__ __forceinline__ void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(n));
}
template <int n>
__device__ __forceinline__ void give_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(n));
}

// A barrier of n_threads of the block, apart from __syncthreads.
__device__ __forceinline__ void meet(int id, int n_threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(n_threads) : "memory");
}

}  // namespace tokamak::cuda::prefill
