// The families of kernels of this build, in order of preference; scalar comes last.
#pragma once

#include <array>

#include "backend/cpu/matmul/kernel_functions.h"

namespace tokamak::cpu {

struct KernelFamily {
  ActivationKind activation;
  std::span<const GemmTile> (*tiles)();
};

template <Isa kIsa>
inline constexpr auto kFamilies = std::to_array<KernelFamily>({
    {ActivationKind::int8, gemm_tiles<TileFamily::block32, ActivationKind::int8, kIsa>},
    {ActivationKind::int8, gemm_tiles<TileFamily::k, ActivationKind::int8, kIsa>},
    {ActivationKind::int8, gemm_tiles<TileFamily::low_bits, ActivationKind::int8, kIsa>},
    {ActivationKind::int8, gemm_tiles<TileFamily::table, ActivationKind::int8, kIsa>},
    {ActivationKind::int8, gemm_tiles<TileFamily::expanded, ActivationKind::int8, kIsa>},
    {ActivationKind::int16, gemm_tiles<TileFamily::block32, ActivationKind::int16, kIsa>},
    {ActivationKind::int16, gemm_tiles<TileFamily::k, ActivationKind::int16, kIsa>},
    {ActivationKind::int16, gemm_tiles<TileFamily::low_bits, ActivationKind::int16, kIsa>},
    {ActivationKind::int16, gemm_tiles<TileFamily::table, ActivationKind::int16, kIsa>},
    {ActivationKind::int16, gemm_tiles<TileFamily::expanded, ActivationKind::int16, kIsa>},
    {ActivationKind::f32, gemm_tiles<TileFamily::floating, ActivationKind::f32, kIsa>},
});

struct KernelIsa {
  Isa isa;
  std::string_view shape;  // rows x columns of a tile
  std::span<const KernelFamily> families;
};

inline constexpr auto kKernelIsas = std::to_array<KernelIsa>({
#if defined(__x86_64__)
  {Isa::avx512, "16x8", kFamilies<Isa::avx512>}, {Isa::avx2, "16x4", kFamilies<Isa::avx2>},
#elif defined(__aarch64__)
  {Isa::neon, "16x4", kFamilies<Isa::neon>},
#endif
      {Isa::scalar, "16x2", kFamilies<Isa::scalar>},
});

}  // namespace tokamak::cpu
