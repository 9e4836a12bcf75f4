// Which child runs which node.
#pragma once

#include <span>
#include <vector>

#include "backend/split/placement.h"

namespace tokamak::split {

// A layer whose attention or recurrence its child cannot run keeps its states where they can be used: the first child
// behind it that runs all nodes of the layer that touch them.
void move_states(const ir::Graph& graph, const Children& children, Placement& placement);

// By node. Nodes with weights or states are where these lie, or on the first child behind that can run them, or there
// all the same when none can. Of the others between two such nodes the first ones go to the child of the node before,
// the rest to that of the node behind: cut where the fewest bytes pass from child to child, and where this is the same,
// with more nodes on the child that comes first.
std::vector<size_t> assign(const ir::Graph& graph, std::span<const Part> parts, const Placement& placement,
                           const Children& children);

}  // namespace tokamak::split
