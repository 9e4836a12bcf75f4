#include "backend/cpu/matmul/activations_template.h"
#include "backend/cpu/matmul/kernel_functions.h"
#include "backend/cpu/matmul/vec_neon.h"

namespace tokamak::cpu {

template <>
void pack_integer_activations<Isa::neon>(ActivationKind kind, const PackActivationsTask& t) {
  pack_activations_with<Neon>(kind, t);
}

}  // namespace tokamak::cpu
