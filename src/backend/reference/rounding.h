// What a cached row looks like after it was stored in the cache's type.
#pragma once

#include <span>

#include "tensor/dtypes.h"

namespace tokamak::reference {

// Rounds `row` to f16, bf16 or to Q8_0 blocks of 32 in place; f32 stays as it is. Q8_0 rows that are not a multiple of
// 32 long have a shorter last block.
void round_to(DType type, std::span<float> row);

}  // namespace tokamak::reference
