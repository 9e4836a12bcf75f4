#include "backend/cpu/ops/op_sets.h"
#include "backend/cpu/ops/vec_avx2.h"
// The templates below use the layer above.
#include "backend/cpu/ops/op_set_generic.h"

namespace tokamak::cpu {
const OpSet kOpsAvx2 = make_op_set<VecAvx2>();
}  // namespace tokamak::cpu
