// What a cached row looks like after it was stored in the cache's type.
#pragma once

#include <span>

#include "tensor/dtypes.h"

namespace tokamak::reference {

// Rounds `row` in place to a type of kCacheDTypes: f32 stays as it is, Q8_0 has blocks of 32 (the last one is shorter
// when the row ends before), F8_E4M3 one scale for the row.
void round_to(DType type, std::span<float> row);

}  // namespace tokamak::reference
