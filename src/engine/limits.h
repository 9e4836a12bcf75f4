// What this machine can do at most, measured: the yardstick of `explain`.
#pragma once

#include <string_view>

#include "backend/backend.h"
#include "base/result.h"

namespace tokamak {

// Of the processor, all threads together: the widest int8 dot product instruction, and fused multiply-add. The best of
// several short runs, about half a second in all. isa: a name of the CPU's table of instruction sets; one that this
// build or machine lacks falls back to scalar. Errors: out_of_memory, bad_argument (thread count).
Result<DeviceLimits> measure_limits(std::string_view isa, int n_threads);

}  // namespace tokamak
