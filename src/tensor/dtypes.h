// The tensor types: ids are GGUF's. One row per type; everything else about a type is derived from its row.
// Source: the GGUF specification and the `gguf` Python package (constants.py); block layouts are documented beside
// their decoders in quant/.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/result.h"

namespace tokamak {

enum class DType : uint8_t {
  f32 = 0,
  f16 = 1,
  q4_0 = 2,
  q4_1 = 3,
  q5_0 = 6,
  q5_1 = 7,
  q8_0 = 8,
  q8_1 = 9,
  q2_k = 10,
  q3_k = 11,
  q4_k = 12,
  q5_k = 13,
  q6_k = 14,
  q8_k = 15,
  iq2_xxs = 16,
  iq2_xs = 17,
  iq3_xxs = 18,
  iq1_s = 19,
  iq4_nl = 20,
  iq3_s = 21,
  iq2_s = 22,
  iq4_xs = 23,
  i8 = 24,
  i16 = 25,
  i32 = 26,
  i64 = 27,
  f64 = 28,
  iq1_m = 29,
  bf16 = 30,
  tq1_0 = 34,
  tq2_0 = 35,
  mxfp4 = 39,
  nvfp4 = 40,
  q1_0 = 41,
  q2_0 = 42,
  f8_e4m3 = 0xF8,  // of caches only: no file has it
};

enum class Imatrix : uint8_t { none, optional, required };

struct DTypeRow {
  DType id;
  std::string_view name;
  uint16_t block_elems, block_bytes;
  DType activation;  // what the CPU dot product pairs it with
  Imatrix imatrix;
  std::string_view formula;
};

inline constexpr auto kDTypes = std::to_array<DTypeRow>({
    {DType::f32, "F32", 1, 4, DType::f32, Imatrix::none, "x"},
    {DType::f16, "F16", 1, 2, DType::f16, Imatrix::none, "x"},
    {DType::q4_0, "Q4_0", 32, 18, DType::q8_0, Imatrix::optional, "x = d * (q - 8), d f16, q u4"},
    {DType::q4_1, "Q4_1", 32, 20, DType::q8_1, Imatrix::optional, "x = d * q + m, d and m f16, q u4"},
    {DType::q5_0, "Q5_0", 32, 22, DType::q8_0, Imatrix::optional, "x = d * (q - 16), d f16, q u5"},
    {DType::q5_1, "Q5_1", 32, 24, DType::q8_1, Imatrix::optional, "x = d * q + m, d and m f16, q u5"},
    {DType::q8_0, "Q8_0", 32, 34, DType::q8_0, Imatrix::none, "x = d * q, d f16, q i8"},
    {DType::q8_1, "Q8_1", 32, 36, DType::q8_1, Imatrix::none,
     "x = d * q, d f16, q i8; s = d * sum(q); activations only"},
    {DType::q2_k, "Q2_K", 256, 84, DType::q8_k, Imatrix::optional,
     "x = d * sc * q - dmin * m, 16 groups of 16, sc and m u4, q u2"},
    {DType::q3_k, "Q3_K", 256, 110, DType::q8_k, Imatrix::optional,
     "x = d * (sc - 32) * (q - 4), 16 groups of 16, sc u6, q u3"},
    {DType::q4_k, "Q4_K", 256, 144, DType::q8_k, Imatrix::optional,
     "x = d * sc * q - dmin * m, 8 groups of 32, sc and m u6, q u4"},
    {DType::q5_k, "Q5_K", 256, 176, DType::q8_k, Imatrix::optional,
     "x = d * sc * q - dmin * m, 8 groups of 32, sc and m u6, q u5"},
    {DType::q6_k, "Q6_K", 256, 210, DType::q8_k, Imatrix::optional,
     "x = d * sc * (q - 32), 16 groups of 16, sc i8, q u6"},
    {DType::q8_k, "Q8_K", 256, 292, DType::q8_k, Imatrix::none,
     "x = d * q, d f32, q i8, 16 group sums i16; activations only"},
    {DType::iq2_xxs, "IQ2_XXS", 256, 66, DType::q8_k, Imatrix::required,
     "x = d * (2 sc + 1) / 8 * grid, 8 at a time from 256 E8 points, signs"},
    {DType::iq2_xs, "IQ2_XS", 256, 74, DType::q8_k, Imatrix::required,
     "x = d * (2 sc + 1) / 8 * grid, 8 at a time from 512 points, signs"},
    {DType::iq3_xxs, "IQ3_XXS", 256, 98, DType::q8_k, Imatrix::required,
     "x = d * (2 sc + 1) / 4 * grid, 4 at a time from 256 points, signs"},
    {DType::iq1_s, "IQ1_S", 256, 50, DType::q8_k, Imatrix::required,
     "x = d * (2 sc + 1) * (grid +- 1/8), 8 at a time from 2048 points"},
    {DType::iq4_nl, "IQ4_NL", 32, 18, DType::q8_0, Imatrix::optional, "x = d * table[q], d f16, q u4"},
    {DType::iq3_s, "IQ3_S", 256, 110, DType::q8_k, Imatrix::optional,
     "x = d * (2 sc + 1) * grid, 4 at a time from 512 points, signs"},
    {DType::iq2_s, "IQ2_S", 256, 82, DType::q8_k, Imatrix::required,
     "x = d * (2 sc + 1) / 8 * grid, 8 at a time from 1024 points, signs"},
    {DType::iq4_xs, "IQ4_XS", 256, 136, DType::q8_k, Imatrix::optional,
     "x = d * (sc - 32) * table[q], 8 groups of 32, sc u6, q u4"},
    {DType::i8, "I8", 1, 1, DType::i8, Imatrix::none, "x"},
    {DType::i16, "I16", 1, 2, DType::i16, Imatrix::none, "x"},
    {DType::i32, "I32", 1, 4, DType::i32, Imatrix::none, "x"},
    {DType::i64, "I64", 1, 8, DType::i64, Imatrix::none, "x"},
    {DType::f64, "F64", 1, 8, DType::f64, Imatrix::none, "x"},
    {DType::iq1_m, "IQ1_M", 256, 56, DType::q8_k, Imatrix::required,
     "x = d * (2 sc + 1) * (grid +- 1/8), d spread over the scale words"},
    {DType::bf16, "BF16", 1, 2, DType::bf16, Imatrix::none, "x"},
    {DType::tq1_0, "TQ1_0", 256, 54, DType::q8_k, Imatrix::none, "x = d * (q - 1), q base 3, five to a byte"},
    {DType::tq2_0, "TQ2_0", 256, 66, DType::q8_k, Imatrix::none, "x = d * (q - 1), q u2"},
    {DType::mxfp4, "MXFP4", 32, 17, DType::q8_0, Imatrix::none, "x = 2^(e - 127) * e2m1"},
    {DType::nvfp4, "NVFP4", 64, 36, DType::q8_0, Imatrix::none,
     "x = ue4m3 * e2m1, 4 groups of 16; times the tensor's F32 .scale"},
    {DType::q1_0, "Q1_0", 128, 18, DType::q8_0, Imatrix::none, "x = +-d, d f16"},
    {DType::q2_0, "Q2_0", 64, 18, DType::q8_0, Imatrix::none, "x = d * (q - 1), d f16, q u2"},
});

inline constexpr DTypeRow kF8Row{
    DType::f8_e4m3, "F8_E4M3", 1, 1, DType::f8_e4m3, Imatrix::none, "x = d * e4m3, one f32 d per row"};

// Row of a type id of files, or null when the id is unknown or removed.
constexpr const DTypeRow* find_dtype(uint32_t id) {
  for (const DTypeRow& row : kDTypes)
    if (static_cast<uint32_t>(row.id) == id) return &row;
  return nullptr;
}
// Of a type of files or caches; null: its value is none of the enum's.
constexpr const DTypeRow* find_row(DType type) {
  return type == DType::f8_e4m3 ? &kF8Row : find_dtype(static_cast<uint32_t>(type));
}
constexpr const DTypeRow& dtype_row(DType type) { return *find_row(type); }
constexpr double bits_per_weight(const DTypeRow& row) { return 8.0 * row.block_bytes / row.block_elems; }
static_assert(bits_per_weight(dtype_row(DType::q8_0)) == 8.5 && bits_per_weight(dtype_row(DType::q2_0)) == 2.25);

constexpr std::string_view dtype_name(DType type) { return dtype_row(type).name; }
// Case-insensitive: "q4_K", "Q4_K". Null when files have no such type.
const DTypeRow* find_dtype(std::string_view name);

// What keys and values can be kept as.
inline constexpr DType kCacheDTypes[] = {DType::f16, DType::f32, DType::bf16, DType::q8_0, DType::f8_e4m3};
// The same by its name, in any case; null: no cache has it.
const DTypeRow* find_cache_dtype(std::string_view name);

// Bytes of `n_elems` consecutive elements; n_elems must be a multiple of the block (checked by the caller).
constexpr uint64_t dtype_bytes(DType type, uint64_t n_elems) {
  const DTypeRow& row = dtype_row(type);
  return n_elems / row.block_elems * row.block_bytes;
}
// Bytes of `n_rows` rows of a cache, each of `row_elems` elements, with their scales.
constexpr uint64_t cache_bytes(DType type, uint64_t n_rows, uint64_t row_elems) {
  return dtype_bytes(type, n_rows * row_elems) + (type == DType::f8_e4m3 ? n_rows * sizeof(float) : 0);
}
constexpr bool is_quantized(DType type) { return dtype_row(type).block_elems > 1; }

// Ids that files may still carry but no engine decodes any more. name and advice for the error text.
struct RemovedDType {
  uint32_t id;
  std::string_view name, advice;
};
inline constexpr auto kRemovedDTypes = std::to_array<RemovedDType>({
    {4, "Q4_2", "requantize the original model, for example to Q4_0"},
    {5, "Q4_3", "requantize the original model, for example to Q4_1"},
    {31, "Q4_0_4_4", "use Q4_0: weights are repacked for the machine at load"},
    {32, "Q4_0_4_8", "use Q4_0: weights are repacked for the machine at load"},
    {33, "Q4_0_8_8", "use Q4_0: weights are repacked for the machine at load"},
    {36, "IQ4_NL_4_4", "use IQ4_NL: weights are repacked for the machine at load"},
    {37, "IQ4_NL_4_8", "use IQ4_NL: weights are repacked for the machine at load"},
    {38, "IQ4_NL_8_8", "use IQ4_NL: weights are repacked for the machine at load"},
});

}  // namespace tokamak
