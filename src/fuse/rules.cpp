#include "fuse/rules.h"

#include <array>

namespace tokamak::fuse {

using ir::Attr;
using ir::Graph;
using ir::kNone;
using ir::Node;
using ir::NodeId;
using ir::Op;
using ir::Value;
using ir::ValueId;

bool is_whole(const Graph& graph, ValueId id, ValueId of) {
  if (id == of) return true;
  const Value &a = graph.value(id), &b = graph.value(of);
  return graph.storage_of(id) == graph.storage_of(of) && a.offset_elems == b.offset_elems && a.is_contiguous() &&
         b.is_contiguous() && a.shape.n_elements() == b.shape.n_elements();
}

int other_operand(const Graph& graph, const Node& node, ValueId pred) {
  const bool first = is_whole(graph, node.inputs[0], pred), second = is_whole(graph, node.inputs[1], pred);
  return first == second ? -1 : first ? 1 : 0;
}

std::vector<NodeId> pattern_nodes(const Graph& graph, const ir::Group& group) {
  std::vector<NodeId> nodes;
  for (NodeId id : group.nodes)
    if (!ir::op_row(graph.node(id).op).is_view) nodes.push_back(id);
  return nodes;
}

namespace {

bool is_weight(const Graph& graph, ValueId id) {
  return graph.value(graph.storage_of(id)).kind == ir::ValueKind::weight;
}

// The memory of `id` is complete before the first node of the group runs.
bool comes_before(const Candidate& c, ValueId id) {
  const NodeId producer = c.graph.value(c.graph.storage_of(id)).producer;
  return producer == kNone || producer < c.nodes.front();
}

// Nodes 1.. take their predecessor as operand 0 and something older as operand 1.
bool extends_left(const Candidate& c, size_t begin, size_t end) {
  for (size_t i = begin; i < end; ++i) {
    const Node& node = c.node(i);
    if (!is_whole(c.graph, node.inputs[0], c.node(i - 1).output)) return false;
    if (!comes_before(c, node.inputs[1])) return false;
  }
  return true;
}

bool check_norm(const Candidate& c, Mode) {
  if (!extends_left(c, 1, c.nodes.size())) return false;
  const Value& weight = c.graph.value(c.node(1).inputs[1]);
  return weight.shape.n_rows() == 1 || weight.is_contiguous();
}

// The weight is one vector for all heads, since the rotation works head by head.
bool check_norm_rope(const Candidate& c, Mode) {
  const Node &mul = c.node(1), &rope = c.node(2);
  const Value& weight = c.graph.value(mul.inputs[1]);
  return extends_left(c, 1, 2) && weight.shape.rank() == 1 &&
         c.graph.value(mul.output).shape == c.graph.value(c.node(0).output).shape &&
         c.graph.value(rope.output).shape == c.graph.value(mul.output).shape &&
         is_whole(c.graph, rope.inputs[0], mul.output);
}

// The rows that SET_ROWS stores are the rotated ones; its slots are known beforehand.
bool check_rope_set_rows(const Candidate& c, Mode) {
  const size_t last = c.nodes.size() - 1;
  const Node &rope = c.node(last - 1), &write = c.node(last);
  return is_whole(c.graph, write.inputs[1], rope.output) &&
         c.graph.value(write.inputs[1]).shape == c.graph.value(rope.output).shape && comes_before(c, write.inputs[0]) &&
         comes_before(c, write.inputs[2]);
}
bool check_norm_rope_set_rows(const Candidate& c, Mode mode) {
  return check_norm_rope(c, mode) && check_rope_set_rows(c, mode);
}

bool check_add_chain(const Candidate& c, Mode) {
  if (!extends_left(c, 1, c.nodes.size())) return false;
  const Value& first = c.graph.value(c.node(0).inputs[1]);
  for (size_t i = 1; i < c.nodes.size(); ++i) {
    const Value& addend = c.graph.value(c.node(i).inputs[1]);
    if (addend.shape != first.shape || addend.row_stride_elems != first.row_stride_elems) return false;
  }
  return true;
}

// The addend is a bias vector among the weights, or a whole activation (the residual) that is ready before.
bool check_mul_mat_add(const Candidate& c, Mode) {
  const Node &mul_mat = c.node(0), &add = c.node(1);
  const int side = other_operand(c.graph, add, mul_mat.output);
  if (side < 0) return false;
  const ValueId addend = add.inputs[static_cast<size_t>(side)];
  const Shape& shape = c.graph.value(addend).shape;
  if (!comes_before(c, addend)) return false;
  if (shape == c.graph.value(mul_mat.output).shape) return true;
  return shape.rank() == 1 && is_weight(c.graph, addend);
}

bool check_mul_mat_glu(const Candidate& c, Mode) {
  const Node &gate = c.node(0), &up = c.node(1), &glu = c.node(2);
  if (glu.inputs.size() != 2 || glu.inputs[0] != gate.output || glu.inputs[1] != up.output) return false;
  if (gate.inputs[1] != up.inputs[1]) return false;
  const ValueId gate_weight = gate.inputs[0], up_weight = up.inputs[0];
  return is_weight(c.graph, gate_weight) && is_weight(c.graph, up_weight) &&
         c.graph.value(gate_weight).dtype == c.graph.value(up_weight).dtype &&
         c.graph.value(gate_weight).shape == c.graph.value(up_weight).shape;
}

bool check_softcap(const Candidate& c, Mode) {
  return c.node(1).attrs.keyword<ir::Unary>(Attr::unary) == ir::Unary::tanh &&
         c.node(0).attrs.number(Attr::bias) == 0 && c.node(2).attrs.number(Attr::bias) == 0;
}

constexpr Op kNormMul[] = {Op::norm, Op::mul};
constexpr Op kNormMulAdd[] = {Op::norm, Op::mul, Op::add};
constexpr Op kRmsNormMul[] = {Op::rms_norm, Op::mul};
constexpr Op kRmsNormMulAdd[] = {Op::rms_norm, Op::mul, Op::add};
constexpr Op kRmsNormMulRope[] = {Op::rms_norm, Op::mul, Op::rope};
constexpr Op kRmsNormMulRopeSetRows[] = {Op::rms_norm, Op::mul, Op::rope, Op::set_rows};
constexpr Op kRopeSetRows[] = {Op::rope, Op::set_rows};
constexpr Op kAdds[] = {Op::add, Op::add, Op::add, Op::add, Op::add, Op::add, Op::add};
constexpr std::span<const Op> adds(size_t n) { return std::span<const Op>(kAdds).first(n); }
constexpr Op kMulMatAdd[] = {Op::mul_mat, Op::add};
constexpr Op kMulMatGlu[] = {Op::mul_mat, Op::mul_mat, Op::glu};
constexpr Op kSoftcap[] = {Op::scale, Op::unary, Op::scale};

// Columns after ops: outputs, is_chain, equal_shapes.
constexpr auto kRules = std::to_array<Rule>({
    {RuleId::norm_mul, "NORM+MUL", kNormMul, {}, true, true, check_norm, "layer norm with its weight"},
    {RuleId::norm_mul_add,
     "NORM+MUL+ADD",
     kNormMulAdd,
     {},
     true,
     true,
     check_norm,
     "layer norm with weight and bias, or with a residual"},
    {RuleId::rms_norm_mul, "RMS_NORM+MUL", kRmsNormMul, {}, true, true, check_norm, "RMS norm with its weight"},
    {RuleId::rms_norm_mul_add,
     "RMS_NORM+MUL+ADD",
     kRmsNormMulAdd,
     {},
     true,
     true,
     check_norm,
     "RMS norm with its weight, then the residual"},
    {RuleId::rms_norm_mul_rope,
     "RMS_NORM+MUL+ROPE",
     kRmsNormMulRope,
     {},
     true,
     true,
     check_norm_rope,
     "per-head norm of queries or keys, then their rotation"},
    {RuleId::rms_norm_mul_rope_set_rows,
     "RMS_NORM+MUL+ROPE+VIEW+SET_ROWS",
     kRmsNormMulRopeSetRows,
     {},
     true,
     false,
     check_norm_rope_set_rows,
     "normed and rotated keys, written to the cache"},
    {RuleId::rope_set_rows,
     "ROPE+VIEW+SET_ROWS",
     kRopeSetRows,
     {},
     true,
     false,
     check_rope_set_rows,
     "rotated keys, written to the cache"},
    {RuleId::add_2, "ADD+ADD", adds(2), {}, true, true, check_add_chain, "sum of three"},
    {RuleId::add_3, "ADD+ADD+ADD", adds(3), {}, true, true, check_add_chain, "sum of four"},
    {RuleId::add_4, "ADD+ADD+ADD+ADD", adds(4), {}, true, true, check_add_chain, "sum of five"},
    {RuleId::add_5, "ADD+ADD+ADD+ADD+ADD", adds(5), {}, true, true, check_add_chain, "sum of six"},
    {RuleId::add_6, "ADD+ADD+ADD+ADD+ADD+ADD", adds(6), {}, true, true, check_add_chain, "sum of seven"},
    {RuleId::add_7, "ADD+ADD+ADD+ADD+ADD+ADD+ADD", adds(7), {}, true, true, check_add_chain, "sum of eight"},
    {RuleId::mul_mat_add,
     "MUL_MAT+ADD",
     kMulMatAdd,
     {},
     true,
     true,
     check_mul_mat_add,
     "product with its bias, or with the residual"},
    {RuleId::mul_mat_glu,
     "MUL_MAT+MUL_MAT+GLU",
     kMulMatGlu,
     {},
     false,
     true,
     check_mul_mat_glu,
     "gate and up projections of one input, then the gated activation"},
    {RuleId::softcap, "SCALE+TANH+SCALE", kSoftcap, {}, true, true, check_softcap, "logit softcap c * tanh(x / c)"},
});

constexpr bool table_matches_enum() {
  if (kRules.size() != static_cast<size_t>(RuleId::count_)) return false;
  for (size_t i = 0; i < kRules.size(); ++i)
    if (static_cast<size_t>(kRules[i].id) != i || kRules[i].ops.size() < 2) return false;
  return true;
}
static_assert(table_matches_enum());

}  // namespace

std::span<const Rule> rules() { return kRules; }

const Rule* find_rule(std::string_view label) {
  for (const Rule& row : kRules)
    if (row.label == label) return &row;
  return nullptr;
}

std::string_view group_label(const Graph& graph, const ir::Group& group) {
  if (group.rule < kRules.size()) return kRules[group.rule].label;
  return ir::op_row(graph.node(group.nodes.front()).op).name;
}

}  // namespace tokamak::fuse
