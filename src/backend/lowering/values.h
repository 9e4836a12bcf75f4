// Values of a graph as backends store and report them.
#pragma once

#include "backend/backend.h"
#include "ir/graph.h"
#include "ir/plan.h"

namespace tokamak::lowering {

// The value that `id` shows, when the rows are the same: a RESHAPE that keeps them is the same input of a product.
ir::ValueId same_rows(const ir::Graph& graph, ir::ValueId id);

// Adds the operations and bytes of the group's members to the report. What passes from one member to the next never
// reaches memory: not written, not read again.
void add_costs(const ir::Graph& graph, const ir::Plan& plan, const ir::Group& group, StepReport& report);

}  // namespace tokamak::lowering
