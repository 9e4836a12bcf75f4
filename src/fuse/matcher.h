// The one matcher: optimizer and backends decide "is this a fusable group?" through the same function.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "fuse/rules.h"
#include "fuse/stats.h"
#include "ir/graph.h"
#include "ir/plan.h"

namespace tokamak::fuse {

struct Match {
  RuleId rule;
  std::vector<ir::NodeId> nodes;  // members in order, with the views that travel with them; consecutive
};

// A backend's veto, from its kernel table: does it run `rule` on these nodes (as in Candidate::nodes), given their
// types and shapes? Empty function: everything.
using Supports = std::function<bool(const ir::Graph&, const Rule&, std::span<const ir::NodeId>)>;

// Matches rules on one graph, which must outlive it and not change.
//
// General checks, before a rule's own: the op sequence fits with views left out; chained nodes read their predecessor's
// whole result; shapes are equal where the rule says so; results that are not outputs of the rule are read only inside
// the group and are not graph outputs; a view inside the group is of a member or of a constant weight.
// Mode full also checks that no result that leaves the group overlaps memory that the group reads.
class Matcher {
 public:
  // `plan` is needed for Mode::full only.
  explicit Matcher(const ir::Graph& graph, Supports supports = {}, const ir::Plan* plan = nullptr);

  // Longest rule that matches at `start`, or nothing.
  std::optional<Match> at(ir::NodeId start, Mode mode) const;
  // One rule at `start`, in its longest form that fits.
  std::optional<Match> at(ir::NodeId start, Mode mode, const Rule& rule) const;

 private:
  std::optional<Match> match(ir::NodeId start, Mode mode, const Rule& rule, uint32_t present) const;
  bool fits(const Candidate& candidate, Mode mode, const Rule& rule) const;
  std::optional<std::vector<ir::NodeId>> find_sequence(ir::NodeId start, const Rule& rule, uint32_t present) const;
  bool is_chained(const Candidate& candidate, const Rule& rule) const;
  bool is_closed(const Candidate& candidate, const Rule& rule) const;
  bool is_placed_apart(const Candidate& candidate, const Rule& rule) const;

  const ir::Graph& graph_;
  Supports supports_;
  const ir::Plan* plan_;
  std::vector<std::vector<ir::NodeId>> readers_;
};

// Convenience for a single question; for many, make a Matcher.
std::optional<Match> match_at(const ir::Graph& graph, ir::NodeId start, Mode mode, const Supports& supports = {},
                              const ir::Plan* plan = nullptr);

// The fuse pass: fills graph.groups, a partition of the nodes in order. enabled = false: every node is its own group.
void fuse(ir::Graph& graph, const Supports& supports, bool enabled);

// Every group of `graph` still matches its rule (for graphs read from text). Errors: bad_argument, naming the group.
Result<void> check_groups(const ir::Graph& graph);

}  // namespace tokamak::fuse
