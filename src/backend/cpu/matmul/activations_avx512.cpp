#include "backend/cpu/matmul/activations_template.h"
#include "backend/cpu/matmul/kernel_functions.h"
#include "backend/cpu/matmul/vec_avx512.h"

namespace tokamak::cpu {

template <>
void pack_integer_activations<Isa::avx512>(ActivationKind kind, const PackActivationsTask& t) {
  pack_activations_with<Avx512>(kind, t);
}

}  // namespace tokamak::cpu
