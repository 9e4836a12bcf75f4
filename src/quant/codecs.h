// The table of codecs: one row per tensor type, in the order of kDTypes. Adding a type means its row in
// tensor/dtypes.h, its functions in the family's pair of files, and its row here.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "quant/fp4.h"
#include "quant/iq.h"
#include "quant/k_quants.h"
#include "quant/legacy.h"
#include "quant/plain.h"
#include "quant/ternary.h"
#include "tensor/dtypes.h"

namespace tokamak {

struct Codec {
  DType id;
  // out[n_blocks * block_elems] f32; any bit pattern is allowed.
  void (*decode)(const std::byte* blocks, int64_t n_blocks, float* out);
  // importance: null or one weight >= 0 per element. Null function: no encoder.
  void (*encode)(const float* x, int64_t n_blocks, const float* importance, std::byte* blocks);
  // What makes a block unusable, in words, or null. Null function: every bit pattern is a finite value.
  const char* (*fault)(const std::byte* block);
};

inline constexpr auto kCodecs = std::to_array<Codec>({
    {DType::f32, decode_f32, encode_f32, fault_f32},
    {DType::f16, decode_f16, encode_f16, fault_f16},
    {DType::q4_0, decode_q4_0, encode_q4_0, fault_q4_0},
    {DType::q4_1, decode_q4_1, encode_q4_1, fault_q4_1},
    {DType::q5_0, decode_q5_0, encode_q5_0, fault_q5_0},
    {DType::q5_1, decode_q5_1, encode_q5_1, fault_q5_1},
    {DType::q8_0, decode_q8_0, encode_q8_0, fault_q8_0},
    {DType::q8_1, decode_q8_1, encode_q8_1, fault_q8_1},
    {DType::q2_k, decode_q2_k, encode_q2_k, fault_q2_k},
    {DType::q3_k, decode_q3_k, encode_q3_k, fault_q3_k},
    {DType::q4_k, decode_q4_k, encode_q4_k, fault_q4_k},
    {DType::q5_k, decode_q5_k, encode_q5_k, fault_q5_k},
    {DType::q6_k, decode_q6_k, encode_q6_k, fault_q6_k},
    {DType::q8_k, decode_q8_k, encode_q8_k, fault_q8_k},
    {DType::iq2_xxs, decode_iq2_xxs, encode_iq2_xxs, fault_iq2_xxs},
    {DType::iq2_xs, decode_iq2_xs, encode_iq2_xs, fault_iq2_xs},
    {DType::iq3_xxs, decode_iq3_xxs, encode_iq3_xxs, fault_iq3_xxs},
    {DType::iq1_s, decode_iq1_s, encode_iq1_s, fault_iq1_s},
    {DType::iq4_nl, decode_iq4_nl, encode_iq4_nl, fault_iq4_nl},
    {DType::iq3_s, decode_iq3_s, encode_iq3_s, fault_iq3_s},
    {DType::iq2_s, decode_iq2_s, encode_iq2_s, fault_iq2_s},
    {DType::iq4_xs, decode_iq4_xs, encode_iq4_xs, fault_iq4_xs},
    {DType::i8, decode_i8, encode_i8, nullptr},
    {DType::i16, decode_i16, encode_i16, nullptr},
    {DType::i32, decode_i32, encode_i32, nullptr},
    {DType::i64, decode_i64, encode_i64, nullptr},
    {DType::f64, decode_f64, encode_f64, fault_f64},
    {DType::iq1_m, decode_iq1_m, encode_iq1_m, fault_iq1_m},
    {DType::bf16, decode_bf16, encode_bf16, fault_bf16},
    {DType::tq1_0, decode_tq1_0, encode_tq1_0, fault_tq1_0},
    {DType::tq2_0, decode_tq2_0, encode_tq2_0, fault_tq2_0},
    {DType::mxfp4, decode_mxfp4, encode_mxfp4, fault_mxfp4},
    {DType::nvfp4, decode_nvfp4, encode_nvfp4, nullptr},
    {DType::q1_0, decode_q1_0, encode_q1_0, fault_q1_0},
    {DType::q2_0, decode_q2_0, encode_q2_0, fault_q2_0},
});

// Decoders are not compared with null here: GCC does not take that for a constant under -fsanitize=undefined. A row
// without one fails its golden test.
constexpr bool codecs_match_dtypes() {
  if (kCodecs.size() != kDTypes.size()) return false;
  for (size_t i = 0; i < kCodecs.size(); ++i)
    if (kCodecs[i].id != kDTypes[i].id) return false;
  return true;
}
static_assert(codecs_match_dtypes());

constexpr const Codec& codec_of(DType type) {
  for (const Codec& codec : kCodecs)
    if (codec.id == type) return codec;
  return kCodecs[0];  // not reached: the static_assert above
}

}  // namespace tokamak
