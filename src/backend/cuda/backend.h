// The CUDA backend: NVIDIA GPUs of the architectures that the build names.
#pragma once

#include <memory>
#include <vector>

#include "backend/backend.h"

namespace tokamak {

// One for each GPU that this build can use, in the driver's order; at least one. Errors: device_failed (no driver, too
// old a driver, no GPU, no code for it).
Result<std::vector<std::unique_ptr<Backend>>> make_cuda_backends();
// The first of them.
Result<std::unique_ptr<Backend>> make_cuda_backend();
// To plan with: memory is counted, not taken, and nothing can be run. One for each GPU here; where there is none, one
// with imagined_bytes of memory. Errors: those of make_cuda_backends, when imagined_bytes is 0.
Result<std::vector<std::unique_ptr<Backend>>> make_planning_cuda_backends(uint64_t imagined_bytes);

}  // namespace tokamak
