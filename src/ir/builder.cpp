#include "ir/builder.h"

#include <fmt/format.h>

#include <utility>

#include "ir/verify.h"

namespace tokamak::ir {

GraphBuilder::GraphBuilder(std::string name) { graph_.name = std::move(name); }

ValueId GraphBuilder::fail(Error error) {
  if (!error_) error_ = std::move(error);
  return kNone;
}

ValueId GraphBuilder::add_leaf(Value value) {
  if (error_) return kNone;
  if (auto ok = check_type(value.dtype, value.shape); !ok) {
    Error error = ok.error();
    error.where = value.name + " " + error.where;
    return fail(std::move(error));
  }
  value.row_stride_elems = value.shape.row_elems();
  const ValueId id = static_cast<ValueId>(graph_.values.size());
  const auto [it, is_new] = names_.try_emplace(value.name, id);
  if (is_new) {
    graph_.values.push_back(std::move(value));
    return id;
  }
  const Value& known = graph_.values[it->second];
  if (known == value) return it->second;
  return fail({.code = ErrorCode::bad_argument,
               .what = fmt::format("asked for as {} {}, already there as {} {}{}", dtype_name(value.dtype),
                                   value.shape.to_string(), dtype_name(known.dtype), known.shape.to_string(),
                                   known.kind == value.kind ? "" : " of another kind"),
               .where = value.name});
}

ValueId GraphBuilder::weight(std::string_view name, DType dtype, const Shape& shape) {
  if (name.empty()) return fail({.what = "a weight needs a name", .where = graph_.name});
  return add_leaf({.kind = ValueKind::weight, .dtype = dtype, .shape = shape, .name = std::string(name)});
}

ValueId GraphBuilder::input(InputRole role, const Shape& shape) {
  return add_leaf({.kind = ValueKind::input,
                   .dtype = DType::i32,
                   .shape = shape,
                   .name = std::string(kInputRoles[static_cast<size_t>(role)]),
                   .input_role = role});
}

ValueId GraphBuilder::boundary(int32_t boundary_idx, DType dtype, const Shape& shape) {
  return add_leaf({.kind = ValueKind::input,
                   .dtype = dtype,
                   .shape = shape,
                   .name = fmt::format("boundary.{}", boundary_idx),
                   .input_role = InputRole::boundary,
                   .boundary_idx = boundary_idx});
}

ValueId GraphBuilder::state(StateRole role, int32_t layer_idx, DType dtype, const Shape& shape) {
  return add_leaf({.kind = ValueKind::state,
                   .dtype = dtype,
                   .shape = shape,
                   .name = fmt::format("cache_{}.{}", kStateRoles[static_cast<size_t>(role)], layer_idx),
                   .state_role = role,
                   .layer_idx = layer_idx});
}

ValueId GraphBuilder::node(Op op, std::initializer_list<ValueId> inputs, Attrs attrs, std::string_view name) {
  if (error_) return kNone;
  const auto wrong = [&](Error error) {
    if (!name.empty()) error.where = fmt::format("{}: {}", name, error.where);
    return fail(std::move(error));
  };
  for (ValueId id : inputs)
    if (id >= graph_.values.size())
      return wrong({.what = "an operand is no value of this graph", .where = std::string(op_row(op).name)});
  auto value = infer_value(graph_, op, {inputs.begin(), inputs.size()}, attrs);
  if (!value) return wrong(value.error());
  const ValueId id = static_cast<ValueId>(graph_.values.size());
  if (!name.empty() && !names_.try_emplace(std::string(name), id).second)
    return wrong({.what = "the name is already in use", .where = std::string(op_row(op).name)});
  value->name = name;
  value->producer = static_cast<NodeId>(graph_.nodes.size());
  graph_.values.push_back(std::move(*value));
  graph_.nodes.push_back({op, std::string(name), inputs, id, std::move(attrs)});
  return id;
}

ValueId GraphBuilder::get_rows(ValueId table, ValueId ids, std::string_view name) {
  return node(Op::get_rows, {table, ids}, {}, name);
}
ValueId GraphBuilder::add(ValueId a, ValueId b, std::string_view name) { return node(Op::add, {a, b}, {}, name); }
ValueId GraphBuilder::sub(ValueId a, ValueId b, std::string_view name) { return node(Op::sub, {a, b}, {}, name); }
ValueId GraphBuilder::mul(ValueId a, ValueId b, std::string_view name) { return node(Op::mul, {a, b}, {}, name); }
ValueId GraphBuilder::div(ValueId a, ValueId b, std::string_view name) { return node(Op::div, {a, b}, {}, name); }
ValueId GraphBuilder::scale(ValueId x, double factor, double bias, std::string_view name) {
  return node(Op::scale, {x}, {{Attr::scale, factor}, {Attr::bias, bias}}, name);
}
ValueId GraphBuilder::unary(ValueId x, Unary function, std::string_view name) {
  return node(Op::unary, {x}, {{Attr::unary, static_cast<int64_t>(function)}}, name);
}
ValueId GraphBuilder::clamp(ValueId x, double min, double max, std::string_view name) {
  return node(Op::clamp, {x}, {{Attr::min, min}, {Attr::max, max}}, name);
}

namespace {
Attrs glu_attrs(const GluParams& p) {
  return {{Attr::glu, static_cast<int64_t>(p.kind)}, {Attr::alpha, p.alpha}, {Attr::limit, p.limit}};
}
}  // namespace

ValueId GraphBuilder::glu(ValueId gate, ValueId up, const GluParams& params, std::string_view name) {
  return node(Op::glu, {gate, up}, glu_attrs(params), name);
}
ValueId GraphBuilder::glu_halves(ValueId gate_up, const GluParams& params, std::string_view name) {
  return node(Op::glu, {gate_up}, glu_attrs(params), name);
}
ValueId GraphBuilder::norm(ValueId x, double eps, std::string_view name) {
  return node(Op::norm, {x}, {{Attr::eps, eps}}, name);
}
ValueId GraphBuilder::rms_norm(ValueId x, double eps, std::string_view name) {
  return node(Op::rms_norm, {x}, {{Attr::eps, eps}}, name);
}
ValueId GraphBuilder::l2_norm(ValueId x, double eps, std::string_view name) {
  return node(Op::l2_norm, {x}, {{Attr::eps, eps}}, name);
}
ValueId GraphBuilder::soft_max(ValueId x, std::string_view name) { return node(Op::soft_max, {x}, {}, name); }
ValueId GraphBuilder::sum_rows(ValueId x, std::string_view name) { return node(Op::sum_rows, {x}, {}, name); }
ValueId GraphBuilder::argsort(ValueId x, std::string_view name) { return node(Op::argsort, {x}, {}, name); }
ValueId GraphBuilder::mask_groups(ValueId scores, int64_t n_group, int64_t n_group_used, int64_t n_best,
                                  std::string_view name) {
  return node(Op::mask_groups, {scores},
              {{Attr::n_group, n_group}, {Attr::n_group_used, n_group_used}, {Attr::n_best, n_best}}, name);
}
ValueId GraphBuilder::concat(ValueId a, ValueId b, std::string_view name) { return node(Op::concat, {a, b}, {}, name); }
ValueId GraphBuilder::cont(ValueId x, std::string_view name) { return node(Op::cont, {x}, {}, name); }
ValueId GraphBuilder::mul_mat_id(ValueId weights, ValueId x, ValueId ids, std::string_view name) {
  return node(Op::mul_mat_id, {weights, x, ids}, {}, name);
}
ValueId GraphBuilder::add_id(ValueId a, ValueId b, ValueId ids, std::string_view name) {
  return node(Op::add_id, {a, b, ids}, {}, name);
}
ValueId GraphBuilder::mul_mat(ValueId weight, ValueId x, std::string_view name) {
  return node(Op::mul_mat, {weight, x}, {}, name);
}

ValueId GraphBuilder::rope(ValueId x, ValueId positions, const RopeParams& p, std::optional<ValueId> freq_factors,
                           std::string_view name) {
  Attrs attrs{{Attr::n_rot, p.n_rot},           {Attr::pairing, static_cast<int64_t>(p.pairing)},
              {Attr::theta, p.theta},           {Attr::freq_scale, p.freq_scale},
              {Attr::ext_factor, p.ext_factor}, {Attr::attn_factor, p.attn_factor},
              {Attr::beta_fast, p.beta_fast},   {Attr::beta_slow, p.beta_slow},
              {Attr::n_ctx_orig, p.n_ctx_orig}, {Attr::round_range, static_cast<int64_t>(p.round_range)}};
  if (freq_factors) return node(Op::rope, {x, positions, *freq_factors}, std::move(attrs), name);
  return node(Op::rope, {x, positions}, std::move(attrs), name);
}

ValueId GraphBuilder::set_rows(ValueId cache, ValueId x, ValueId slots, std::string_view name) {
  return node(Op::set_rows, {cache, x, slots}, {}, name);
}

ValueId GraphBuilder::flash_attn_ext(ValueId q, ValueId k, ValueId v, ValueId positions, ValueId seq_ids,
                                     const AttentionParams& p, std::optional<ValueId> sinks, std::string_view name) {
  Attrs attrs{{Attr::scale, p.scale},
              {Attr::softcap, p.softcap},
              {Attr::window, p.window},
              {Attr::chunk, p.chunk},
              {Attr::causal, static_cast<int64_t>(p.causal)}};
  if (sinks) return node(Op::flash_attn_ext, {q, k, v, positions, seq_ids, *sinks}, std::move(attrs), name);
  return node(Op::flash_attn_ext, {q, k, v, positions, seq_ids}, std::move(attrs), name);
}

ValueId GraphBuilder::attn_temp(ValueId x, ValueId positions, const TempParams& p, std::string_view name) {
  return node(Op::attn_temp, {x, positions},
              {{Attr::temp_scale, p.scale}, {Attr::temp_length, p.length}, {Attr::temp_offset, p.offset}}, name);
}
ValueId GraphBuilder::ssm_conv(ValueId x, ValueId weight, ValueId state, const RecurrentInputs& in,
                               std::string_view name) {
  return node(Op::ssm_conv, {x, weight, state, in.state_src, in.seq_ids}, {}, name);
}
ValueId GraphBuilder::ssm_conv_state(ValueId x, ValueId state, const RecurrentInputs& in, std::string_view name) {
  return node(Op::ssm_conv_state, {x, state, in.state_src, in.seq_ids}, {{Attr::n_snapshots, in.n_snapshots}}, name);
}
ValueId GraphBuilder::gated_delta_net(ValueId q, ValueId k, ValueId v, ValueId g, ValueId beta, ValueId state,
                                      const RecurrentInputs& in, double scale, HeadMap head_map,
                                      std::string_view name) {
  return node(
      Op::gated_delta_net, {q, k, v, g, beta, state, in.state_src, in.seq_ids},
      {{Attr::scale, scale}, {Attr::n_snapshots, in.n_snapshots}, {Attr::head_map, static_cast<int64_t>(head_map)}},
      name);
}
ValueId GraphBuilder::cpy(ValueId state, ValueId x, ValueId rows, std::string_view name) {
  return node(Op::cpy, {state, x, rows}, {}, name);
}

ValueId GraphBuilder::reshape(ValueId x, const Shape& shape, std::string_view name) {
  return node(Op::reshape, {x}, {{Attr::dims, shape}}, name);
}
ValueId GraphBuilder::view(ValueId x, int64_t offset, const Shape& shape, std::string_view name) {
  return node(Op::view, {x}, {{Attr::offset, offset}, {Attr::dims, shape}}, name);
}

void GraphBuilder::output(ValueId value) {
  if (error_) return;
  if (value >= graph_.values.size())
    fail({.what = "an output is no value of this graph", .where = graph_.name});
  else
    graph_.outputs.push_back(value);
}

Shape GraphBuilder::shape_of(ValueId value) const {
  return value < graph_.values.size() ? graph_.values[value].shape : Shape{1, 1, 1, 1};
}

Result<Graph> GraphBuilder::finish() {
  names_.clear();
  Graph graph = std::exchange(graph_, {});
  if (error_) return *std::exchange(error_, {});
  TRY(verify(graph));
  return graph;
}

}  // namespace tokamak::ir
