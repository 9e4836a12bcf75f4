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

}  // namespace tokamak
