#include "backend/cpu/ops/op_sets.h"
#include "backend/cpu/ops/vec_scalar.h"
// The templates below use the layer above.
#include "backend/cpu/ops/op_set_generic.h"

namespace tokamak::cpu {
const OpSet kOpsScalar = make_op_set<VecScalar>();
}  // namespace tokamak::cpu
