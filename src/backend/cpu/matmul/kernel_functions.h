// What gemm_FAMILY_ISA.cpp and activations_ISA.cpp define: one specialisation per weight type and instruction set,
// compiled with the flags of that instruction set. kernels.h lists them.
#pragma once

#include "backend/cpu/matmul/matmul.h"

namespace tokamak::cpu {

template <DType kType, Isa kIsa>
void gemm_packed(const GemmTask& task);
// The int8 kinds of pack_activations().
template <Isa kIsa>
void pack_int8_activations(ActivationKind kind, const PackActivationsTask& task);

}  // namespace tokamak::cpu
