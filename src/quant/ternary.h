// One- and two-bit blocks: codes are -1, 0, +1 (and +2 in Q2_0) times one f16 scale.
// Encoders of TQ1_0, TQ2_0 and Q1_0 take the scale from the block's largest (Q1_0: mean) magnitude, as the `gguf`
// package does, and search it when importance is given. Q2_0 always searches the scale and its sign. Signatures and
// meaning: struct Codec in codecs.h; layouts: blocks.h.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tokamak {

void decode_tq1_0(const std::byte* blocks, int64_t n_blocks, float* out);
void decode_tq2_0(const std::byte* blocks, int64_t n_blocks, float* out);
void decode_q1_0(const std::byte* blocks, int64_t n_blocks, float* out);
void decode_q2_0(const std::byte* blocks, int64_t n_blocks, float* out);

void encode_tq1_0(const float* x, int64_t n_blocks, const float* importance, std::byte* blocks);
void encode_tq2_0(const float* x, int64_t n_blocks, const float* importance, std::byte* blocks);
void encode_q1_0(const float* x, int64_t n_blocks, const float* importance, std::byte* blocks);
void encode_q2_0(const float* x, int64_t n_blocks, const float* importance, std::byte* blocks);

const char* fault_tq1_0(const std::byte* block);
const char* fault_tq2_0(const std::byte* block);
const char* fault_q1_0(const std::byte* block);
const char* fault_q2_0(const std::byte* block);

}  // namespace tokamak
