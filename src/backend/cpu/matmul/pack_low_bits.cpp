// Packers of the types with codes of one to three bits. File blocks: quant/blocks.h; chunks: formats.h.
#include "backend/cpu/matmul/pack.h"
#include "quant/blocks.h"

namespace tokamak::cpu {
namespace {

// Dword `row` of V[0..3] = 64 codes of two bits in element order: field q of each byte of V[t] is quad 4t + q.
void pack_two_bit_run(std::byte* v, int row, const uint8_t* codes) {
  for (int t = 0; t < 4; ++t) {
    uint32_t dword = 0;
    for (int q = 0; q < 4; ++q) {
      uint32_t quad;
      std::memcpy(&quad, codes + 16 * t + 4 * q, sizeof quad);
      dword |= quad << (2 * q);
    }
    store_u32(v + 64 * t + 4 * row, dword);
  }
}

// Codes of 256 elements in the order of Q2_K, Q3_K and TQ2_0: byte j of each 32 holds elements j, j + 32, j + 64, j +
// 96 of its 128.
void decode_two_bits(const uint8_t (&qs)[64], uint8_t (&codes)[256]) {
  for (int j = 0; j < 256; ++j) codes[j] = (qs[32 * (j / 128) + j % 32] >> (2 * (j % 128 / 32))) & 3;
}

// The base-3 digits of n_bytes bytes, n_digits each: digit i of byte j is element n_bytes * i + j. A byte is
// ceil(number * 256 / 243): multiplying by 3 carries its highest digit out of it.
void decode_trits(const uint8_t* bytes, int n_bytes, int n_digits, uint8_t* codes) {
  for (int j = 0; j < n_bytes; ++j) {
    uint32_t rest = bytes[j];
    for (int i = 0; i < n_digits; ++i) {
      rest *= 3;
      codes[n_bytes * i + j] = static_cast<uint8_t>(rest >> 8);
      rest &= 255;
    }
  }
}

void place_ternary(std::byte* chunk, int row, const uint8_t (&codes)[256], uint16_t d) {
  for (int run = 0; run < 4; ++run) pack_two_bit_run(chunk + 256 * run, row, codes + 64 * run);
  std::memcpy(chunk + 1024 + 2 * row, &d, sizeof d);
}

}  // namespace

void pack_q1_0(const PackWeightsTask& task) {
  pack_panels(DType::q1_0, task, [](std::byte* chunk, int row, int, const std::byte* block) {
    for (int b = 0; b < 4; ++b) store_u32(chunk + 64 * b + 4 * row, transpose_high_bits(load_u32(block + 2 + 4 * b)));
    std::memcpy(chunk + 256 + 2 * row, block, 2);
  });
}

void pack_q2_0(const PackWeightsTask& task) {
  pack_panels(DType::q2_0, task, [](std::byte* chunk, int row, int b, const std::byte* block) {
    const auto file = load_block<BlockQ2_0>(block);
    uint8_t codes[64];
    for (int j = 0; j < 64; ++j) codes[j] = (file.qs[j / 4] >> (2 * (j % 4))) & 3;
    std::memcpy(chunk + 32 * b + 2 * row, &file.d, 2);
    pack_two_bit_run(chunk + 64 + 256 * b, row, codes);
  });
}

void pack_tq1_0(const PackWeightsTask& task) {
  pack_panels(DType::tq1_0, task, [](std::byte* chunk, int row, int, const std::byte* block) {
    const auto file = load_block<BlockTQ1_0>(block);
    uint8_t codes[256];
    decode_trits(file.qs, 32, 5, codes);
    decode_trits(file.qs + 32, 16, 5, codes + 160);
    decode_trits(file.qh, 4, 4, codes + 240);
    place_ternary(chunk, row, codes, file.d);
  });
}

void pack_tq2_0(const PackWeightsTask& task) {
  pack_panels(DType::tq2_0, task, [](std::byte* chunk, int row, int, const std::byte* block) {
    const auto file = load_block<BlockTQ2_0>(block);
    uint8_t codes[256];
    decode_two_bits(file.qs, codes);
    place_ternary(chunk, row, codes, file.d);
  });
}

void pack_q2_k(const PackWeightsTask& task) {
  pack_panels(DType::q2_k, task, [](std::byte* chunk, int row, int, const std::byte* block) {
    const auto file = load_block<BlockQ2_K>(block);
    uint8_t codes[256];
    decode_two_bits(file.qs, codes);
    scatter_dwords(chunk, row, block, 4);
    std::memcpy(chunk + 256 + 2 * row, &file.d, 2);
    std::memcpy(chunk + 288 + 2 * row, &file.dmin, 2);
    for (int run = 0; run < 4; ++run) pack_two_bit_run(chunk + 320 + 256 * run, row, codes + 64 * run);
  });
}

void pack_q3_k(const PackWeightsTask& task) {
  pack_panels(DType::q3_k, task, [](std::byte* chunk, int row, int, const std::byte* block) {
    const auto file = load_block<BlockQ3_K>(block);
    uint8_t codes[256];
    decode_two_bits(file.qs, codes);
    scatter_dwords(chunk, row, block + offsetof(BlockQ3_K, scales), 2);
    scatter_dwords(chunk + 128, row, block + offsetof(BlockQ3_K, scales) + 8, 1, 0xAAAAAAAA);
    std::memcpy(chunk + 1728 + 2 * row, &file.d, 2);
    for (int g = 0; g < 8; ++g) {
      uint32_t bits = 0;  // of the 32 elements of group g: bit g of the file's 32 bytes
      for (int i = 0; i < 32; ++i) bits |= ((uint32_t{file.hmask[i]} >> g) & 1) << i;
      store_u32(chunk + 192 + 384 * (g / 2) + 64 * (g % 2) + 4 * row, transpose_high_bits(bits));
    }
    for (int run = 0; run < 4; ++run) pack_two_bit_run(chunk + 320 + 384 * run, row, codes + 64 * run);
  });
}

}  // namespace tokamak::cpu
