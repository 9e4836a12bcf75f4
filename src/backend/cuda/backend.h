// The CUDA backend: NVIDIA GPUs of the architectures that the build names.
#pragma once

#include <memory>

#include "backend/backend.h"

namespace tokamak {

// Errors: device_failed (no driver, too old a driver, no GPU, no code for it), out_of_memory.
Result<std::unique_ptr<Backend>> make_cuda_backend();

}  // namespace tokamak
