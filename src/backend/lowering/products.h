// Products and their epilogues: post-scale, bias or residual, gate and up with GLU.
#pragma once

#include "backend/lowering/tables.h"

namespace tokamak::lowering {

// One product of a group with its post-scale and bias, as nodes; kNone where there is none. look_up: of the experts'
// post-scales.
struct Lane {
  ir::NodeId product = ir::kNone, look_up = ir::kNone, scale = ir::kNone, bias = ir::kNone;
};

// mul_mat_epilogue, or the gate of mul_mat_glu.
Lane epilogue_lane(Nodes nodes);
Lane up_lane(Nodes nodes);
// mul_mat_id_epilogue, or the gate of mul_mat_id_glu.
Lane expert_lane(Nodes nodes);
Lane expert_up_lane(Nodes nodes);

// What the last node of the lane makes.
ir::ValueId result_of(const ir::Graph& graph, const Lane& lane);

// Of MUL_MAT's lanes, kNone where there is none: the post-scale's weight; the bias's weight; what is added instead.
ir::ValueId scale_weight(const ir::Graph& graph, const Lane& lane);
ir::ValueId bias_weight(const ir::Graph& graph, const Lane& lane);
ir::ValueId residual_of(const ir::Graph& graph, const Lane& lane);

// What kernels of MUL_MAT can do, for the tables: one matrix per lane, vectors that are tensors of their own.
bool supports_mul_mat_epilogue(const ir::Graph& graph, Nodes nodes);
bool supports_mul_mat_glu(const ir::Graph& graph, Nodes nodes);

}  // namespace tokamak::lowering
