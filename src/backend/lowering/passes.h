// What happens to a graph before a backend lowers it.
#pragma once

#include "backend/backend.h"
#include "fuse/matcher.h"
#include "ir/plan.h"

namespace tokamak::lowering {

// Simplifies the graph and fuses what `supports` takes, unless the options or `stats` say no; counts its groups there.
// Returns where its values lie; those inside of groups that never reach memory lie nowhere. Errors: those of passes.
Result<ir::Plan> prepare(ir::Graph& graph, const fuse::Supports& supports, const CompileOptions& options,
                         fuse::Stats& stats);

}  // namespace tokamak::lowering
