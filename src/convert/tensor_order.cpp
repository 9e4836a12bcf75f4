#include "convert/tensor_order.h"

#include <numeric>

#include "base/check.h"

namespace tokamak::convert {

namespace {

using arch::WeightOrder;
using Loops = std::vector<IndexLoops>;

int64_t n_picked(const Loops& loops, int64_t n_all) {
  if (loops.empty()) return n_all;
  int64_t n = 0;
  for (const IndexLoops& l : loops) n += l.counts[0] * l.counts[1] * l.counts[2];
  return n;
}

std::vector<int64_t> indices(const Loops& loops, int64_t n_all) {
  std::vector<int64_t> list;
  if (loops.empty()) {
    list.resize(static_cast<size_t>(n_all));
    std::iota(list.begin(), list.end(), int64_t{0});
    return list;
  }
  list.reserve(static_cast<size_t>(n_picked(loops, n_all)));
  for (const IndexLoops& l : loops)
    for (int64_t i = 0; i < l.counts[0]; ++i)
      for (int64_t j = 0; j < l.counts[1]; ++j)
        for (int64_t k = 0; k < l.counts[2]; ++k)
          list.push_back(l.first + i * l.strides[0] + j * l.strides[1] + k * l.strides[2]);
  for (const int64_t index : list) CHECK(index >= 0 && index < n_all, index, n_all);
  return list;
}

Loops range(int64_t first, int64_t n) { return {{first, {1, 1, n}, {0, 0, 1}}}; }
Loops every_second(int64_t first, int64_t n) { return {{first, {1, 1, n / 2}, {0, 0, 2}}}; }
// n_rows of each of n_groups groups, whose first ones stand `stride` apart.
IndexLoops of_groups(int64_t first, int64_t n_groups, int64_t stride, int64_t n_rows) {
  return {first, {1, n_groups, n_rows}, {0, stride, 1}};
}

// [q..., k, v] per key-value head.
Loops qkv_by_group(const ModelConfig& m) {
  const int64_t d = m.head_dim, n_q = m.n_head / m.n_head_kv * d, stride = n_q + 2 * d;
  return {of_groups(0, m.n_head_kv, stride, n_q), of_groups(n_q, m.n_head_kv, stride, d),
          of_groups(n_q + d, m.n_head_kv, stride, d)};
}

// [q, k, v, z] per key head; v and z are those of its value heads.
Loops key_head_part(const ModelConfig& m, bool gate) {
  const int64_t n_k = m.key_head_dim, n_v = m.n_value_head / m.n_key_head * m.value_head_dim;
  const int64_t stride = 2 * n_k + 2 * n_v;
  if (gate) return {of_groups(2 * n_k + n_v, m.n_key_head, stride, n_v)};
  return {of_groups(0, m.n_key_head, stride, n_k), of_groups(n_k, m.n_key_head, stride, n_k),
          of_groups(2 * n_k, m.n_key_head, stride, n_v)};
}

// From [key head][value head of it][unit] to [value head of it][key head][unit].
IndexLoops dealt_value_heads(int64_t first, int64_t n, const ModelConfig& m) {
  const int64_t per_key_head = m.n_value_head / m.n_key_head, unit = n / m.n_value_head;
  return {first, {per_key_head, m.n_key_head, unit}, {unit, per_key_head * unit, 1}};
}

}  // namespace

int64_t TensorOrder::n_picked_rows() const { return n_picked(rows, n_rows); }
int64_t TensorOrder::n_picked_cols() const { return n_picked(cols, n_cols); }
std::vector<int64_t> TensorOrder::row_indices() const { return indices(rows, n_rows); }
std::vector<int64_t> TensorOrder::col_indices() const { return indices(cols, n_cols); }

TensorOrder make_order(WeightOrder order, int64_t n_matrices, int64_t n_rows, int64_t n_cols,
                       const ModelConfig& model) {
  TensorOrder o{.n_matrices = n_matrices, .n_rows = n_rows, .n_cols = n_cols};
  const int64_t d = model.head_dim;
  switch (order) {
    case WeightOrder::as_is:
      break;
    case WeightOrder::rope_pairs:
      o.rows = {{0, {n_rows / d, d / 2, 2}, {d, 1, d / 2}}};
      break;
    case WeightOrder::transposed:
      o.transposed = true;
      break;
    case WeightOrder::first_half:
      o.rows = range(0, n_rows / 2);
      break;
    case WeightOrder::second_half:
      o.rows = range(n_rows / 2, n_rows / 2);
      break;
    case WeightOrder::transposed_first_half:
      o.cols = range(0, n_cols / 2), o.transposed = true;
      break;
    case WeightOrder::transposed_second_half:
      o.cols = range(n_cols / 2, n_cols / 2), o.transposed = true;
      break;
    case WeightOrder::even:
      o.rows = every_second(0, n_rows);
      break;
    case WeightOrder::odd:
      o.rows = every_second(1, n_rows);
      break;
    case WeightOrder::transposed_even:
      o.cols = every_second(0, n_cols), o.transposed = true;
      break;
    case WeightOrder::transposed_odd:
      o.cols = every_second(1, n_cols), o.transposed = true;
      break;
    case WeightOrder::qkv_by_group:
      o.rows = qkv_by_group(model);
      break;
    case WeightOrder::head_keys:
      o.rows = range(0, model.nope_dim), o.transposed = true;
      break;
    case WeightOrder::head_values:
      o.rows = range(model.nope_dim, model.mla_v_dim);
      break;
    case WeightOrder::key_head_qkv:
      o.rows = key_head_part(model, /*gate=*/false);
      break;
    case WeightOrder::key_head_gate:
      o.rows = key_head_part(model, /*gate=*/true);
      break;
    case WeightOrder::value_heads:
      o.rows = {dealt_value_heads(0, n_rows, model)};
      break;
    case WeightOrder::value_heads_of_qkv: {
      const int64_t n_qk = 2 * model.n_key_head * model.key_head_dim;
      o.rows = range(0, n_qk);
      o.rows.push_back(dealt_value_heads(n_qk, n_rows - n_qk, model));
      break;
    }
    case WeightOrder::value_head_columns:
      o.cols = {dealt_value_heads(0, n_cols, model)};
      break;
  }
  return o;
}

TensorOrder order_of_bias(const TensorOrder& order) {
  return {.n_matrices = order.n_matrices,
          .n_rows = order.transposed ? order.n_cols : order.n_rows,
          .rows = order.transposed ? order.cols : order.rows};
}

}  // namespace tokamak::convert
