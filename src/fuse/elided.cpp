#include "fuse/elided.h"

namespace tokamak::fuse {

std::vector<bool> elided_values(const ir::Graph& graph) {
  std::vector<const ir::Group*> group_of(graph.nodes.size());
  for (const ir::Group& group : graph.groups)
    for (ir::NodeId node : group.nodes) group_of[node] = &group;
  std::vector<bool> elided(graph.values.size());
  for (const ir::Group& group : graph.groups) {
    if (group.rule == UINT16_MAX) continue;
    for (ir::NodeId node : group.nodes) elided[graph.storage_of(graph.node(node).output)] = true;
  }
  const auto keep = [&](ir::ValueId id) { elided[graph.storage_of(id)] = false; };
  for (const ir::Group& group : graph.groups) keep(graph.node(group.nodes.back()).output);
  for (ir::ValueId id : graph.outputs) keep(id);
  for (size_t node = 0; node < graph.nodes.size(); ++node) {
    for (ir::ValueId input : graph.nodes[node].inputs) {
      const ir::NodeId producer = graph.value(graph.storage_of(input)).producer;
      if (producer == ir::kNone || group_of[producer] != group_of[node]) keep(input);
    }
  }
  return elided;
}

}  // namespace tokamak::fuse
