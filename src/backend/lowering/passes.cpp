#include "backend/lowering/passes.h"

#include "fuse/elided.h"
#include "ir/pass.h"

namespace tokamak::lowering {

Result<ir::Plan> prepare(ir::Graph& graph, const fuse::Supports& supports, const CompileOptions& options,
                         fuse::Stats& stats) {
  const auto fuse_groups = [&](ir::Graph& g, bool enabled) -> Result<void> {
    fuse::fuse(g, supports, enabled);
    return {};
  };
  const std::vector<ir::Pass> passes = {
      ir::simplify_pass(),
      {.name = "fuse",
       .run = [&](ir::Graph& g) { return fuse_groups(g, options.fusion && stats.enabled()); },
       .when_disabled = [&](ir::Graph& g) { return fuse_groups(g, false); }}};
  TRY(ir::run_passes(
      graph, passes,
      {.disabled = options.disabled_passes, .dump_after = options.dump_after, .dump_sink = options.dump_sink}));
  stats.record(graph);
  const std::vector<bool> elided = fuse::elided_values(graph);
  return ir::plan_buffers(graph, [&](ir::ValueId id) { return elided[id]; });
}

}  // namespace tokamak::lowering
