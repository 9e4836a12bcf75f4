// Limits that every backend keeps.
#pragma once

#include <cstdint>

namespace tokamak::ir {

inline constexpr int64_t kMaxHeadDim = 1024;  // dimensions of an attention head

}  // namespace tokamak::ir
