// Results that a backend keeps out of memory.
#pragma once

#include <vector>

#include "ir/graph.h"

namespace tokamak::fuse {

// By value: made inside a fused group and read nowhere else. What a group's last node makes is never elided.
std::vector<bool> elided_values(const ir::Graph& graph);

}  // namespace tokamak::fuse
