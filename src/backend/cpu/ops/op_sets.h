// One OpSet per instruction set, each defined in ops_ISA.cpp.
#pragma once

#include "backend/cpu/ops/ops.h"

namespace tokamak::cpu {
extern const OpSet kOpsScalar, kOpsAvx2, kOpsAvx512;
}  // namespace tokamak::cpu
