// RMS_NORM+MUL+ROPE of heads, with or without a cache write behind.
#pragma once

#include "backend/lowering/tables.h"
#include "backend/rope_frequencies.h"

namespace tokamak::lowering {

// RMS_NORM+MUL in front of a rotation; weight kNone: the group starts with something else.
struct HeadNorm {
  ir::ValueId weight = ir::kNone;
  float eps = 0;
};
HeadNorm head_norm(const ir::Graph& graph, Nodes nodes);
// For the tables: the norm's weight is one row for all heads.
bool supports_head_norm(const ir::Graph& graph, Nodes nodes);

// The weight that divides a rotation's frequencies, or kNone.
ir::ValueId rope_factors(const ir::Node& rope);
// attrs: of ROPE.
RopeFrequencyParams frequency_params(const ir::Attrs& attrs);

}  // namespace tokamak::lowering
