// Packers of the plain types: [k][16].
#include "backend/cpu/matmul/pack.h"

namespace tokamak::cpu {

void pack_f16(const PackWeightsTask& task) {
  pack_panels(DType::f16, task, [](std::byte* chunk, int row, int, const std::byte* element) {
    std::memcpy(chunk + 2 * row, element, 2);
  });
}

void pack_f32(const PackWeightsTask& task) {
  pack_panels(DType::f32, task, [](std::byte* chunk, int row, int, const std::byte* element) {
    std::memcpy(chunk + 4 * row, element, 4);
  });
}

}  // namespace tokamak::cpu
