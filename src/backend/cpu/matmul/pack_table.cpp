// Packers of the types whose codes index a table of 16 values. File blocks: quant/blocks.h; chunks: formats.h.
#include "backend/cpu/matmul/pack.h"
#include "quant/blocks.h"

namespace tokamak::cpu {

void pack_mxfp4(const PackWeightsTask& task) {
  pack_panels(DType::mxfp4, task, [](std::byte* chunk, int row, int b, const std::byte* block) {
    chunk[16 * b + row] = block[0];
    scatter_dwords(chunk + 64 + 256 * b, row, block + 1, 4);
  });
}

void pack_nvfp4(const PackWeightsTask& task) {
  pack_panels(DType::nvfp4, task, [](std::byte* chunk, int row, int, const std::byte* block) {
    for (int run = 0; run < 4; ++run)  // 0x7F decodes to zero
      chunk[16 * run + row] = block[run] == std::byte{0x7F} ? std::byte{0} : block[run];
    scatter_dwords(chunk + 64, row, block + 4, 8);
  });
}

void pack_iq4_nl(const PackWeightsTask& task) {
  pack_panels(DType::iq4_nl, task, [](std::byte* chunk, int row, int b, const std::byte* block) {
    std::memcpy(chunk + 32 * b + 2 * row, block, 2);
    scatter_dwords(chunk + 64 + 256 * b, row, block + 2, 4);
  });
}

void pack_iq4_xs(const PackWeightsTask& task) {
  pack_panels(DType::iq4_xs, task, [](std::byte* chunk, int row, int, const std::byte* block) {
    const auto file = load_block<BlockIQ4_XS>(block);
    for (int g = 0; g < 8; ++g) {
      const int low = (file.scales_l[g / 2] >> (4 * (g % 2))) & 15, high = (file.scales_h >> (2 * g)) & 3;
      chunk[64 * (g / 4) + 4 * row + g % 4] = static_cast<std::byte>((low | high << 4) - 32);
    }
    std::memcpy(chunk + 128 + 2 * row, &file.d, 2);
    scatter_dwords(chunk + 160, row, block + 8, 32);
  });
}

}  // namespace tokamak::cpu
