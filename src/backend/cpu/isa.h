// The instruction sets the CPU kernels are written for, and which of them this machine has.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace tokamak::cpu {

enum class Isa : uint8_t { scalar, avx2, avx512, neon };

struct IsaRow {
  Isa isa;
  std::string_view name;
  std::string_view needs;
};

// One row per value, in enum order.
inline constexpr auto kIsas = std::to_array<IsaRow>({
    {Isa::scalar, "scalar", "nothing"},
    {Isa::avx2, "avx2", "AVX2, FMA, F16C"},
    {Isa::avx512, "avx512", "AVX-512 F, BW, VL, DQ and VNNI"},
    {Isa::neon, "neon", "ARMv8.2 with dot product and half precision"},
});

constexpr std::string_view isa_name(Isa isa) { return kIsas[static_cast<size_t>(isa)].name; }
std::optional<Isa> find_isa(std::string_view name);

// True when this build has kernels for `isa` and this machine (CPU and operating system) can run them.
bool isa_available(Isa isa);
// The fastest available one.
Isa best_isa();

}  // namespace tokamak::cpu
