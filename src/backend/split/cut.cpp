#include "backend/split/cut.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string_view>
#include <unordered_map>

#include "base/check.h"

namespace tokamak::split {

namespace {
bool is_leaf(const ir::Value& value) { return value.producer == ir::kNone; }

class Cutter {
 public:
  Cutter(const ir::Graph& graph, std::span<const size_t> child_of_node) : graph_(graph), child_(child_of_node) {}

  Result<Cut> run() {
    for (ir::NodeId n = 0; n < graph_.nodes.size(); ++n) {
      if (shows_leaf(graph_.nodes[n].output)) continue;  // copied to where it is read
      if (cut_.segments.empty() || cut_.segments.back().child != child_[n]) begin_segment(child_[n]);
      TRY(add_node(n, graph_.nodes[n].name));
    }
    add_outputs();
    return std::move(cut_);
  }

 private:
  struct Place {
    size_t segment = SIZE_MAX;
    ir::ValueId id = ir::kNone;
  };

  // A view of a weight, of an input or of a state as it was before the step.
  bool shows_leaf(ir::ValueId id) const {
    const ir::Value& value = graph_.value(id);
    return !is_leaf(value) && value.is_view() && value.kind == ir::ValueKind::intermediate &&
           is_leaf(graph_.value(value.storage));
  }

  void begin_segment(size_t child) {
    cut_.segments.push_back({.child = child});
    cut_.segments.back().graph.name = fmt::format("{} part {}", graph_.name, cut_.segments.size());
    here_.clear();
  }
  Segment& segment() { return cut_.segments.back(); }

  ir::ValueId add_value(ir::ValueId old, ir::Value value) {
    ir::Graph& g = segment().graph;
    g.values.push_back(std::move(value));
    return here_[old] = static_cast<ir::ValueId>(g.values.size() - 1);
  }

  Result<void> add_node(ir::NodeId n, std::string name) {
    ir::Node node = graph_.nodes[n];
    const ir::ValueId old = node.output;
    for (ir::ValueId& id : node.inputs) id = TRY(import(id));
    ir::Graph& g = segment().graph;
    ir::Value value = TRY(ir::infer_value(g, node.op, node.inputs, node.attrs));
    value.name = node.name = std::move(name);
    value.producer = static_cast<ir::NodeId>(g.nodes.size());
    node.output = add_value(old, std::move(value));
    made_[old] = {cut_.segments.size() - 1, node.output};
    g.nodes.push_back(std::move(node));
    return {};
  }

  // The value in the current segment.
  Result<ir::ValueId> import(ir::ValueId id) {
    if (const auto found = here_.find(id); found != here_.end()) return found->second;
    const ir::Value& value = graph_.value(id);
    if (is_leaf(value)) return add_value(id, value);
    if (shows_leaf(id)) {
      TRY(add_node(value.producer, {}));
      return here_[id];
    }
    if (value.kind == ir::ValueKind::state) return here_[id] = TRY(import(value.storage));
    const int32_t index = boundary_of(id);
    cut_.boundary[static_cast<size_t>(index)].last_reader = cut_.segments.size() - 1;
    return add_value(id, {.kind = ir::ValueKind::input,
                          .dtype = value.dtype,
                          .shape = value.shape,
                          .name = fmt::format("boundary.{}", index),
                          .input_role = ir::InputRole::boundary,
                          .boundary_idx = index,
                          .row_stride_elems = value.shape.row_elems()});
  }

  // Makes the value an output of the segment that it comes from.
  int32_t boundary_of(ir::ValueId id) {
    const auto [known, is_new] = boundary_.try_emplace(id, static_cast<int32_t>(cut_.boundary.size()));
    if (!is_new) return known->second;
    const Place& place = made_.at(id);
    const ir::Value& value = graph_.value(id);
    cut_.boundary.push_back({.n_bytes = dtype_bytes(value.dtype, static_cast<uint64_t>(value.shape.n_elements())),
                             .made_by = place.segment});
    Segment& from = cut_.segments[place.segment];
    from.graph.outputs.push_back(place.id);
    from.outputs.push_back({.boundary_idx = known->second});
    return known->second;
  }

  void add_outputs() {
    for (size_t i = 0; i < graph_.outputs.size(); ++i) {
      const Place& place = made_.at(graph_.outputs[i]);
      Segment& from = cut_.segments[place.segment];
      const auto known = std::ranges::find(from.graph.outputs, place.id);
      const auto index = static_cast<size_t>(known - from.graph.outputs.begin());
      if (known == from.graph.outputs.end() || from.outputs[index].output_idx >= 0) {
        from.graph.outputs.push_back(place.id);
        from.outputs.push_back({.output_idx = static_cast<int32_t>(i)});
      } else {
        from.outputs[index].output_idx = static_cast<int32_t>(i);
      }
    }
  }

  const ir::Graph& graph_;
  std::span<const size_t> child_;
  Cut cut_;
  std::unordered_map<ir::ValueId, ir::ValueId> here_;  // values of the whole graph in the current segment
  std::unordered_map<ir::ValueId, Place> made_;        // where each value was made
  std::unordered_map<ir::ValueId, int32_t> boundary_;
};
}  // namespace

Result<Cut> cut_graph(const ir::Graph& graph, std::span<const size_t> child_of_node) {
  CHECK(child_of_node.size() == graph.nodes.size(), child_of_node.size());
  return Cutter(graph, child_of_node).run();
}

ir::Graph unite(std::string name, std::span<const ir::Graph* const> pieces) {
  ir::Graph out{.name = std::move(name)};
  std::map<std::string, ir::ValueId, std::less<>> leaves;
  const bool grouped = std::ranges::all_of(pieces, [](const ir::Graph* piece) { return !piece->groups.empty(); });
  for (const ir::Graph* piece : pieces) {
    const auto first_node = static_cast<ir::NodeId>(out.nodes.size());
    std::vector<ir::ValueId> new_id(piece->values.size());
    auto next = static_cast<ir::ValueId>(out.values.size());
    for (ir::ValueId id = 0; id < new_id.size(); ++id) {
      const ir::Value& value = piece->values[id];
      new_id[id] = is_leaf(value) ? leaves.try_emplace(value.name, next).first->second : next;
      if (new_id[id] == next) {
        out.values.push_back(value);
        ++next;
      }
    }
    for (ir::ValueId id = 0; id < new_id.size(); ++id) {
      if (is_leaf(piece->values[id])) continue;
      ir::Value& value = out.values[new_id[id]];
      value.producer += first_node;
      if (value.is_view()) value.storage = new_id[value.storage];
    }
    for (ir::Node node : piece->nodes) {
      for (ir::ValueId& id : node.inputs) id = new_id[id];
      node.output = new_id[node.output];
      out.nodes.push_back(std::move(node));
    }
    for (ir::ValueId id : piece->outputs) out.outputs.push_back(new_id[id]);
    if (!grouped) continue;
    for (ir::Group group : piece->groups) {
      for (ir::NodeId& n : group.nodes) n += first_node;
      out.groups.push_back(std::move(group));
    }
  }
  return out;
}

}  // namespace tokamak::split
