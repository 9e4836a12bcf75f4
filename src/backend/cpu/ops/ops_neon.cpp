#include "backend/cpu/ops/op_sets.h"
#include "backend/cpu/ops/vec_neon.h"
// The templates below use the layer above.
#include "backend/cpu/ops/op_set_generic.h"

namespace tokamak::cpu {
const OpSet kOpsNeon = make_op_set<VecNeon>();
}  // namespace tokamak::cpu
