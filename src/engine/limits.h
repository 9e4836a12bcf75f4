// What this machine can do at most, measured: the yardstick of `explain`.
#pragma once

#include <string_view>

#include "base/result.h"

namespace tokamak {

// All threads together.
struct MachineLimits {
  double read_bytes_per_second = 0;  // one pass over memory larger than the caches
  double int8_ops_per_second = 0;    // multiplies and adds of the widest int8 dot product instruction
  double f32_ops_per_second = 0;     // of fused multiply-add
  int n_threads = 0;
};

// The best of several short runs, about half a second in all. isa: a name of the CPU's table of instruction sets; one
// that this build or machine lacks falls back to scalar. Errors: out_of_memory, bad_argument (thread count).
Result<MachineLimits> measure_limits(std::string_view isa, int n_threads);

}  // namespace tokamak
