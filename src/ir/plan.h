// Buffer planner: where in one arena each intermediate lies.
//
// A value lives from the group that makes it to the last group that reads it or a view of it; graph outputs live to the
// end. Inside a group everything it reads and writes is live at once, so a kernel never writes over its own input.
// Weights, states and inputs are not placed.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "ir/graph.h"

namespace tokamak::ir {

inline constexpr uint64_t kNotPlaced = UINT64_MAX;
inline constexpr uint64_t kPlanAlignment = 64;  // bytes

struct Plan {
  // By value: bytes from the start of the arena to the first element; kNotPlaced for leaves, elided values and the
  // views of either. Owners start on kPlanAlignment; a view starts inside its owner.
  std::vector<uint64_t> offsets;
  uint64_t n_bytes = 0;  // of the arena

  bool is_placed(ValueId id) const { return offsets[id] != kNotPlaced; }
};

// Values for which `elided` is true get no storage: the backend's kernel keeps them in registers. They must not be
// graph outputs or leave their group (checked). Graph: verified. Errors: out_of_memory when the arena would be larger
// than 2^62 bytes.
Result<Plan> plan_buffers(const Graph& graph, const std::function<bool(ValueId)>& elided = {});

}  // namespace tokamak::ir
