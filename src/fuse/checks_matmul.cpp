// Epilogues of matrix products. A lane is a product, its post-scale and its bias: y = scale * (W x) + bias.
#include "fuse/checks.h"

namespace tokamak::fuse {

using ir::Node;
using ir::Value;
using ir::ValueId;

namespace {

// Ops of a lane inside a rule: the product, for experts the look-up of their scales, the scale, the bias.
struct Lane {
  size_t product, look_up, scale, bias;  // look_up == product: there is no such op in the rule
};
constexpr Lane kDense{0, 0, 1, 2}, kDenseGate{0, 0, 1, 2}, kDenseUp{3, 3, 4, 5};
constexpr Lane kExpert{0, 1, 2, 3}, kExpertUp{4, 5, 6, 7};

bool has_look_up(const Candidate& c, const Lane& lane) { return lane.look_up != lane.product && c.has(lane.look_up); }

// The result of the lane so far: up to and including op `end`.
ValueId result_before(const Candidate& c, const Lane& lane, size_t end) {
  size_t last = lane.product;
  for (size_t i : {lane.scale, lane.bias})
    if (i < end && c.has(i)) last = i;
  return c.node(last).output;
}
ValueId result_of(const Candidate& c, const Lane& lane) { return result_before(c, lane, lane.bias + 1); }

const Value& weight_of(const Candidate& c, const Lane& lane) { return value_of(c, c.node(lane.product).inputs[0]); }

// A factor behind the product is folded in for NVFP4 only: for other types looking for it costs more than it saves.
bool check_scale(const Candidate& c, const Lane& lane) {
  if (!c.has(lane.scale)) return !has_look_up(c, lane);
  if (weight_of(c, lane).dtype != DType::nvfp4) return false;
  const Node &product = c.node(lane.product), &mul = c.node(lane.scale);
  const int other = other_operand(c.graph, mul, product.output);
  if (other < 0) return false;
  const ValueId factor = mul.inputs[static_cast<size_t>(other)];
  const Value& scale = value_of(c, factor);
  if (value_of(c, mul.output).shape != value_of(c, product.output).shape) return false;
  if (lane.look_up == lane.product)  // one number for the tensor
    return is_weight(c.graph, factor) && scale.dtype == DType::f32 && scale.shape.n_elements() == 1;
  if (!has_look_up(c, lane)) return false;
  const Node& look_up = c.node(lane.look_up);  // one number per expert
  const Value& table = value_of(c, look_up.inputs[0]);
  return factor == look_up.output && table.kind == ir::ValueKind::weight && table.dtype == DType::f32 &&
         table.shape == Shape{weight_of(c, lane).shape[0], 1} && look_up.inputs[1] == product.inputs[2];
}

// The addend is a vector among the weights, or (where a residual may be added) a whole activation made before.
bool check_bias(const Candidate& c, const Lane& lane, bool allow_residual) {
  if (!c.has(lane.bias)) return true;
  const Node& add = c.node(lane.bias);
  const ValueId sum = result_before(c, lane, lane.bias);
  if (add.op == ir::Op::add_id) {
    const Value& bias = value_of(c, add.inputs[1]);
    return is_whole(c.graph, add.inputs[0], sum) && bias.kind == ir::ValueKind::weight &&
           bias.shape[0] == weight_of(c, lane).shape[0] && add.inputs[2] == c.node(lane.product).inputs[2];
  }
  const int side = other_operand(c.graph, add, sum);
  if (side < 0) return false;
  const ValueId addend = add.inputs[static_cast<size_t>(side)];
  const Shape& shape = value_of(c, addend).shape;
  if (!comes_before(c, addend)) return false;
  if (shape.rank() == 1 && shape[0] == value_of(c, sum).shape[-1] && is_weight(c.graph, addend)) return true;
  return allow_residual && shape == value_of(c, sum).shape;
}

bool check_lane(const Candidate& c, const Lane& lane, bool allow_residual) {
  return is_weight(c.graph, c.node(lane.product).inputs[0]) && check_scale(c, lane) &&
         check_bias(c, lane, allow_residual);
}

// Both lanes read the same input through weights of one type and shape, with the same epilogue; the first is the gate.
bool check_glu(const Candidate& c, const Lane& gate, const Lane& up, size_t glu_op) {
  const Node &a = c.node(gate.product), &b = c.node(up.product), &glu = c.node(glu_op);
  if (!check_lane(c, gate, false) || !check_lane(c, up, false)) return false;
  if (c.has(gate.scale) != c.has(up.scale) || c.has(gate.bias) != c.has(up.bias)) return false;
  if (glu.inputs.size() != 2 || glu.inputs[0] != result_of(c, gate) || glu.inputs[1] != result_of(c, up)) return false;
  for (size_t i = 1; i < a.inputs.size(); ++i)
    if (a.inputs[i] != b.inputs[i]) return false;
  return weight_of(c, gate).dtype == weight_of(c, up).dtype && weight_of(c, gate).shape == weight_of(c, up).shape;
}

}  // namespace

bool check_mul_mat_epilogue(const Candidate& c, Mode) {
  return (c.has(kDense.scale) || c.has(kDense.bias)) && check_lane(c, kDense, true);
}
bool check_mul_mat_glu(const Candidate& c, Mode) { return check_glu(c, kDenseGate, kDenseUp, 6); }
bool check_mul_mat_id_epilogue(const Candidate& c, Mode) {
  return (c.has(kExpert.scale) || c.has(kExpert.bias)) && check_lane(c, kExpert, false);
}
bool check_mul_mat_id_glu(const Candidate& c, Mode) { return check_glu(c, kExpert, kExpertUp, 8); }

}  // namespace tokamak::fuse
