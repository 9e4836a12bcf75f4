// How router logits become weights of experts; for kernels, which know no graph.
#pragma once

#include <cstdint>

namespace tokamak::lowering {

// late: the function is applied to the logits of the chosen experts only.
enum class RouterKind : uint8_t { soft_max, sigmoid, softplus_sqrt, late_soft_max, late_sigmoid };

}  // namespace tokamak::lowering
