// Blocks of 32 with one scale, or a scale and a minimum, and Q8_1 for activations.
// Encoders take the scale from the extreme values of the block (no search) and ignore importance.
// Signatures and meaning: struct Codec in codecs.h; layouts: blocks.h.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tokamak {

void decode_q4_0(const std::byte* blocks, int64_t n_blocks, float* out);
void decode_q4_1(const std::byte* blocks, int64_t n_blocks, float* out);
void decode_q5_0(const std::byte* blocks, int64_t n_blocks, float* out);
void decode_q5_1(const std::byte* blocks, int64_t n_blocks, float* out);
void decode_q8_0(const std::byte* blocks, int64_t n_blocks, float* out);
void decode_q8_1(const std::byte* blocks, int64_t n_blocks, float* out);

void encode_q4_0(const float* x, int64_t n_blocks, const float* importance, std::byte* blocks);
void encode_q4_1(const float* x, int64_t n_blocks, const float* importance, std::byte* blocks);
void encode_q5_0(const float* x, int64_t n_blocks, const float* importance, std::byte* blocks);
void encode_q5_1(const float* x, int64_t n_blocks, const float* importance, std::byte* blocks);
void encode_q8_0(const float* x, int64_t n_blocks, const float* importance, std::byte* blocks);
void encode_q8_1(const float* x, int64_t n_blocks, const float* importance, std::byte* blocks);

const char* fault_q4_0(const std::byte* block);
const char* fault_q4_1(const std::byte* block);
const char* fault_q5_0(const std::byte* block);
const char* fault_q5_1(const std::byte* block);
const char* fault_q8_0(const std::byte* block);
const char* fault_q8_1(const std::byte* block);

}  // namespace tokamak
