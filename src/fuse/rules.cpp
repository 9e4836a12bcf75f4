#include "fuse/rules.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "fuse/checks.h"

namespace tokamak::fuse {

using ir::Graph;
using ir::kNone;
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

int other_operand(const Graph& graph, const ir::Node& node, ValueId pred) {
  const bool first = is_whole(graph, node.inputs[0], pred), second = is_whole(graph, node.inputs[1], pred);
  return first == second ? -1 : first ? 1 : 0;
}

namespace {

constexpr Op kNormMul[] = {Op::norm, Op::mul};
constexpr Op kNormMulAdd[] = {Op::norm, Op::mul, Op::add};
constexpr Op kRmsNormMul[] = {Op::rms_norm, Op::mul};
constexpr Op kRmsNormMulAdd[] = {Op::rms_norm, Op::mul, Op::add};
constexpr Op kRmsNormMulRope[] = {Op::rms_norm, Op::mul, Op::rope};
constexpr Op kRmsNormMulRopeSetRows[] = {Op::rms_norm, Op::mul, Op::rope, Op::set_rows};
constexpr Op kRopeSetRows[] = {Op::rope, Op::set_rows};
constexpr Op kAdds[] = {Op::add, Op::add, Op::add, Op::add, Op::add, Op::add, Op::add};
constexpr Op kMuls[] = {Op::mul, Op::mul, Op::mul, Op::mul, Op::mul, Op::mul, Op::mul};
constexpr std::span<const Op> adds(size_t n) { return std::span<const Op>(kAdds).first(n); }
constexpr std::span<const Op> muls(size_t n) { return std::span<const Op>(kMuls).first(n); }
constexpr Op kSnake[] = {Op::mul, Op::unary, Op::unary, Op::mul, Op::add};
constexpr Op kMulMatEpilogue[] = {Op::mul_mat, Op::mul, Op::add};
constexpr Op kMulMatGlu[] = {Op::mul_mat, Op::mul, Op::add, Op::mul_mat, Op::mul, Op::add, Op::glu};
constexpr Op kMulMatIdEpilogue[] = {Op::mul_mat_id, Op::get_rows, Op::mul, Op::add_id};
constexpr Op kMulMatIdGlu[] = {Op::mul_mat_id, Op::get_rows, Op::mul,    Op::add_id, Op::mul_mat_id,
                               Op::get_rows,   Op::mul,      Op::add_id, Op::glu};
constexpr Op kTopkSoftmax[] = {Op::soft_max, Op::add,   Op::mask_groups, Op::argsort, Op::get_rows,
                               Op::sum_rows, Op::clamp, Op::div,         Op::scale};
constexpr Op kTopkSigmoid[] = {Op::unary,    Op::add,   Op::mask_groups, Op::argsort, Op::get_rows,
                               Op::sum_rows, Op::clamp, Op::div,         Op::scale};
constexpr Op kTopkSoftplus[] = {Op::unary,    Op::unary,    Op::add,   Op::mask_groups, Op::argsort,
                                Op::get_rows, Op::sum_rows, Op::clamp, Op::div,         Op::scale};
constexpr Op kTopkLateSoftmax[] = {Op::argsort, Op::get_rows, Op::soft_max};
constexpr Op kTopkLateSigmoid[] = {Op::argsort, Op::get_rows, Op::unary};
constexpr Op kMoeSum[] = {Op::mul, Op::add};
constexpr Op kUnaryMul[] = {Op::unary, Op::mul};
constexpr Op kReluSqr[] = {Op::unary, Op::unary};
constexpr Op kSoftcap[] = {Op::scale, Op::unary, Op::scale};
constexpr Op kSsmConvSilu[] = {Op::ssm_conv, Op::add, Op::unary};
constexpr Op kConvStateCpy[] = {Op::ssm_conv_state, Op::cpy};
constexpr Op kDeltaNetCpy[] = {Op::gated_delta_net, Op::cpy};

// Beside the last result, the experts' weights, the experts themselves leave the group.
constexpr uint32_t kTopkOptional = 0b1'1110'0110, kTopkSoftplusOptional = kTopkOptional << 1;
constexpr uint8_t kTopkOutputs[] = {3}, kTopkSoftplusOutputs[] = {4};
constexpr uint8_t kLateOutputs[] = {0};
constexpr uint8_t kDeltaNetOutputs[] = {0};  // y

constexpr auto kRules = std::to_array<Rule>({
    {.id = RuleId::norm_mul,
     .label = "NORM+MUL",
     .ops = kNormMul,
     .check = check_norm,
     .meaning = "layer norm with its weight"},
    {.id = RuleId::norm_mul_add,
     .label = "NORM+MUL+ADD",
     .ops = kNormMulAdd,
     .check = check_norm,
     .meaning = "layer norm with weight and bias, or with a residual"},
    {.id = RuleId::rms_norm_mul,
     .label = "RMS_NORM+MUL",
     .ops = kRmsNormMul,
     .check = check_norm,
     .meaning = "RMS norm with its weight"},
    {.id = RuleId::rms_norm_mul_add,
     .label = "RMS_NORM+MUL+ADD",
     .ops = kRmsNormMulAdd,
     .check = check_norm,
     .meaning = "RMS norm with its weight, then the residual"},
    {.id = RuleId::rms_norm_mul_rope,
     .label = "RMS_NORM+MUL+ROPE",
     .ops = kRmsNormMulRope,
     .check = check_norm_rope,
     .meaning = "per-head norm of queries or keys, then their rotation"},
    {.id = RuleId::rms_norm_mul_rope_set_rows,
     .label = "RMS_NORM+MUL+ROPE+VIEW+SET_ROWS",
     .ops = kRmsNormMulRopeSetRows,
     .equal_shapes = false,
     .check = check_norm_rope_set_rows,
     .meaning = "normed and rotated keys, written to the cache"},
    {.id = RuleId::rope_set_rows,
     .label = "ROPE+VIEW+SET_ROWS",
     .ops = kRopeSetRows,
     .equal_shapes = false,
     .check = check_rope_set_rows,
     .meaning = "rotated keys, written to the cache"},
    {.id = RuleId::add_2, .label = "ADD+ADD", .ops = adds(2), .check = check_chain, .meaning = "sum of three"},
    {.id = RuleId::add_3, .label = "ADD+ADD+ADD", .ops = adds(3), .check = check_chain, .meaning = "sum of four"},
    {.id = RuleId::add_4, .label = "ADD+ADD+ADD+ADD", .ops = adds(4), .check = check_chain, .meaning = "sum of five"},
    {.id = RuleId::add_5,
     .label = "ADD+ADD+ADD+ADD+ADD",
     .ops = adds(5),
     .check = check_chain,
     .meaning = "sum of six"},
    {.id = RuleId::add_6,
     .label = "ADD+ADD+ADD+ADD+ADD+ADD",
     .ops = adds(6),
     .check = check_chain,
     .meaning = "sum of seven"},
    {.id = RuleId::add_7,
     .label = "ADD+ADD+ADD+ADD+ADD+ADD+ADD",
     .ops = adds(7),
     .check = check_chain,
     .meaning = "sum of eight"},
    {.id = RuleId::mul_2, .label = "MUL+MUL", .ops = muls(2), .check = check_chain, .meaning = "product of three"},
    {.id = RuleId::mul_3, .label = "MUL+MUL+MUL", .ops = muls(3), .check = check_chain, .meaning = "product of four"},
    {.id = RuleId::mul_4,
     .label = "MUL+MUL+MUL+MUL",
     .ops = muls(4),
     .check = check_chain,
     .meaning = "product of five"},
    {.id = RuleId::mul_5,
     .label = "MUL+MUL+MUL+MUL+MUL",
     .ops = muls(5),
     .check = check_chain,
     .meaning = "product of six"},
    {.id = RuleId::mul_6,
     .label = "MUL+MUL+MUL+MUL+MUL+MUL",
     .ops = muls(6),
     .check = check_chain,
     .meaning = "product of seven"},
    {.id = RuleId::mul_7,
     .label = "MUL+MUL+MUL+MUL+MUL+MUL+MUL",
     .ops = muls(7),
     .check = check_chain,
     .meaning = "product of eight"},
    {.id = RuleId::snake,
     .label = "MUL+SIN+SQR+MUL+ADD",
     .ops = kSnake,
     .is_chain = false,
     .check = check_snake,
     .meaning = "snake activation x + sin(a x)^2 / b"},
    {.id = RuleId::mul_mat_epilogue,
     .label = "MUL_MAT(+MUL)(+ADD)",
     .ops = kMulMatEpilogue,
     .optional = 0b110,
     .label_by_members = true,
     .check = check_mul_mat_epilogue,
     .meaning = "product with its NVFP4 post-scale, its bias or the residual"},
    {.id = RuleId::mul_mat_glu,
     .label = "MUL_MAT(+MUL)(+ADD) x2 +GLU",
     .ops = kMulMatGlu,
     .optional = 0b0110110,
     .is_chain = false,
     .label_by_members = true,
     .check = check_mul_mat_glu,
     .meaning = "gate and up projections of one input with their post-scales and biases, then the gated activation"},
    {.id = RuleId::mul_mat_id_epilogue,
     .label = "MUL_MAT_ID(+GET_ROWS+MUL)(+ADD_ID)",
     .ops = kMulMatIdEpilogue,
     .optional = 0b1110,
     .is_chain = false,
     .equal_shapes = false,
     .label_by_members = true,
     .check = check_mul_mat_id_epilogue,
     .meaning = "product with the chosen experts, their post-scales and biases"},
    {.id = RuleId::mul_mat_id_glu,
     .label = "MUL_MAT_ID(+GET_ROWS+MUL)(+ADD_ID) x2 +GLU",
     .ops = kMulMatIdGlu,
     .optional = 0b011101110,
     .is_chain = false,
     .equal_shapes = false,
     .label_by_members = true,
     .check = check_mul_mat_id_glu,
     .meaning = "gate and up projections of the chosen experts, then the gated activation"},
    {.id = RuleId::topk_moe_softmax,
     .label = "TOPK_MOE (SOFT_MAX)",
     .ops = kTopkSoftmax,
     .outputs = kTopkOutputs,
     .optional = kTopkOptional,
     .is_chain = false,
     .equal_shapes = false,
     .label_by_members = true,
     .check = check_topk_softmax,
     .meaning = "experts by softmax, with bias, groups, renormalisation and scale where they are"},
    {.id = RuleId::topk_moe_sigmoid,
     .label = "TOPK_MOE (SIGMOID)",
     .ops = kTopkSigmoid,
     .outputs = kTopkOutputs,
     .optional = kTopkOptional,
     .is_chain = false,
     .equal_shapes = false,
     .label_by_members = true,
     .check = check_topk_sigmoid,
     .meaning = "the same by sigmoid"},
    {.id = RuleId::topk_moe_softplus,
     .label = "TOPK_MOE (SOFTPLUS+SQRT)",
     .ops = kTopkSoftplus,
     .outputs = kTopkSoftplusOutputs,
     .optional = kTopkSoftplusOptional,
     .is_chain = false,
     .equal_shapes = false,
     .label_by_members = true,
     .check = check_topk_softplus,
     .meaning = "the same by the root of softplus"},
    {.id = RuleId::topk_moe_late_softmax,
     .label = "ARGSORT+GET_ROWS+SOFT_MAX",
     .ops = kTopkLateSoftmax,
     .outputs = kLateOutputs,
     .is_chain = false,
     .equal_shapes = false,
     .check = check_topk_late_softmax,
     .meaning = "the best experts, then a softmax over them"},
    {.id = RuleId::topk_moe_late_sigmoid,
     .label = "ARGSORT+GET_ROWS+SIGMOID",
     .ops = kTopkLateSigmoid,
     .outputs = kLateOutputs,
     .is_chain = false,
     .equal_shapes = false,
     .check = check_topk_late_sigmoid,
     .meaning = "the best experts, then a sigmoid of each"},
    {.id = RuleId::moe_sum,
     .label = "MUL+ADD...",
     .ops = kMoeSum,
     .last_repeats = true,
     .is_chain = false,
     .equal_shapes = false,
     .label_by_members = true,
     .check = check_moe_sum,
     .meaning = "results of the chosen experts times their weights, summed; a shared expert's and the residual"},
    {.id = RuleId::unary_mul,
     .label = "SILU|SIGMOID|SOFTPLUS +MUL",
     .ops = kUnaryMul,
     .label_by_members = true,
     .check = check_unary_mul,
     .meaning = "an activation times another value"},
    {.id = RuleId::relu_sqr, .label = "RELU+SQR", .ops = kReluSqr, .check = check_relu_sqr, .meaning = "squared ReLU"},
    {.id = RuleId::softcap,
     .label = "SCALE+TANH+SCALE",
     .ops = kSoftcap,
     .check = check_softcap,
     .meaning = "logit softcap c * tanh(x / c)"},
    {.id = RuleId::ssm_conv_silu,
     .label = "SSM_CONV(+ADD)+SILU",
     .ops = kSsmConvSilu,
     .optional = 0b010,
     .label_by_members = true,
     .check = check_ssm_conv,
     .meaning = "causal convolution with its bias, then SiLU"},
    {.id = RuleId::ssm_conv_state_cpy,
     .label = "SSM_CONV_STATE+CPY",
     .ops = kConvStateCpy,
     .equal_shapes = false,
     .check = check_conv_state_cpy,
     .meaning = "the last inputs of a convolution, written to the state"},
    {.id = RuleId::gated_delta_net_cpy,
     .label = "GATED_DELTA_NET+CPY",
     .ops = kDeltaNetCpy,
     .outputs = kDeltaNetOutputs,
     .is_chain = false,
     .equal_shapes = false,
     .check = check_delta_net_cpy,
     .meaning = "delta net that writes its states where they are kept"},
});

constexpr bool table_matches_enum() {
  if (kRules.size() != static_cast<size_t>(RuleId::count_)) return false;
  for (size_t i = 0; i < kRules.size(); ++i)
    if (static_cast<size_t>(kRules[i].id) != i || kRules[i].ops.size() < 2 || kRules[i].ops.size() > kMaxRuleOps ||
        (kRules[i].optional & 1) != 0 || (kRules[i].last_repeats && kRules[i].optional != 0))
      return false;
  return true;
}
static_assert(table_matches_enum());

// Assigns `members` to the rule's ops, leaving out optional ones; the ops of a rule leave one way at most.
bool assign(const Graph& graph, const Rule& rule, std::span<const NodeId> members, size_t op,
            std::vector<NodeId>& out) {
  if (op == rule.ops.size()) return members.empty();
  if (!members.empty() && graph.node(members[0]).op == rule.ops[op]) {
    out[op] = members[0];
    if (assign(graph, rule, members.subspan(1), op + 1, out)) return true;
  }
  out[op] = kNone;
  return (rule.optional >> op & 1) != 0 && assign(graph, rule, members, op + 1, out);
}

// "SILU" of a UNARY, else the op's name.
std::string member_name(const ir::Node& node) {
  if (node.op != Op::unary) return std::string(ir::op_row(node.op).name);
  std::string name(ir::kUnaries[static_cast<size_t>(node.attrs.integer(ir::Attr::unary))]);
  for (char& c : name) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return name;
}

}  // namespace

std::span<const Rule> rules() { return kRules; }

const Rule* find_rule(std::string_view label) {
  for (const Rule& row : kRules)
    if (row.label == label) return &row;
  return nullptr;
}

std::vector<NodeId> member_nodes(const Graph& graph, const ir::Group& group) {
  std::vector<NodeId> nodes;
  for (NodeId id : group.nodes)
    if (!ir::op_row(graph.node(id).op).is_view) nodes.push_back(id);
  return nodes;
}

std::vector<NodeId> pattern_nodes(const Graph& graph, const ir::Group& group) {
  std::vector<NodeId> members = member_nodes(graph, group);
  if (group.rule >= kRules.size() || kRules[group.rule].optional == 0) return members;
  std::vector<NodeId> nodes(kRules[group.rule].ops.size(), kNone);
  CHECK(assign(graph, kRules[group.rule], members, 0, nodes), group.nodes.front());
  return nodes;
}

std::string group_label(const Graph& graph, const ir::Group& group) {
  if (group.rule >= kRules.size()) return std::string(ir::op_row(graph.node(group.nodes.front()).op).name);
  if (!kRules[group.rule].label_by_members) return std::string(kRules[group.rule].label);
  std::vector<NodeId> members = member_nodes(graph, group);
  size_t n_last = 1;
  if (kRules[group.rule].last_repeats) {
    n_last = members.size() - kRules[group.rule].ops.size() + 1;
    members.resize(kRules[group.rule].ops.size());
  }
  std::string label;
  for (NodeId id : members) label += (label.empty() ? "" : "+") + member_name(graph.node(id));
  return n_last == 1 ? label : label + "*" + std::to_string(n_last);
}

}  // namespace tokamak::fuse
