#include "fuse/matcher.h"

#include <fmt/format.h>

#include <algorithm>

namespace tokamak::fuse {

using ir::Graph;
using ir::Group;
using ir::kNone;
using ir::NodeId;
using ir::ValueId;

namespace {

// Row numbers, longest sequence first.
const std::vector<const Rule*>& rules_by_length() {
  static const std::vector<const Rule*> sorted = [] {
    std::vector<const Rule*> out;
    for (const Rule& rule : rules()) out.push_back(&rule);
    std::ranges::stable_sort(out, [](const Rule* a, const Rule* b) { return a->ops.size() > b->ops.size(); });
    return out;
  }();
  return sorted;
}

bool is_output(const Rule& rule, size_t pattern_idx) {
  if (rule.outputs.empty()) return pattern_idx + 1 == rule.ops.size();
  return std::ranges::find(rule.outputs, pattern_idx) != rule.outputs.end();
}

bool is_view(const Graph& graph, NodeId id) { return ir::op_row(graph.node(id).op).is_view; }

}  // namespace

Matcher::Matcher(const Graph& graph, Supports supports, const ir::Plan* plan)
    : graph_(graph), supports_(std::move(supports)), plan_(plan), readers_(ir::readers_of(graph)) {}

// The next non-view nodes from `start` on, when their ops are the rule's.
std::optional<std::vector<NodeId>> Matcher::find_sequence(NodeId start, const Rule& rule) const {
  std::vector<NodeId> nodes;
  for (NodeId id = start; id < graph_.nodes.size() && nodes.size() < rule.ops.size(); ++id) {
    if (is_view(graph_, id) && !nodes.empty()) continue;
    if (graph_.node(id).op != rule.ops[nodes.size()]) return {};
    nodes.push_back(id);
  }
  if (nodes.size() != rule.ops.size()) return {};
  return nodes;
}

bool Matcher::is_chained(const Candidate& c, const Rule& rule) const {
  for (size_t i = 1; i < c.nodes.size(); ++i) {
    const ValueId previous = c.node(i - 1).output;
    if (rule.is_chain &&
        std::ranges::none_of(c.node(i).inputs, [&](ValueId id) { return is_whole(graph_, id, previous); }))
      return false;
    if (rule.equal_shapes && graph_.value(c.node(i).output).shape != graph_.value(previous).shape) return false;
  }
  return true;
}

// What is made inside and is no output of the rule is read inside only; views inside show members or weights.
bool Matcher::is_closed(const Candidate& c, const Rule& rule) const {
  const NodeId first = c.nodes.front(), last = c.nodes.back();
  const auto inside = [&](NodeId id) { return id >= first && id <= last; };
  const auto stays_inside = [&](ValueId id) {
    return !graph_.is_output(id) && std::ranges::all_of(readers_[id], inside);
  };
  for (size_t i = 0; i < c.nodes.size(); ++i)
    if (!is_output(rule, i) && !stays_inside(c.node(i).output)) return false;
  for (NodeId id = first; id <= last; ++id) {
    if (!is_view(graph_, id)) continue;
    const ValueId shown = graph_.node(id).output;
    const ir::Value& owner = graph_.value(graph_.storage_of(shown));
    if (owner.kind == ir::ValueKind::weight) continue;
    if (owner.producer == kNone || !inside(owner.producer)) return false;
    const auto member = std::ranges::find(c.nodes, owner.producer);
    if (!is_output(rule, static_cast<size_t>(member - c.nodes.begin())) && !stays_inside(shown)) return false;
  }
  return true;
}

// No result that leaves the group overlaps memory the group reads.
bool Matcher::is_placed_apart(const Candidate& c, const Rule& rule) const {
  CHECK(plan_ != nullptr);
  struct Range {
    uint64_t begin, end;
  };
  const auto range_of = [&](ValueId id) -> std::optional<Range> {
    const ValueId owner = graph_.storage_of(id);
    if (!plan_->is_placed(owner)) return {};
    const ir::Value& value = graph_.value(owner);
    const uint64_t begin = plan_->offsets[owner];
    return Range{begin, begin + dtype_bytes(value.dtype, static_cast<uint64_t>(value.shape.n_elements()))};
  };
  for (size_t i = 0; i < c.nodes.size(); ++i) {
    if (!is_output(rule, i)) continue;
    const auto written = range_of(c.node(i).output);
    for (size_t k = 0; written && k < c.nodes.size(); ++k)
      for (ValueId id : c.node(k).inputs) {
        const NodeId producer = graph_.value(graph_.storage_of(id)).producer;
        if (producer != kNone && producer >= c.nodes.front()) continue;  // a member
        const auto read = range_of(id);
        if (read && read->begin < written->end && written->begin < read->end) return false;
      }
  }
  return true;
}

std::optional<Match> Matcher::at(NodeId start, Mode mode, const Rule& rule) const {
  const auto nodes = find_sequence(start, rule);
  if (!nodes) return {};
  const Candidate candidate{graph_, *nodes};
  if (!is_chained(candidate, rule) || !is_closed(candidate, rule) || !rule.check(candidate, mode)) return {};
  if (mode == Mode::full && !is_placed_apart(candidate, rule)) return {};
  if (supports_ && !supports_(graph_, rule, *nodes)) return {};
  Match match{rule.id, {}};
  for (NodeId id = start; id <= nodes->back(); ++id) match.nodes.push_back(id);
  return match;
}

std::optional<Match> Matcher::at(NodeId start, Mode mode) const {
  for (const Rule* rule : rules_by_length())
    if (auto match = at(start, mode, *rule)) return match;
  return {};
}

std::optional<Match> match_at(const Graph& graph, NodeId start, Mode mode, const Supports& supports,
                              const ir::Plan* plan) {
  return Matcher(graph, supports, plan).at(start, mode);
}

void fuse(Graph& graph, const Supports& supports, bool enabled) {
  std::vector<Group> groups;
  const Matcher matcher(graph, supports);
  for (NodeId id = 0; id < graph.nodes.size();) {
    std::optional<Match> match;
    if (enabled) match = matcher.at(id, Mode::structural);
    if (match)
      groups.push_back({static_cast<uint16_t>(match->rule), std::move(match->nodes)});
    else
      groups.push_back({.nodes = {id}});
    id = groups.back().nodes.back() + 1;
  }
  graph.groups = std::move(groups);
}

Result<void> check_groups(const Graph& graph) {
  const Matcher matcher(graph);
  for (const Group& group : graph.groups) {
    if (group.rule == UINT16_MAX) continue;
    const auto wrong = [&](std::string what) {
      return Error{.what = std::move(what),
                   .where = fmt::format("{}: group of node {}", graph.name, group.nodes.front())};
    };
    if (group.rule >= rules().size()) return wrong(fmt::format("there is no fusion rule {}", group.rule));
    const Rule& rule = rules()[group.rule];
    const auto match = matcher.at(group.nodes.front(), Mode::structural, rule);
    if (!match || match->nodes != group.nodes) return wrong(fmt::format("the nodes do not match {}", rule.label));
  }
  return {};
}

}  // namespace tokamak::fuse
