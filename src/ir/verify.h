// The verifier: what every pass may rely on, and what a graph read from text must prove.
#pragma once

#include "base/result.h"
#include "ir/graph.h"

namespace tokamak::ir {

// Holds afterwards:
//   every operand is a leaf or made by an earlier node; every non-leaf value is made by exactly one node
//   arity, attributes and their ranges fit the op table; every type and view is the one that inference gives
//   views lie inside their storage; leaves own theirs and are named; names are unique; a result carries its node's name
//   a state that a step both writes and reads is written first
//   outputs are intermediates; a graph has an output or writes a state
//   groups, when there are any, are a partition of the nodes in order, without a rule only for single nodes,
//   with a rule only around an op that is no view
// Total: any content of `graph` gives an answer. Errors: bad_argument or bad_tensor, naming the graph and the node.
Result<void> verify(const Graph& graph);

}  // namespace tokamak::ir
