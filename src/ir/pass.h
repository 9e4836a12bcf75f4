// Runs passes over a graph: each is timed, verified afterwards, can be switched off by name, and its result dumped.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "ir/graph.h"

namespace tokamak::ir {

struct Pass {
  std::string name;
  std::function<Result<void>(Graph&)> run;
  // What to do when the pass is switched off by name; empty: nothing.
  std::function<Result<void>(Graph&)> when_disabled = {};
  bool is_required = false;  // cannot be switched off
};

struct PassOptions {
  std::vector<std::string> disabled;
  std::string dump_after;  // pass name, "build" for the graph as given; empty: no dump
  std::function<void(std::string_view text)> dump_sink;
};

struct PassReport {
  std::string name;
  double seconds = 0;  // of the pass itself, without verification
  bool is_disabled = false;
};

// Verifies the graph as given ("build"), then runs `passes` in order. A failure names the pass and leaves the graph in
// the state it had then. Errors: bad_argument when an option names no pass or a required one; whatever a pass or the
// verifier says.
Result<std::vector<PassReport>> run_passes(Graph& graph, std::span<const Pass> passes, const PassOptions& options);

// RESHAPE of RESHAPE reads the first operand; RESHAPE, VIEW and SCALE that change nothing, and nodes that neither an
// output nor a state needs, go. Leaves stay. Clears groups: run before fuse.
Result<void> simplify(Graph& graph);
Pass simplify_pass();

}  // namespace tokamak::ir
