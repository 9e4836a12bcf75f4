#include "check/bounds.h"

#include <algorithm>
#include <array>

#include "base/check.h"
#include "check/error_analysis.h"
#include "quant/codec.h"

namespace tokamak::check {

using ir::Op;
using ir::ValueId;

namespace {

struct Row {
  Op op;
  ErrorRule rule;
  double max_nmse = 1e-7;
};

// In enum order.
constexpr auto kRows = std::to_array<Row>({
    {Op::get_rows, error_get_rows},
    {Op::add, error_binary},
    {Op::sub, error_binary},
    {Op::mul, error_binary},
    {Op::div, error_binary},
    {Op::scale, error_scale},
    {Op::clamp, error_clamp},
    {Op::unary, error_unary},
    {Op::glu, error_glu},
    {Op::norm, error_norm},
    {Op::rms_norm, error_norm},
    {Op::l2_norm, error_norm},
    {Op::soft_max, error_soft_max, 1e-6},
    {Op::sum_rows, error_sum_rows},
    {Op::argsort, error_argsort},
    {Op::mask_groups, error_mask_groups},
    {Op::concat, error_concat},
    {Op::cont, error_same},
    {Op::mul_mat, error_mul_mat, 5e-4},
    {Op::mul_mat_id, error_mul_mat_id, 5e-4},
    {Op::add_id, error_add_id},
    {Op::rope, error_rope},
    {Op::attn_temp, error_attn_temp},
    {Op::set_rows, error_set_rows, 5e-4},
    {Op::flash_attn_ext, error_flash_attn_ext, 5e-4},
    {Op::ssm_conv, error_ssm_conv},
    {Op::ssm_conv_state, error_ssm_conv_state},
    {Op::gated_delta_net, error_gated_delta_net},
    {Op::cpy, error_cpy},
    {Op::cross_entropy_loss, error_cross_entropy},
    {Op::reshape, error_view},
    {Op::view, error_view},
});
constexpr bool rows_match_ops() {
  for (size_t i = 0; i < kRows.size(); ++i)
    if (static_cast<size_t>(kRows[i].op) != i) return false;
  return kRows.size() == static_cast<size_t>(Op::count_);
}
static_assert(rows_match_ops());

const std::vector<int32_t>& input_numbers(const StepData& step, ir::InputRole role) {
  static const std::vector<int32_t> none;
  switch (role) {
    case ir::InputRole::tokens:
      return step.tokens;
    case ir::InputRole::positions:
      return step.positions;
    case ir::InputRole::seq_ids:
      return step.seq_ids;
    case ir::InputRole::slots:
      return step.slots;
    case ir::InputRole::state_src:
      return step.state_src;
    case ir::InputRole::state_rows:
      return step.state_rows;
    case ir::InputRole::out_rows:
    case ir::InputRole::none:
    case ir::InputRole::boundary:
    case ir::InputRole::count_:
      break;
  }
  return none;
}

void read_leaves(Analysis& a) {
  for (ValueId id = 0; id < a.graph.values.size(); ++id) {
    const ir::Value& value = a.graph.value(id);
    Numbers& n = a.of(id);
    if (value.kind == ir::ValueKind::input) n.i = input_numbers(a.step, value.input_role);
    if (value.kind != ir::ValueKind::weight || value.is_view()) continue;
    n.x.resize(static_cast<size_t>(value.shape.n_elements()));
    decode_row(value.dtype, a.c.weights.find(value.name)->second.bytes.bytes().data(), value.shape.n_elements(),
               n.x.data());
    n.e.assign(n.x.size(), 0);
  }
}

using States = std::map<std::pair<ir::StateRole, int32_t>, Numbers>;

// Walks the graph. results: by value, what the reference holds; values without get theirs from the rules.
std::vector<Numbers> analyse(const Case& c, const ir::Graph& graph, const StepData& step, const Arithmetic& arithmetic,
                             States& states, const std::map<ValueId, const std::vector<float>*>& results,
                             bool& is_ambiguous) {
  Analysis a{c, graph, step, arithmetic, std::vector<Numbers>(graph.values.size()), false, states};
  read_leaves(a);
  for (const ir::Node& node : graph.nodes) {
    Numbers& out = a.of(node.output);
    if (const auto found = results.find(node.output); found != results.end()) {
      out.x = *found->second;
      out.e.assign(out.x.size(), 0);
    }
    kRows[static_cast<size_t>(node.op)].rule(a, node);
  }
  is_ambiguous |= a.is_ambiguous;
  return std::move(a.numbers);
}

// The recurrent states and the empty cache before the run.
States initial_states(const Case& c) {
  States states;
  const auto row_floats = static_cast<size_t>(state_row_floats(c.kv));
  size_t at = 0;
  for (size_t layer = 0; layer < c.kv.recurrent.size(); ++layer) {
    const auto idx = static_cast<int32_t>(layer);
    const auto take = [&](ir::StateRole role, int64_t n_elems) {
      Numbers& n = states[{role, idx}];
      for (size_t row = 0; row_floats > 0 && row < c.states.size() / row_floats; ++row) {
        const auto begin = c.states.begin() + static_cast<ptrdiff_t>(row * row_floats + at);
        n.x.insert(n.x.end(), begin, begin + n_elems);
      }
      n.e.assign(n.x.size(), 0);
      at += static_cast<size_t>(n_elems);
    };
    take(ir::StateRole::conv, c.kv.recurrent[layer].conv_elems);
    take(ir::StateRole::recurrent, c.kv.recurrent[layer].recurrent_elems);
    const KvLayerShape& kv = c.kv.layers[layer];
    const auto n_slots = static_cast<size_t>(c.kv.n_pages * c.kv.page_size * kv.n_head_kv);
    for (const auto& [role, dim] :
         {std::pair{ir::StateRole::kv_k, kv.head_dim_k}, {ir::StateRole::kv_v, kv.head_dim_v}}) {
      states[{role, idx}].x.assign(n_slots * static_cast<size_t>(dim), 0.0f);
      states[{role, idx}].e.assign(n_slots * static_cast<size_t>(dim), 0.0);
    }
  }
  return states;
}

std::vector<double> state_bounds(const Case& c, const States& states) {
  std::vector<double> out;
  const auto row_floats = static_cast<size_t>(state_row_floats(c.kv));
  for (size_t row = 0; row_floats > 0 && row < c.states.size() / row_floats; ++row)
    for (size_t layer = 0; layer < c.kv.recurrent.size(); ++layer)
      for (const auto& [role, n] : {std::pair{ir::StateRole::conv, c.kv.recurrent[layer].conv_elems},
                                    {ir::StateRole::recurrent, c.kv.recurrent[layer].recurrent_elems}}) {
        const std::vector<double>& e = states.at({role, static_cast<int32_t>(layer)}).e;
        const auto begin = e.begin() + static_cast<ptrdiff_t>(row) * n;
        out.insert(out.end(), begin, begin + n);
      }
  return out;
}

}  // namespace

Result<Expected> expect(const Case& c, Backend& reference, const Arithmetic& arithmetic) {
  ir::Graph all = c.graph;
  all.outputs.clear();
  for (ValueId id = 0; id < all.values.size(); ++id)
    if (all.value(id).kind == ir::ValueKind::intermediate && all.value(id).dtype == DType::f32)
      all.outputs.push_back(id);
  RunOutcome run = TRY(run_case(c, reference, {.fusion = false, .graph = &all}));
  std::map<ValueId, const std::vector<float>*> results;
  for (size_t i = 0; i < all.outputs.size(); ++i) results[all.outputs[i]] = &run.outputs[i];

  States states = initial_states(c);
  Expected out;
  if (c.fill) analyse(c, *c.fill, c.all_slots, arithmetic, states, {}, out.is_ambiguous);
  std::vector<Numbers> numbers = analyse(c, c.graph, c.step, arithmetic, states, results, out.is_ambiguous);
  for (ValueId id : c.graph.outputs) out.outputs.push_back({std::move(numbers[id].x), std::move(numbers[id].e)});
  out.states = {std::move(run.states), state_bounds(c, states)};
  if (!c.probe) return out;
  // Cached values are read by a graph of their own, whose arithmetic counts as well.
  std::map<ValueId, const std::vector<float>*> probed;
  for (size_t i = 0; i < c.probe->outputs.size(); ++i) probed[c.probe->outputs[i]] = &run.values[i];
  numbers = analyse(c, *c.probe, c.all_slots, arithmetic, states, probed, out.is_ambiguous);
  for (ValueId id : c.probe->outputs) out.values.push_back({std::move(numbers[id].x), std::move(numbers[id].e)});
  return out;
}

double max_nmse(const ir::Graph& graph) {
  double worst = 0;
  for (const ir::Node& node : graph.nodes) worst = std::max(worst, kRows[static_cast<size_t>(node.op)].max_nmse);
  return worst;
}

}  // namespace tokamak::check
