// How weights and activations lie in memory for the matmul kernels. One row per packed weight format.
//
// Weights: a panel is 16 rows; all panels of a matrix follow each other, and a panel is one sequential stream of
// chunks (16 rows x chunk_k), scales inside. A "code vector" V is 64 bytes: dword r holds four consecutive k of row r,
// usually the file's own quant dword. Rows past n_rows and k past the end have zero scales.
//
// Activations: panels of up to 8 columns; a panel of n columns starts at first_column * activation_bytes(kind, 1, k).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "tensor/dtypes.h"

namespace tokamak::cpu {

inline constexpr int kPanelRows = 16;
inline constexpr int kPanelCols = 8;

enum class ActivationKind : uint8_t { f32, int8_group32, int8_group256 };

// A block of n columns, bytes in order:
//   f32            n f32 values of one k
//   int8_group32   [n][32] int8 codes, [n] f32 d, [n] f32 d * sum, then int32 [n] -8 * sum, [n] -16 * sum,
//                  [n] -128 * sum: the start values of the integer sums of offset codes. sum = sum of the 32 codes
//   int8_group256  8 x [n][32] int8 codes, 16 x [n] int32 -32 * (sum of 16 codes), [n][16] int8: sum of 32 codes of
//                  the 8 runs, low 7 bits (sum & 127) x 8, then high bits (sum >> 7) x 8; [n] f32 d
struct ActivationFormat {
  ActivationKind kind;
  std::string_view name;
  int group_elems;  // k must be a multiple of this
  int k_align;      // zero blocks fill up to a multiple of this (a weight chunk may hold two groups)
  int block_bytes_per_col;
};

// In enum order.
inline constexpr auto kActivationFormats = std::to_array<ActivationFormat>({
    {ActivationKind::f32, "f32", 1, 1, 4},
    {ActivationKind::int8_group32, "int8_group32", 32, 64, 32 + 4 + 4 + 12},
    {ActivationKind::int8_group256, "int8_group256", 256, 256, 256 + 64 + 16 + 4},
});

constexpr const ActivationFormat& activation_format(ActivationKind kind) {
  return kActivationFormats[static_cast<size_t>(kind)];
}
constexpr int64_t activation_blocks(ActivationKind kind, int64_t k) {
  const ActivationFormat& f = activation_format(kind);
  return (k + f.k_align - 1) / f.k_align * (f.k_align / f.group_elems);
}
constexpr int64_t activation_bytes(ActivationKind kind, int64_t n_cols, int64_t k) {
  return n_cols * activation_blocks(kind, k) * activation_format(kind).block_bytes_per_col;
}

// Packs panels [panel_begin, panel_end) of `rows` (n_rows file rows, row_bytes apart) into `out`, the base of the whole
// packed matrix (64-byte aligned). Threads take disjoint panel ranges.
struct PackWeightsTask {
  const std::byte* rows = nullptr;
  size_t row_bytes = 0;
  int64_t n_rows = 0, k = 0;
  int64_t panel_begin = 0, panel_end = 0;
  std::byte* out = nullptr;
};

void pack_q8_0(const PackWeightsTask& task);
void pack_q4_0(const PackWeightsTask& task);
void pack_q4_1(const PackWeightsTask& task);
void pack_q5_0(const PackWeightsTask& task);
void pack_q5_1(const PackWeightsTask& task);
void pack_q4_k(const PackWeightsTask& task);
void pack_q5_k(const PackWeightsTask& task);
void pack_q6_k(const PackWeightsTask& task);
void pack_f16(const PackWeightsTask& task);  // bf16 too
void pack_f32(const PackWeightsTask& task);

struct PackedFormat {
  DType dtype;
  ActivationKind activation;
  int chunk_k;
  int chunk_bytes;  // of 16 rows x chunk_k
  void (*pack)(const PackWeightsTask& task);
};

// Chunk contents, bytes in order. d, m, dmin: 16 f16, one per row. H: high bits, byte i of dword r has bit q for
// element 4q + i of a run of 32.
inline constexpr auto kPackedFormats = std::to_array<PackedFormat>({
    // d, d; V[0..7], V[0..7], each byte ^ 0x80; V[j] = elements 4j..
    {DType::q8_0, ActivationKind::int8_group32, 64, 1088, pack_q8_0},
    // d, d; V[0..3], V[0..3]; low nibbles of V[t] = elements 4t.., high nibbles = 4t + 16..
    {DType::q4_0, ActivationKind::int8_group32, 64, 576, pack_q4_0},
    // d, m, V[0..3]
    {DType::q4_1, ActivationKind::int8_group32, 32, 320, pack_q4_1},
    // d, d; H, V[0..3], H, V[0..3]
    {DType::q5_0, ActivationKind::int8_group32, 64, 704, pack_q5_0},
    // d, m, H, V[0..3]
    {DType::q5_1, ActivationKind::int8_group32, 32, 384, pack_q5_1},
    // A, B, H: 6-bit scales and mins (pack_k.cpp), d, dmin; 4 runs of 64: V[0..7], low nibbles = first 32, high = rest
    {DType::q4_k, ActivationKind::int8_group256, 256, 2304, pack_q4_k},
    // as Q4_K with H (first 32), H (rest) before each V[0..7]
    {DType::q5_k, ActivationKind::int8_group256, 256, 2816, pack_q5_k},
    // 4 x 64 int8 scales (byte i of dword r of vector v: group 4v + i), d, 32 unused; 16 groups of 16: three vectors,
    // bits 0-5 = elements 0.., 4.., 8..; top bits = elements 12..: bits 0-1, 2-3, 4-5
    {DType::q6_k, ActivationKind::int8_group256, 256, 3392, pack_q6_k},
    {DType::f16, ActivationKind::f32, 1, 32, pack_f16},   // [k][16]
    {DType::bf16, ActivationKind::f32, 1, 32, pack_f16},  // [k][16]
    {DType::f32, ActivationKind::f32, 1, 64, pack_f32},   // [k][16]
});

// Row of a type, or null: such a type is "raw". Its packed form is the file's rows themselves (no copy needed), its
// activations are f32, and gemm() decodes 16 rows at a time into scratch for the F32 kernel.
constexpr const PackedFormat* find_packed_format(DType dtype) {
  for (const PackedFormat& f : kPackedFormats)
    if (f.dtype == dtype) return &f;
  return nullptr;
}
constexpr bool is_raw(DType dtype) { return find_packed_format(dtype) == nullptr; }

constexpr ActivationKind activation_kind(DType dtype) {
  return is_raw(dtype) ? ActivationKind::f32 : find_packed_format(dtype)->activation;
}
constexpr int64_t n_panels(int64_t n_rows) { return (n_rows + kPanelRows - 1) / kPanelRows; }
constexpr int64_t packed_chunks(const PackedFormat& f, int64_t k) { return (k + f.chunk_k - 1) / f.chunk_k; }
constexpr int64_t packed_panel_bytes(const PackedFormat& f, int64_t k) { return packed_chunks(f, k) * f.chunk_bytes; }

// Bytes of a packed matrix; for raw types of the file's rows.
constexpr int64_t packed_bytes(DType dtype, int64_t n_rows, int64_t k) {
  if (is_raw(dtype)) return n_rows * static_cast<int64_t>(dtype_bytes(dtype, static_cast<uint64_t>(k)));
  return n_panels(n_rows) * packed_panel_bytes(*find_packed_format(dtype), k);
}
// Packs by the type's row; raw types copy the rows.
void pack_weights(DType dtype, const PackWeightsTask& task);

}  // namespace tokamak::cpu
