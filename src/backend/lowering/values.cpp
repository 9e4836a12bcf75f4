#include "backend/lowering/values.h"

#include "fuse/rules.h"

namespace tokamak::lowering {

ir::ValueId same_rows(const ir::Graph& graph, ir::ValueId id) {
  const ir::ValueId owner = graph.storage_of(id);
  const bool same =
      fuse::is_whole(graph, id, owner) && graph.value(owner).shape.row_elems() == graph.value(id).shape.row_elems();
  return same ? owner : id;
}

void add_costs(const ir::Graph& graph, const ir::Plan& plan, const ir::Group& group, StepReport& report) {
  for (ir::NodeId id : fuse::member_nodes(graph, group)) {
    const ir::Node& node = graph.node(id);
    const ir::OpCost cost = ir::node_cost(graph, node);
    report.operations += cost.operations;
    report.bytes += cost.bytes;
    const ir::Value& result = graph.value(node.output);
    if (result.kind == ir::ValueKind::intermediate && !plan.is_placed(node.output))
      report.bytes -=
          2.0 * static_cast<double>(dtype_bytes(result.dtype, static_cast<uint64_t>(result.shape.n_elements())));
  }
}

}  // namespace tokamak::lowering
