#include "fuse/stats.h"

#include <fmt/format.h>

#include "base/log.h"
#include "fuse/rules.h"

namespace tokamak::fuse {

namespace {
struct Fused {
  uint64_t count = 0;
  const ir::Group* first = nullptr;
};

std::string line_of(const ir::Graph& graph, std::string_view label, const Fused& fused) {
  const std::vector<ir::NodeId> nodes = member_nodes(graph, *fused.first);
  const auto node = [&](ir::NodeId id) {
    return fmt::format("{} {}", ir::op_row(graph.node(id).op).name, graph.node(id).name);
  };
  return fmt::format("{}: fused {} x {} of {} nodes, first {} to {}", graph.name, fused.count, label, nodes.size(),
                     node(nodes.front()), node(nodes.back()));
}
}  // namespace

void Stats::record(const ir::Graph& graph) {
  if (!collecting_) return;
  std::map<std::string, Fused> by_label;
  for (const ir::Group& group : graph.groups) {
    if (group.rule == UINT16_MAX) continue;
    Fused& fused = by_label[group_label(graph, group)];
    if (fused.count++ == 0) fused.first = &group;
  }
  {
    const std::lock_guard lock(mutex_);
    PerGraph& per_graph = graphs_[graph.name];
    ++per_graph.n_graphs;
    for (const auto& [label, fused] : by_label) per_graph.counts[label] += fused.count;
  }
  for (const auto& [label, fused] : by_label) log_line(LogLevel::debug, line_of(graph, label, fused));
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
