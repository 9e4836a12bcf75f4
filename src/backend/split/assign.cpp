#include "backend/split/assign.h"

#include <algorithm>
#include <limits>
#include <set>
#include <utility>

namespace tokamak::split {

namespace {
constexpr size_t kOpen = SIZE_MAX;

// The layer whose states the node reads or writes; -1: none.
int32_t state_layer(const ir::Graph& graph, const ir::Node& node) {
  for (ir::ValueId id : node.inputs)
    if (const ir::Value& storage = graph.value(graph.storage_of(id)); storage.kind == ir::ValueKind::state)
      return storage.layer_idx;
  return -1;
}

// From `child` on; `child` when none can.
size_t first_that_can(const Children& children, size_t child, ir::NodeId node) {
  for (size_t c = child; c < children.n; ++c)
    if (children.can_run(c, node)) return c;
  return child;
}

class Assignment {
 public:
  Assignment(const ir::Graph& graph, std::vector<size_t> fixed)
      : graph_(graph), readers_(ir::readers_of(graph)), child_(std::move(fixed)) {}

  // Cuts every run of open nodes.
  void close() {
    for (size_t begin = 0; begin < child_.size();) {
      if (child_[begin] != kOpen) {
        ++begin;
        continue;
      }
      size_t end = begin;
      while (end < child_.size() && child_[end] == kOpen) ++end;
      const bool has_before = begin > 0, has_behind = end < child_.size();
      const size_t behind = has_behind ? child_[end] : has_before ? child_[begin - 1] : 0;
      const size_t before = has_before ? child_[begin - 1] : behind;
      fill(begin, end, before == behind ? end : best_cut(begin, end, before, behind), before, behind);
      begin = end;
    }
  }
  std::vector<size_t> take() { return std::move(child_); }

 private:
  void fill(size_t begin, size_t end, size_t cut, size_t before, size_t behind) {
    for (size_t n = begin; n < end; ++n) child_[n] = n < cut ? before : behind;
  }

  // Nodes [begin, cut) run with the node before, [cut, end) with the one behind.
  size_t best_cut(size_t begin, size_t end, size_t before, size_t behind) {
    size_t best = begin;
    uint64_t fewest = std::numeric_limits<uint64_t>::max();
    for (size_t cut = begin; cut <= end; ++cut) {
      fill(begin, end, cut, before, behind);
      const uint64_t n_bytes = crossing_bytes(begin, end, behind);
      if (n_bytes < fewest || (n_bytes == fewest && before < behind)) best = cut;
      fewest = std::min(fewest, n_bytes);
    }
    return best;
  }

  // Of values that nodes [begin, end) make or read, the bytes that pass from child to child. Open nodes further on
  // count as the child behind.
  uint64_t crossing_bytes(size_t begin, size_t end, size_t behind) const {
    std::set<ir::ValueId> values;
    for (size_t n = begin; n < end; ++n) {
      values.insert(graph_.nodes[n].output);
      values.insert(graph_.nodes[n].inputs.begin(), graph_.nodes[n].inputs.end());
    }
    uint64_t n_bytes = 0;
    for (ir::ValueId id : values) {
      const ir::Value& value = graph_.value(id);
      if (value.producer == ir::kNone || value.kind != ir::ValueKind::intermediate) continue;
      std::set<size_t> readers;
      for (ir::NodeId reader : readers_[id]) readers.insert(child_[reader] == kOpen ? behind : child_[reader]);
      readers.erase(child_[value.producer]);
      n_bytes += readers.size() * dtype_bytes(value.dtype, static_cast<uint64_t>(value.shape.n_elements()));
    }
    return n_bytes;
  }

  const ir::Graph& graph_;
  const std::vector<std::vector<ir::NodeId>> readers_;
  std::vector<size_t> child_;
};
}  // namespace

void move_states(const ir::Graph& graph, const Children& children, Placement& placement) {
  const auto runs_layer = [&](size_t child, size_t layer) {
    for (ir::NodeId n = 0; n < graph.nodes.size(); ++n)
      if (state_layer(graph, graph.nodes[n]) == static_cast<int32_t>(layer) && !children.can_run(child, n))
        return false;
    return true;
  };
  for (size_t layer = 0; layer < placement.states.size(); ++layer)
    for (size_t child = placement.states[layer]; child < children.n; ++child)
      if (runs_layer(child, layer)) {
        placement.states[layer] = child;
        break;
      }
}

std::vector<size_t> assign(const ir::Graph& graph, std::span<const Part> parts, const Placement& placement,
                           const Children& children) {
  std::vector<size_t> fixed(graph.nodes.size(), kOpen);
  for (ir::NodeId n = 0; n < fixed.size(); ++n) {
    if (const int32_t layer = state_layer(graph, graph.nodes[n]); layer >= 0)
      fixed[n] = placement.states[static_cast<size_t>(layer)];
    else if (parts[n].kind != Part::Kind::none)
      fixed[n] = placement.at(parts[n]);
  }
  Assignment assignment(graph, std::move(fixed));
  assignment.close();
  std::vector<size_t> out = assignment.take();
  for (ir::NodeId n = 0; n < out.size(); ++n) out[n] = first_that_can(children, out[n], n);
  return out;
}

}  // namespace tokamak::split
