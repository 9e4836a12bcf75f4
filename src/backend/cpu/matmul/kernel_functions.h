// What gemm_FAMILY_KIND_ISA.cpp and activations_ISA.cpp define: one specialisation each, compiled with the flags of
// that instruction set. kernels.h lists them.
#pragma once

#include <span>

#include "backend/cpu/matmul/matmul.h"

namespace tokamak::cpu {

// A family is a group of weight types that share a tile header.
enum class TileFamily : uint8_t { block32, k, low_bits, table, expanded, floating };

struct GemmTile {
  DType dtype;
  GemmFunction run;
};
template <TileFamily kFamily, ActivationKind kKind, Isa kIsa>
std::span<const GemmTile> gemm_tiles();

// The integer kinds of pack_activations().
template <Isa kIsa>
void pack_integer_activations(ActivationKind kind, const PackActivationsTask& task);

}  // namespace tokamak::cpu
