// Blocks of 256 whose groups have integer scales under one f16 super-scale, and Q8_K for activations.
// Encoders (k_encode.cpp) search for the least sum_i importance_i (x_i - y_i)^2 (1 when null); Q8_K has no search.
// Signatures and meaning: struct Codec in codecs.h; layouts: blocks.h.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tokamak {

void decode_q2_k(const std::byte* blocks, int64_t n_blocks, float* out);
void decode_q3_k(const std::byte* blocks, int64_t n_blocks, float* out);
void decode_q4_k(const std::byte* blocks, int64_t n_blocks, float* out);
void decode_q5_k(const std::byte* blocks, int64_t n_blocks, float* out);
void decode_q6_k(const std::byte* blocks, int64_t n_blocks, float* out);
void decode_q8_k(const std::byte* blocks, int64_t n_blocks, float* out);

void encode_q2_k(const float* x, int64_t n_blocks, const float* importance, std::byte* blocks);
void encode_q3_k(const float* x, int64_t n_blocks, const float* importance, std::byte* blocks);
void encode_q4_k(const float* x, int64_t n_blocks, const float* importance, std::byte* blocks);
void encode_q5_k(const float* x, int64_t n_blocks, const float* importance, std::byte* blocks);
void encode_q6_k(const float* x, int64_t n_blocks, const float* importance, std::byte* blocks);
void encode_q8_k(const float* x, int64_t n_blocks, const float* importance, std::byte* blocks);

const char* fault_q2_k(const std::byte* block);
const char* fault_q3_k(const std::byte* block);
const char* fault_q4_k(const std::byte* block);
const char* fault_q5_k(const std::byte* block);
const char* fault_q6_k(const std::byte* block);
const char* fault_q8_k(const std::byte* block);

}  // namespace tokamak
