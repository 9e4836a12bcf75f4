// The backend that defines the meaning of graphs.
#pragma once

#include <memory>

#include "backend/backend.h"

namespace tokamak {

// Runs every node by itself, in order, f32 storage and f64 accumulation. Weights stay in the file mapping.
std::unique_ptr<Backend> make_reference_backend();

}  // namespace tokamak
