#include "backend/cpu/matmul/activations_template.h"
#include "backend/cpu/matmul/kernel_functions.h"
#include "backend/cpu/matmul/vec_scalar.h"

namespace tokamak::cpu {

template <>
void pack_integer_activations<Isa::scalar>(ActivationKind kind, const PackActivationsTask& t) {
  pack_activations_with<Scalar>(kind, t);
}

}  // namespace tokamak::cpu
