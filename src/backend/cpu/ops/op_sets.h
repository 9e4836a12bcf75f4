// What the kernels of all instruction sets share.
#pragma once

#include "backend/cpu/ops/ops.h"

namespace tokamak::cpu {
// Each defined in ops_ISA.cpp.
extern const OpSet kOpsScalar, kOpsAvx2, kOpsAvx512, kOpsNeon;

// GET_ROWS of any type, by quant/; in ops.cpp, so that nothing of quant/ is compiled for one instruction set.
void get_rows_any(const GetRowsArgs& args, int64_t begin, int64_t end);
}  // namespace tokamak::cpu
