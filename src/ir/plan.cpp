#include "ir/plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/round_up.h"

namespace tokamak::ir {

namespace {

struct Lifetime {
  ValueId id;
  uint64_t n_bytes;
  size_t first, last;  // groups
};

std::vector<size_t> group_of_node(const Graph& graph) {
  std::vector<size_t> group_of(graph.nodes.size());
  for (NodeId id = 0; id < graph.nodes.size(); ++id) group_of[id] = id;
  for (size_t g = 0; g < graph.groups.size(); ++g)
    for (NodeId id : graph.groups[g].nodes) group_of[id] = g;
  return group_of;
}

// Owners of memory that the planner places, with the groups they live in.
std::vector<Lifetime> lifetimes(const Graph& graph, const std::function<bool(ValueId)>& elided) {
  const std::vector<size_t> group_of = group_of_node(graph);
  std::vector<size_t> last(graph.values.size(), 0);
  for (NodeId n = 0; n < graph.nodes.size(); ++n) {
    for (ValueId id : graph.nodes[n].inputs) {
      size_t& l = last[graph.storage_of(id)];
      l = std::max(l, group_of[n]);
    }
  }
  for (ValueId id : graph.outputs) last[graph.storage_of(id)] = SIZE_MAX;

  std::vector<Lifetime> out;
  for (ValueId id = 0; id < graph.values.size(); ++id) {
    const Value& value = graph.values[id];
    if (value.kind != ValueKind::intermediate || value.is_view()) continue;
    const size_t first = group_of[value.producer];
    if (elided && elided(id)) {
      CHECK(last[id] <= first, "an elided value leaves its group", value.name);
      continue;
    }
    out.push_back({id, dtype_bytes(value.dtype, static_cast<uint64_t>(value.shape.n_elements())), first,
                   std::max(first, last[id])});
  }
  return out;
}

uint64_t aligned(uint64_t n_bytes) { return round_up(n_bytes, kPlanAlignment); }

// Lowest offset where `value` overlaps none of the placed ones that live at the same time; these are sorted by offset.
uint64_t lowest_gap(const Lifetime& value, const std::vector<std::pair<uint64_t, const Lifetime*>>& placed) {
  uint64_t at = 0;
  for (const auto& [offset, other] : placed) {
    if (other->last < value.first || value.last < other->first) continue;
    if (at + value.n_bytes <= offset) return at;
    at = std::max(at, aligned(offset + other->n_bytes));
  }
  return at;
}

}  // namespace

// Largest first into the lowest gap: simple, deterministic, and close to the peak of live bytes on layered graphs.
Result<Plan> plan_buffers(const Graph& graph, const std::function<bool(ValueId)>& elided) {
  std::vector<Lifetime> values = lifetimes(graph, elided);
  uint64_t sum = 0;
  for (const Lifetime& value : values) {
    sum += aligned(value.n_bytes);
    if (sum > uint64_t{1} << 62)
      return Error{.code = ErrorCode::out_of_memory,
                   .what = "intermediate values need more than 2^62 bytes",
                   .where = graph.name,
                   .hint = "use fewer tokens per step"};
  }
  std::ranges::stable_sort(values, [](const Lifetime& a, const Lifetime& b) { return a.n_bytes > b.n_bytes; });

  Plan plan{.offsets = std::vector<uint64_t>(graph.values.size(), kNotPlaced)};
  std::vector<std::pair<uint64_t, const Lifetime*>> placed;
  for (const Lifetime& value : values) {
    const uint64_t at = lowest_gap(value, placed);
    plan.offsets[value.id] = at;
    plan.n_bytes = std::max(plan.n_bytes, aligned(at + value.n_bytes));
    const auto after = std::ranges::upper_bound(placed, at, {}, [](const auto& p) { return p.first; });
    placed.insert(after, {at, &value});
  }
  for (ValueId id = 0; id < graph.values.size(); ++id) {
    const Value& value = graph.values[id];
    if (value.is_view() && plan.is_placed(value.storage))
      plan.offsets[id] =
          plan.offsets[value.storage] + dtype_bytes(value.dtype, static_cast<uint64_t>(value.offset_elems));
  }
  return plan;
}

}  // namespace tokamak::ir
