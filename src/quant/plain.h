// Plain numbers: one element is one block. Decoding to f32 rounds f64 and wide integers to nearest even.
// Integer encoders round to nearest even and saturate.
// Signatures and meaning: struct Codec in codecs.h; layouts: blocks.h.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tokamak {

void decode_f32(const std::byte* blocks, int64_t n_blocks, float* out);
void decode_f16(const std::byte* blocks, int64_t n_blocks, float* out);
void decode_bf16(const std::byte* blocks, int64_t n_blocks, float* out);
void decode_f64(const std::byte* blocks, int64_t n_blocks, float* out);
void decode_i8(const std::byte* blocks, int64_t n_blocks, float* out);
void decode_i16(const std::byte* blocks, int64_t n_blocks, float* out);
void decode_i32(const std::byte* blocks, int64_t n_blocks, float* out);
void decode_i64(const std::byte* blocks, int64_t n_blocks, float* out);

void encode_f32(const float* x, int64_t n_blocks, const float* importance, std::byte* blocks);
void encode_f16(const float* x, int64_t n_blocks, const float* importance, std::byte* blocks);
void encode_bf16(const float* x, int64_t n_blocks, const float* importance, std::byte* blocks);
void encode_f64(const float* x, int64_t n_blocks, const float* importance, std::byte* blocks);
void encode_i8(const float* x, int64_t n_blocks, const float* importance, std::byte* blocks);
void encode_i16(const float* x, int64_t n_blocks, const float* importance, std::byte* blocks);
void encode_i32(const float* x, int64_t n_blocks, const float* importance, std::byte* blocks);
void encode_i64(const float* x, int64_t n_blocks, const float* importance, std::byte* blocks);

const char* fault_f32(const std::byte* block);
const char* fault_f16(const std::byte* block);
const char* fault_bf16(const std::byte* block);
const char* fault_f64(const std::byte* block);

}  // namespace tokamak
