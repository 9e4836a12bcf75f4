// Packers of the types with codes of one to three bits. File blocks: quant/blocks.h; chunks: formats.h.
#include "backend/cpu/matmul/pack.h"
#include "quant/blocks.h"

namespace tokamak::cpu {
namespace {

// Dword `row` of V[0..7] = 128 codes of two bits in element order: field p of each byte of V[t] is quad t of group p.
void pack_run_128(std::byte* v, int row, const std::byte* codes) {
  for (int t = 0; t < 8; ++t) {
    uint32_t dword = 0;
    for (int p = 0; p < 4; ++p) dword |= load_u32(codes + 32 * p + 4 * t) << (2 * p);
    store_u32(v + 64 * t + 4 * row, dword);
  }
}

// Dword `row` of V[0..3] = 64 codes of two bits in element order: field q of each byte of V[t] is quad 4t + q.
void pack_run_64(std::byte* v, int row, const std::byte* codes) {
  for (int t = 0; t < 4; ++t) {
    uint32_t dword = 0;
    for (int q = 0; q < 4; ++q) dword |= load_u32(codes + 16 * t + 4 * q) << (2 * q);
    store_u32(v + 64 * t + 4 * row, dword);
  }
}

// Codes of 256 elements in the order of Q2_K and Q3_K: byte j of each 32 holds elements j, j + 32, j + 64, j + 96 of
// its 128.
void decode_two_bits(const uint8_t (&qs)[64], std::byte (&codes)[256]) {
  for (int j = 0; j < 256; ++j)
    codes[j] = static_cast<std::byte>((qs[32 * (j / 128) + j % 32] >> (2 * (j % 128 / 32))) & 3);
}

// The base-3 digits of n_bytes bytes, n_digits each: digit i of byte j is element n_bytes * i + j. A byte is
// ceil(number * 256 / 243): multiplying by 3 carries its highest digit out of it.
void decode_trits(const uint8_t* bytes, int n_bytes, int n_digits, std::byte* codes) {
  for (int j = 0; j < n_bytes; ++j) {
    uint32_t rest = bytes[j];
    for (int i = 0; i < n_digits; ++i) {
      rest *= 3;
      codes[n_bytes * i + j] = static_cast<std::byte>(rest >> 8);
      rest &= 255;
    }
  }
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
    std::memcpy(chunk + 32 * b + 2 * row, &file.d, 2);
    for (int t = 0; t < 8; ++t) {  // groups 2b and 2b + 1: the other block of the chunk has the other fields
      uint32_t dword = load_u32(chunk + 64 + 64 * t + 4 * row);
      for (int j = 0; j < 8; ++j) {  // elements 4t .. 4t + 3 of both
        const int element = 32 * (j / 4) + 4 * t + j % 4;
        const uint32_t code = (file.qs[element / 4] >> (2 * (element % 4))) & 3u;
        dword |= code << (8 * (j % 4) + 4 * b + 2 * (j / 4));
      }
      store_u32(chunk + 64 + 64 * t + 4 * row, dword);
    }
  });
}

void pack_tq1_0(const PackWeightsTask& task) {
  pack_panels(DType::tq1_0, task, [](std::byte* chunk, int row, int, const std::byte* block) {
    const auto file = load_block<BlockTQ1_0>(block);
    std::byte codes[256];
    decode_trits(file.qs, 32, 5, codes);
    decode_trits(file.qs + 32, 16, 5, codes + 160);
    decode_trits(file.qh, 4, 4, codes + 240);
    pack_run_128(chunk, row, codes);
    pack_run_128(chunk + 512, row, codes + 128);
    std::memcpy(chunk + 1024 + 2 * row, &file.d, 2);
  });
}

void pack_tq2_0(const PackWeightsTask& task) {
  pack_panels(DType::tq2_0, task, [](std::byte* chunk, int row, int, const std::byte* block) {
    scatter_dwords(chunk, row, block, 16);
    std::memcpy(chunk + 1024 + 2 * row, block + offsetof(BlockTQ2_0, d), 2);
  });
}

void pack_q2_k(const PackWeightsTask& task) {
  pack_panels(DType::q2_k, task, [](std::byte* chunk, int row, int, const std::byte* block) {
    const auto file = load_block<BlockQ2_K>(block);
    std::byte codes[256];
    decode_two_bits(file.qs, codes);
    scatter_dwords(chunk, row, block, 4);
    std::memcpy(chunk + 256 + 2 * row, &file.d, 2);
    std::memcpy(chunk + 288 + 2 * row, &file.dmin, 2);
    for (int run = 0; run < 4; ++run) pack_run_64(chunk + 320 + 256 * run, row, codes + 64 * run);
  });
}

void pack_q3_k(const PackWeightsTask& task) {
  pack_panels(DType::q3_k, task, [](std::byte* chunk, int row, int, const std::byte* block) {
    const auto file = load_block<BlockQ3_K>(block);
    std::byte codes[256];
    decode_two_bits(file.qs, codes);
    scatter_dwords(chunk, row, block + offsetof(BlockQ3_K, scales), 2);
    scatter_dwords(chunk + 128, row, block + offsetof(BlockQ3_K, scales) + 8, 1, 0xAAAAAAAA);
    std::memcpy(chunk + 1728 + 2 * row, &file.d, 2);
    for (int g = 0; g < 8; ++g) {
      uint32_t bits = 0;  // of the 32 elements of group g: bit g of the file's 32 bytes
      for (int i = 0; i < 32; ++i) bits |= ((uint32_t{file.hmask[i]} >> g) & 1) << i;
      store_u32(chunk + 192 + 384 * (g / 2) + 64 * (g % 2) + 4 * row, transpose_high_bits(bits));
    }
    for (int run = 0; run < 4; ++run) pack_run_64(chunk + 320 + 384 * run, row, codes + 64 * run);
  });
}

}  // namespace tokamak::cpu
