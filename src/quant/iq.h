// Blocks that look their elements up: in grids of 8 or 4 points (IQ1 to IQ3) or in one non-linear table (IQ4).
// Encoders (iq_encode.cpp, iq4_encode.cpp) search for the least sum_i importance_i (x_i - y_i)^2 (1 when null).
// Signatures and meaning: struct Codec in codecs.h; layouts: blocks.h.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tokamak {

void decode_iq2_xxs(const std::byte* blocks, int64_t n_blocks, float* out);
void decode_iq2_xs(const std::byte* blocks, int64_t n_blocks, float* out);
void decode_iq2_s(const std::byte* blocks, int64_t n_blocks, float* out);
void decode_iq3_xxs(const std::byte* blocks, int64_t n_blocks, float* out);
void decode_iq3_s(const std::byte* blocks, int64_t n_blocks, float* out);
void decode_iq1_s(const std::byte* blocks, int64_t n_blocks, float* out);
void decode_iq1_m(const std::byte* blocks, int64_t n_blocks, float* out);
void decode_iq4_nl(const std::byte* blocks, int64_t n_blocks, float* out);
void decode_iq4_xs(const std::byte* blocks, int64_t n_blocks, float* out);

void encode_iq2_xxs(const float* x, int64_t n_blocks, const float* importance, std::byte* blocks);
void encode_iq2_xs(const float* x, int64_t n_blocks, const float* importance, std::byte* blocks);
void encode_iq2_s(const float* x, int64_t n_blocks, const float* importance, std::byte* blocks);
void encode_iq3_xxs(const float* x, int64_t n_blocks, const float* importance, std::byte* blocks);
void encode_iq3_s(const float* x, int64_t n_blocks, const float* importance, std::byte* blocks);
void encode_iq1_s(const float* x, int64_t n_blocks, const float* importance, std::byte* blocks);
void encode_iq1_m(const float* x, int64_t n_blocks, const float* importance, std::byte* blocks);
void encode_iq4_nl(const float* x, int64_t n_blocks, const float* importance, std::byte* blocks);
void encode_iq4_xs(const float* x, int64_t n_blocks, const float* importance, std::byte* blocks);

const char* fault_iq2_xxs(const std::byte* block);
const char* fault_iq2_xs(const std::byte* block);
const char* fault_iq2_s(const std::byte* block);
const char* fault_iq3_xxs(const std::byte* block);
const char* fault_iq3_s(const std::byte* block);
const char* fault_iq1_s(const std::byte* block);
const char* fault_iq1_m(const std::byte* block);
const char* fault_iq4_nl(const std::byte* block);
const char* fault_iq4_xs(const std::byte* block);

}  // namespace tokamak
