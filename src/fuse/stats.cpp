#include "fuse/stats.h"

#include "fuse/rules.h"

namespace tokamak::fuse {

void Stats::record(const ir::Graph& graph) {
  if (!collecting_) return;
  const std::lock_guard lock(mutex_);
  PerGraph& per_graph = graphs_[graph.name];
  ++per_graph.n_graphs;
  for (const ir::Group& group : graph.groups)
    if (group.rule != UINT16_MAX) ++per_graph.counts[std::string(group_label(graph, group))];
}

std::vector<StatsRow> Stats::rows() const {
  const std::lock_guard lock(mutex_);
  std::vector<StatsRow> out;
  for (const auto& [name, per_graph] : graphs_) {
    if (per_graph.counts.empty()) out.push_back({name, "", 0, per_graph.n_graphs});
    for (const auto& [label, count] : per_graph.counts) out.push_back({name, label, count, per_graph.n_graphs});
  }
  return out;
}

void Stats::reset() {
  const std::lock_guard lock(mutex_);
  graphs_.clear();
}

}  // namespace tokamak::fuse
