#include "arch/architectures.h"

#include "arch/families.h"

namespace tokamak::arch {

namespace {
constexpr auto kArchitectures = std::to_array<ArchitectureRow>({
    {"llama", "Llama 1 to 3, Mistral 7B, SmolLM2", ir::RopePairing::norm, ir::Glu::swiglu, adjust_windows,
     build_decoder},
    {"smollm3", "SmolLM3", ir::RopePairing::norm, ir::Glu::swiglu, adjust_smollm3, build_decoder},
    {"qwen2", "Qwen 2, Qwen 2.5", ir::RopePairing::neox, ir::Glu::swiglu, adjust_windows, build_decoder},
    {"qwen3", "Qwen 3 dense", ir::RopePairing::neox, ir::Glu::swiglu, adjust_windows, build_decoder},
    {"gemma3", "Gemma 3 (text)", ir::RopePairing::neox, ir::Glu::geglu, adjust_gemma3, build_gemma},
});
}  // namespace

std::span<const ArchitectureRow> architectures() { return kArchitectures; }

const ArchitectureRow* find_architecture(std::string_view name) {
  for (const ArchitectureRow& row : kArchitectures)
    if (row.name == name) return &row;
  return nullptr;
}

}  // namespace tokamak::arch
