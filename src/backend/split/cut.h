// Cuts a graph into pieces that run one after the other, each on one child, and joins pieces again.
#pragma once

#include <span>
#include <vector>

#include "ir/graph.h"

namespace tokamak::split {

// Where an output of a segment goes: to the caller, to the boundary, or to both.
struct SegmentOutput {
  int32_t output_idx = -1;    // of the whole graph's outputs
  int32_t boundary_idx = -1;  // what later segments read as an input of that index
};

struct Segment {
  size_t child = 0;
  ir::Graph graph;
  std::vector<SegmentOutput> outputs;  // by output of `graph`
};

struct BoundaryValue {
  uint64_t n_bytes = 0;
  size_t made_by = 0, last_reader = 0;  // segments
};

struct Cut {
  std::vector<Segment> segments;  // in the order of the nodes: neighbours are on different children
  std::vector<BoundaryValue> boundary;
};

// The longest runs of nodes with the same child. Views of weights and inputs go to every segment that reads them; a
// state that an earlier segment has written is read as it is in the cache. Graph: verified, without groups, every node
// of use to an output or a state (ir::simplify). child_of_node: by node. Errors: those of ir::infer_value.
Result<Cut> cut_graph(const ir::Graph& graph, std::span<const size_t> child_of_node);

// One graph of several pieces of one graph, in their order: weights, states and inputs once each, all outputs, and the
// groups where every piece has some.
ir::Graph unite(std::string name, std::span<const ir::Graph* const> pieces);

}  // namespace tokamak::split
