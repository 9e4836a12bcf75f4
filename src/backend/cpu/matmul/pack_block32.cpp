// Packers of the types with blocks of 32. File blocks: quant/blocks.h; chunks: formats.h.
#include "backend/cpu/matmul/pack.h"

namespace tokamak::cpu {

void pack_q8_0(const PackWeightsTask& task) {
  pack_panels(DType::q8_0, task, [](std::byte* chunk, int row, int b, const std::byte* block) {
    std::memcpy(chunk + 32 * b + 2 * row, block, 2);
    scatter_dwords(chunk + 64 + 512 * b, row, block + 2, 8, 0x80808080);
  });
}

void pack_q4_0(const PackWeightsTask& task) {
  pack_panels(DType::q4_0, task, [](std::byte* chunk, int row, int b, const std::byte* block) {
    std::memcpy(chunk + 32 * b + 2 * row, block, 2);
    scatter_dwords(chunk + 64 + 256 * b, row, block + 2, 4);
  });
}

void pack_q4_1(const PackWeightsTask& task) {
  pack_panels(DType::q4_1, task, [](std::byte* chunk, int row, int, const std::byte* block) {
    std::memcpy(chunk + 2 * row, block, 2);
    std::memcpy(chunk + 32 + 2 * row, block + 2, 2);
    scatter_dwords(chunk + 64, row, block + 4, 4);
  });
}

void pack_q5_0(const PackWeightsTask& task) {
  pack_panels(DType::q5_0, task, [](std::byte* chunk, int row, int b, const std::byte* block) {
    std::memcpy(chunk + 32 * b + 2 * row, block, 2);
    std::byte* vectors = chunk + 64 + 320 * b;
    store_u32(vectors + 4 * row, transpose_high_bits(load_u32(block + 2)));
    scatter_dwords(vectors + 64, row, block + 6, 4);
  });
}

void pack_q5_1(const PackWeightsTask& task) {
  pack_panels(DType::q5_1, task, [](std::byte* chunk, int row, int, const std::byte* block) {
    std::memcpy(chunk + 2 * row, block, 2);
    std::memcpy(chunk + 32 + 2 * row, block + 2, 2);
    store_u32(chunk + 64 + 4 * row, transpose_high_bits(load_u32(block + 4)));
    scatter_dwords(chunk + 128, row, block + 8, 4);
  });
}

}  // namespace tokamak::cpu
