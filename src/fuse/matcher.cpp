#include "fuse/matcher.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>

namespace tokamak::fuse {

using ir::Graph;
using ir::Group;
using ir::kNone;
using ir::NodeId;
using ir::ValueId;

namespace {

// A rule with a choice of its optional ops.
struct Variant {
  const Rule* rule;
  uint32_t present;  // bit i: op i is there
  size_t n_ops() const { return static_cast<size_t>(std::popcount(present)); }
  size_t rank() const { return rule->last_repeats ? SIZE_MAX : n_ops(); }
};

using VariantsByOp = std::array<std::vector<Variant>, static_cast<size_t>(ir::Op::count_)>;

// Of rules that start with an op: longest first, those whose end repeats before all others; among equals the earlier
// row.
const VariantsByOp& variants() {
  static const VariantsByOp all = [] {
    VariantsByOp out;
    for (const Rule& rule : rules()) {
      const uint32_t every = (uint32_t{1} << rule.ops.size()) - 1;
      for (uint32_t left_out = rule.optional;; left_out = (left_out - 1) & rule.optional) {
        const Variant variant{&rule, every & ~left_out};
        if (variant.n_ops() > 1) out[static_cast<size_t>(rule.ops[0])].push_back(variant);
        if (left_out == 0) break;
      }
    }
    for (std::vector<Variant>& list : out)
      std::ranges::stable_sort(list, [](const Variant& a, const Variant& b) { return a.rank() > b.rank(); });
    return out;
  }();
  return all;
}

bool is_output(const Rule& rule, const Candidate& c, size_t op) {
  if (op == c.last_op()) return true;
  return std::ranges::find(rule.outputs, op) != rule.outputs.end();
}

bool is_view(const Graph& graph, NodeId id) { return ir::op_row(graph.node(id).op).is_view; }

}  // namespace

Matcher::Matcher(const Graph& graph, Supports supports, const ir::Plan* plan)
    : graph_(graph), supports_(std::move(supports)), plan_(plan), readers_(ir::readers_of(graph)) {}

// The next non-view nodes from `start` on, when their ops are those of the rule that are `present`; the last op as
// often as it follows.
std::optional<std::vector<NodeId>> Matcher::find_sequence(NodeId start, const Rule& rule, uint32_t present) const {
  std::vector<NodeId> nodes(rule.ops.size(), kNone);
  NodeId id = start;
  for (size_t op = 0; op < rule.ops.size(); ++op) {
    if ((present >> op & 1) == 0) continue;
    while (op > 0 && id < graph_.nodes.size() && is_view(graph_, id)) ++id;
    if (id >= graph_.nodes.size() || graph_.node(id).op != rule.ops[op]) return {};
    nodes[op] = id++;
  }
  for (; rule.last_repeats && id < graph_.nodes.size(); ++id) {
    if (is_view(graph_, id)) continue;
    if (graph_.node(id).op != rule.ops.back()) break;
    nodes.push_back(id);
  }
  return nodes;
}

bool Matcher::is_chained(const Candidate& c, const Rule& rule) const {
  for (size_t i = 1; i < c.nodes.size(); ++i) {
    if (!c.has(i)) continue;
    const ValueId previous = c.before(i).output;
    if (rule.is_chain &&
        std::ranges::none_of(c.node(i).inputs, [&](ValueId id) { return is_whole(graph_, id, previous); }))
      return false;
    if (rule.equal_shapes && graph_.value(c.node(i).output).shape != graph_.value(previous).shape) return false;
  }
  return true;
}

// What is made inside and is no output of the rule is read inside only; views inside show members or weights.
bool Matcher::is_closed(const Candidate& c, const Rule& rule) const {
  const NodeId first = c.first(), last = c.nodes[c.last_op()];
  const auto inside = [&](NodeId id) { return id >= first && id <= last; };
  const auto stays_inside = [&](ValueId id) {
    return !graph_.is_output(id) && std::ranges::all_of(readers_[id], inside);
  };
  for (size_t i = 0; i < c.nodes.size(); ++i)
    if (c.has(i) && !is_output(rule, c, i) && !stays_inside(c.node(i).output)) return false;
  for (NodeId id = first; id <= last; ++id) {
    if (!is_view(graph_, id)) continue;
    const ValueId shown = graph_.node(id).output;
    const ir::Value& owner = graph_.value(graph_.storage_of(shown));
    if (owner.kind == ir::ValueKind::weight) continue;
    if (owner.producer == kNone || !inside(owner.producer)) return false;
    const auto member = std::ranges::find(c.nodes, owner.producer);
    if (!is_output(rule, c, static_cast<size_t>(member - c.nodes.begin())) && !stays_inside(shown)) return false;
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
    if (!c.has(i) || !is_output(rule, c, i)) continue;
    const auto written = range_of(c.node(i).output);
    for (size_t k = 0; written && k < c.nodes.size(); ++k) {
      if (!c.has(k)) continue;
      for (ValueId id : c.node(k).inputs) {
        const NodeId producer = graph_.value(graph_.storage_of(id)).producer;
        if (producer != kNone && producer >= c.first()) continue;  // a member
        const auto read = range_of(id);
        if (read && read->begin < written->end && written->begin < read->end) return false;
      }
    }
  }
  return true;
}

bool Matcher::fits(const Candidate& candidate, Mode mode, const Rule& rule) const {
  return is_chained(candidate, rule) && is_closed(candidate, rule) && rule.check(candidate, mode) &&
         (mode != Mode::full || is_placed_apart(candidate, rule)) &&
         (!supports_ || supports_(graph_, rule, candidate.nodes));
}

std::optional<Match> Matcher::match(NodeId start, Mode mode, const Rule& rule, uint32_t present) const {
  auto nodes = find_sequence(start, rule, present);
  if (!nodes) return {};
  while (!fits({graph_, *nodes}, mode, rule)) {
    if (nodes->size() == rule.ops.size()) return {};
    nodes->pop_back();  // one repetition less
  }
  const Candidate candidate{graph_, *nodes};
  Match match{rule.id, {}};
  for (NodeId id = start; id <= (*nodes)[candidate.last_op()]; ++id) match.nodes.push_back(id);
  return match;
}

std::optional<Match> Matcher::at(NodeId start, Mode mode, const Rule& rule) const {
  if (start >= graph_.nodes.size()) return {};
  for (const Variant& variant : variants()[static_cast<size_t>(graph_.node(start).op)])
    if (variant.rule == &rule)
      if (auto found = match(start, mode, rule, variant.present)) return found;
  return {};
}

std::optional<Match> Matcher::at(NodeId start, Mode mode) const {
  if (start >= graph_.nodes.size()) return {};
  for (const Variant& variant : variants()[static_cast<size_t>(graph_.node(start).op)])
    if (auto found = match(start, mode, *variant.rule, variant.present)) return found;
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
