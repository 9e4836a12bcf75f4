// Blocks of E2M1 four-bit floats under an 8-bit floating-point scale.
// MXFP4 takes its scale from the block's largest magnitude, as the `gguf` package does, and searches it when importance
// is given; NVFP4 always searches. Codes by nearest value.
// Signatures and meaning: struct Codec in codecs.h; layouts: blocks.h.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace tokamak {

// Twice the value of each E2M1 code, an integer; block scales are halved to match. Code 8 (-0) counts as 0.
inline constexpr std::array<int8_t, 16> kDoubledE2M1 = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

void decode_mxfp4(const std::byte* blocks, int64_t n_blocks, float* out);
void decode_nvfp4(const std::byte* blocks, int64_t n_blocks, float* out);

void encode_mxfp4(const float* x, int64_t n_blocks, const float* importance, std::byte* blocks);
void encode_nvfp4(const float* x, int64_t n_blocks, const float* importance, std::byte* blocks);

const char* fault_mxfp4(const std::byte* block);

}  // namespace tokamak
