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

// What a kernel reads on the activation side. int8: codes of 8 bits. int16: codes of 15 bits as two signed bytes,
// code = 128 * high + low, low in -64..63: twice the integer work, 128 times less rounding.
enum class ActivationKind : uint8_t { f32, int8, int16 };

// f32: n f32 values of one k (n columns of a panel).
// int8, int16: groups of 32 elements that share a scale, bytes in order:
//   [n][32] codes (int16: the high bytes), for int16 [n][32] low bytes, then the arrays of GroupArray, [n] x 4 bytes
//   each
struct ActivationFormat {
  ActivationKind kind;
  std::string_view name;
  int group_elems;  // k must be a multiple of this
  int k_align;      // zero groups fill up to a multiple of this (a weight chunk may hold several groups)
  int group_bytes_per_col;
  int max_code;  // the largest |x| of a group becomes +-max_code
};

// Numbers that go with a group: d is what a code is worth, s the sum of the 32 codes, s0 and s1 of its halves.
// Integers are the start values of integer sums of codes stored with that offset.
enum class GroupArray {
  d,           // f32
  d_s,         // f32 d * s
  minus8_s,    // int32
  minus16_s,   // int32
  minus128_s,  // int32
  minus32_s0,  // int32
  minus32_s1,  // int32
  d_s0,        // f32
  d_s1,        // f32
};
inline constexpr int kGroupElems = 32, kGroupArrays = 9, kGroupArrayBytes = 4 * kGroupArrays;

// In enum order. int16: 127 * 128, so that both bytes of the largest code fit.
inline constexpr auto kActivationFormats = std::to_array<ActivationFormat>({
    {ActivationKind::f32, "f32", 1, 1, 4, 0},
    {ActivationKind::int8, "int8", kGroupElems, 128, kGroupElems + kGroupArrayBytes, 127},
    {ActivationKind::int16, "int16", kGroupElems, 128, 2 * kGroupElems + kGroupArrayBytes, 127 * 128},
});

constexpr const ActivationFormat& activation_format(ActivationKind kind) {
  return kActivationFormats[static_cast<size_t>(kind)];
}
constexpr int64_t activation_groups(ActivationKind kind, int64_t k) {
  const ActivationFormat& f = activation_format(kind);
  return (k + f.k_align - 1) / f.k_align * (f.k_align / f.group_elems);
}
constexpr int64_t activation_bytes(ActivationKind kind, int64_t n_cols, int64_t k) {
  return n_cols * activation_groups(kind, k) * activation_format(kind).group_bytes_per_col;
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
void pack_q1_0(const PackWeightsTask& task);
void pack_q2_0(const PackWeightsTask& task);
void pack_tq1_0(const PackWeightsTask& task);
void pack_tq2_0(const PackWeightsTask& task);
void pack_q2_k(const PackWeightsTask& task);
void pack_q3_k(const PackWeightsTask& task);
void pack_mxfp4(const PackWeightsTask& task);
void pack_nvfp4(const PackWeightsTask& task);
void pack_iq4_nl(const PackWeightsTask& task);
void pack_iq4_xs(const PackWeightsTask& task);
void pack_f16(const PackWeightsTask& task);  // bf16 too
void pack_f32(const PackWeightsTask& task);

struct PackedFormat {
  DType dtype;
  bool integer;  // codes: multiplies int8 or int16 activations; otherwise f32
  int chunk_k;
  int chunk_bytes;  // of 16 rows x chunk_k
  void (*pack)(const PackWeightsTask& task);
};

// Chunk contents, bytes in order. d, m, dmin: 16 f16, one per row. H: high bits, byte i of dword r has bit q for
// element 4q + i of a run of 32.
inline constexpr auto kPackedFormats = std::to_array<PackedFormat>({
    // d, d; V[0..7], V[0..7], each byte ^ 0x80; V[j] = elements 4j..
    {DType::q8_0, true, 64, 1088, pack_q8_0},
    // d, d; V[0..3], V[0..3]; low nibbles of V[t] = elements 4t.., high nibbles = 4t + 16..
    {DType::q4_0, true, 64, 576, pack_q4_0},
    // d, m, V[0..3]
    {DType::q4_1, true, 32, 320, pack_q4_1},
    // d, d; H, V[0..3], H, V[0..3]
    {DType::q5_0, true, 64, 704, pack_q5_0},
    // d, m, H, V[0..3]
    {DType::q5_1, true, 32, 384, pack_q5_1},
    // A, B, H: 6-bit scales and mins (pack_k.cpp), d, dmin; 4 runs of 64: V[0..7], low nibbles = first 32, high = rest
    {DType::q4_k, true, 256, 2304, pack_q4_k},
    // as Q4_K with H (first 32), H (rest) before each V[0..7]
    {DType::q5_k, true, 256, 2816, pack_q5_k},
    // 4 x 64 int8 scales (byte i of dword r of vector v: group 4v + i), d, 32 unused; 16 groups of 16: three vectors,
    // bits 0-5 = elements 0.., 4.., 8..; top bits = elements 12..: bits 0-1, 2-3, 4-5
    {DType::q6_k, true, 256, 3392, pack_q6_k},
    // V[0..3], d; bit q of V[b] = quad q of run b of 32
    {DType::q1_0, true, 128, 288, pack_q1_0},
    // d, d; V[0..7]: field p (two bits) of V[t] = elements 32p + 4t.. of 128
    {DType::q2_0, true, 128, 576, pack_q2_0},
    // V[0..7], V[0..7] as in Q2_0, d. TQ1_0 becomes TQ2_0: 1.22 times its size in the file
    {DType::tq1_0, true, 256, 1056, pack_tq1_0},
    {DType::tq2_0, true, 256, 1056, pack_tq2_0},
    // 4 vectors of scale (low nibble) and min: byte i of dword r of vector v: group 4v + i of 16; d, dmin; 4 runs of
    // 64:
    // V[0..3], field q of V[t] = elements 16t + 4q..
    {DType::q2_k, true, 256, 1344, pack_q2_k},
    // 3 vectors of scales as in the file, the top bit of each flipped; 4 runs of 64: H (first 32), H (rest), V[0..3] as
    // in Q2_K; d
    {DType::q3_k, true, 256, 1760, pack_q3_k},
    // 4 x 16 E8M0 scales; 4 x V[0..3] as in Q4_0
    {DType::mxfp4, true, 128, 1088, pack_mxfp4},
    // 4 x 16 UE4M3 scales; 4 x V[0..1]: low nibbles of V[t] = elements 4t.. of 16, high nibbles = 4t + 8..
    {DType::nvfp4, true, 64, 576, pack_nvfp4},
    // as Q4_0
    {DType::iq4_nl, true, 64, 576, pack_iq4_nl},
    // 2 x 64 int8 scales (byte i of dword r of vector v: group 4v + i), d; 8 x V[0..3] as in Q4_0
    {DType::iq4_xs, true, 256, 2208, pack_iq4_xs},
    {DType::f16, false, 1, 32, pack_f16},   // [k][16]
    {DType::bf16, false, 1, 32, pack_f16},  // [k][16]
    {DType::f32, false, 1, 64, pack_f32},   // [k][16]
});

// Expands up to 16 file rows of k weights into one panel of chunks of 32: `scales` x 16 f32, V[0..7], each byte
// 128 + code. Rows past n_rows have zero scales.
struct ExpandTask {
  const std::byte* rows = nullptr;
  int64_t row_bytes = 0;
  int64_t n_rows = 0, k = 0;
  std::byte* out = nullptr;
};

void expand_iq2_xxs(const ExpandTask& task);
void expand_iq2_xs(const ExpandTask& task);
void expand_iq2_s(const ExpandTask& task);
void expand_iq3_xxs(const ExpandTask& task);
void expand_iq3_s(const ExpandTask& task);
void expand_iq1_s(const ExpandTask& task);
void expand_iq1_m(const ExpandTask& task);

// Codebook types stay as they are in the file (packed codes would be 1.3 to 5 times as large): gemm() expands some
// panels at a time into scratch, for all columns.
struct ExpandedFormat {
  DType dtype;
  int scales;  // per 32 codes: 1 or 2
  void (*expand)(const ExpandTask& task);
};
inline constexpr auto kExpandedFormats = std::to_array<ExpandedFormat>({
    {DType::iq2_xxs, 1, expand_iq2_xxs},
    {DType::iq2_xs, 2, expand_iq2_xs},
    {DType::iq2_s, 2, expand_iq2_s},
    {DType::iq3_xxs, 1, expand_iq3_xxs},
    {DType::iq3_s, 1, expand_iq3_s},
    {DType::iq1_s, 1, expand_iq1_s},
    {DType::iq1_m, 2, expand_iq1_m},
});
constexpr PackedFormat expanded_chunks(int scales) { return {DType::i8, true, 32, 64 * scales + 512, nullptr}; }

template <class Row, size_t n>
constexpr const Row* find_format(const std::array<Row, n>& rows, DType dtype) {
  for (const Row& f : rows)
    if (f.dtype == dtype) return &f;
  return nullptr;
}
constexpr const PackedFormat* find_packed_format(DType dtype) { return find_format(kPackedFormats, dtype); }
constexpr const ExpandedFormat* find_expanded_format(DType dtype) { return find_format(kExpandedFormats, dtype); }

// A raw type's packed form is the file's rows themselves (no copy needed). Raw types without an expanded form have no
// kernels: their activations are f32, and gemm() decodes 16 rows at a time into scratch for the F32 kernel.
constexpr bool is_raw(DType dtype) { return find_packed_format(dtype) == nullptr; }
constexpr bool has_kernels(DType dtype) { return !is_raw(dtype) || find_expanded_format(dtype) != nullptr; }

// What multiplications with weights of this type read when the user wants `integer` (int8 or int16) activations.
constexpr ActivationKind activation_kind(DType dtype, ActivationKind integer) {
  return has_kernels(dtype) && (is_raw(dtype) || find_packed_format(dtype)->integer) ? integer : ActivationKind::f32;
}
constexpr int64_t n_panels(int64_t n_rows) { return (n_rows + kPanelRows - 1) / kPanelRows; }
constexpr int64_t packed_chunks(const PackedFormat& f, int64_t k) { return (k + f.chunk_k - 1) / f.chunk_k; }
constexpr int64_t packed_panel_bytes(const PackedFormat& f, int64_t k) { return packed_chunks(f, k) * f.chunk_bytes; }

// Bytes of a packed matrix; for raw types of the file's rows.
constexpr int64_t packed_bytes(DType dtype, int64_t n_rows, int64_t k) {
  if (is_raw(dtype)) return n_rows * static_cast<int64_t>(dtype_bytes(dtype, static_cast<uint64_t>(k)));
  return n_panels(n_rows) * packed_panel_bytes(*find_packed_format(dtype), k);
}
// Of a panel in scratch.
constexpr int64_t expanded_panel_bytes(const ExpandedFormat& f, int64_t k) {
  return packed_panel_bytes(expanded_chunks(f.scales), k);
}
// Packs by the type's row; raw types copy the rows.
void pack_weights(DType dtype, const PackWeightsTask& task);

}  // namespace tokamak::cpu
