// Random valid graphs for property tests.
#pragma once

#include <cstdint>

#include "ir/graph.h"

namespace tokamak::ir {

// Uses every op, views of views, shared leaves, awkward names and numbers. Same seed, same graph.
Graph random_graph(uint32_t seed);

}  // namespace tokamak::ir
