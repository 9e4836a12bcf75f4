#include "convert/tensor_plan.h"

#include <fmt/format.h>

#include <array>
#include <map>
#include <unordered_set>

#include "base/check.h"

namespace tokamak::convert {

namespace {

using arch::CheckpointTensor;
using arch::Dim;

// Tensors beside the weights that no engine needs: rope tables and masks of old checkpoints, scales of caches.
constexpr auto kUselessEndings = std::to_array<std::string_view>(
    {"rotary_emb.inv_freq", ".k_scale", ".v_scale", ".q_scale", ".kv_cache_scale", ".output_scale", ".activation_scale",
     ".attn.bias", ".attn.masked_bias", ".attention.bias", ".attention.masked_bias"});

bool has_place(std::string_view pattern) { return pattern.find("{}") != pattern.npos; }

// The first "{}" becomes the number.
std::string with_number(std::string_view pattern, int64_t number) {
  const size_t at = pattern.find("{}");
  if (at == pattern.npos) return std::string(pattern);
  return fmt::format("{}{}{}", pattern.substr(0, at), number, pattern.substr(at + 2));
}

class Planner {
 public:
  Planner(const Checkpoint& checkpoint, const ModelConfig& model, std::string_view out_type)
      : checkpoint_(checkpoint), model_(model), keeps_codes_(out_type == "auto") {
    if (const DTypeRow* row = find_dtype(out_type)) plan_.matrix_type = row->id;
    if (keeps_codes_) plan_.matrix_type = most_used_type();
  }

  Result<TensorPlan> run() {
    for (const RopeFactors& factors : model_.rope_factors) add_values(factors.tensor, factors.values);
    const std::span<const CheckpointTensor> rows = model_.family->tensors;
    const auto first = std::ranges::find_if(rows, is_layered) - rows.begin();
    for (int64_t i = 0; i < first; ++i) TRY(add(rows.subspan(static_cast<size_t>(i)), 0));
    for (int64_t layer_idx = 0; layer_idx < model_.n_layer; ++layer_idx)
      for (size_t i = 0; i < rows.size(); ++i)
        if (is_layered(rows[i]) && model_.has_layer(rows[i].layers, layer_idx)) TRY(add(rows.subspan(i), layer_idx));
    for (size_t i = static_cast<size_t>(first); i < rows.size(); ++i)
      if (!is_layered(rows[i])) TRY(add(rows.subspan(i), 0));
    TRY(check_rest());
    return std::move(plan_);
  }

 private:
  static bool is_layered(const CheckpointTensor& row) { return has_place(row.gguf); }
  // Rows are looked up, without a product.
  static bool is_table(const CheckpointTensor& row) { return row.gguf == "token_embd" || row.gguf == "position_embd"; }
  static bool are_alternatives(const CheckpointTensor& a, const CheckpointTensor& b) {
    return a.gguf == b.gguf && a.ending == b.ending;
  }

  // bf16 or f16, whichever holds more bytes; wider floats and codes become bf16, which has their range.
  DType most_used_type() const {
    std::map<NumberType, uint64_t> n_bytes;
    for (const SafetensorsTensor& tensor : checkpoint_.tensors()) n_bytes[tensor.type] += tensor.data.size();
    return n_bytes[NumberType::f16] > n_bytes[NumberType::bf16] ? DType::f16 : DType::bf16;
  }

  // The name as this checkpoint spells it, by the first spelling under which `exists` holds.
  template <class Find>
  auto by_any_spelling(const std::string& name, const Find& find) const -> decltype(find(name)) {
    auto found = find(name);
    if (!found || *found) return found;
    for (const arch::NameChange& change : model_.family->renames) {
      if (!name.starts_with(change.to)) continue;
      found = find(std::string(change.from) + name.substr(change.to.size()));
      if (!found || *found) return found;
    }
    return found;
  }

  // Adds rows[0]'s tensor, from it or from the alternatives behind it; what the checkpoint need not have, it may lack.
  Result<void> add(std::span<const CheckpointTensor> rows, int64_t layer_idx) {
    const CheckpointTensor& first = rows[0];
    const std::string name = with_number(first.gguf, layer_idx);
    if (!planned_.insert(name + std::string(first.ending)).second || !exists(first)) return {};
    for (const CheckpointTensor& row : rows) {
      if (!are_alternatives(first, row)) break;
      const std::string hf_name = with_number(row.hf, layer_idx);
      std::vector<Weight> weights = TRY(find_weights(row, hf_name));
      if (weights.empty()) continue;
      if (row.gguf == "output" && model_.tied) {
        leave_out(weights.front());
        return {};
      }
      return add_weights(row, name, hf_name, std::move(weights));
    }
    if (first.optional || (first.gguf == "output" && model_.tied)) return {};
    return Error{.code = ErrorCode::bad_tensor,
                 .what = "the checkpoint has no such tensor",
                 .where = with_number(with_number(first.hf, layer_idx), 0) + (first.bare ? "" : ".weight"),
                 .hint = fmt::format("{} needs it; the checkpoint may be incomplete", model_.family->hf_class)};
  }

  // Whether this model has such a tensor.
  bool exists(const CheckpointTensor& row) const {
    for (const Dim dim : {row.rows, row.cols, row.matrices})
      if (dim != Dim::none && model_.dim(dim) == 0) return false;
    return true;
  }

  Result<std::optional<Weight>> find_weight(const CheckpointTensor& row, const std::string& hf_name) const {
    return by_any_spelling(hf_name, [&](const std::string& n) {
      return row.bare ? Weight::find_plain(checkpoint_, n) : Weight::find(checkpoint_, n, model_.fp8_tile);
    });
  }

  // One weight, or one per matrix; none: the checkpoint does not have them.
  Result<std::vector<Weight>> find_weights(const CheckpointTensor& row, const std::string& hf_name) const {
    std::vector<Weight> weights;
    const int64_t n = has_place(hf_name) ? model_.dim(row.matrices) : 1;
    for (int64_t i = 0; i < n; ++i) {
      const std::string one = with_number(hf_name, i);
      auto weight = TRY(find_weight(row, one));
      if (!weight && i == 0) return weights;
      if (!weight || (i > 0 && (weight->shape() != weights[0].shape() || &weight->layout() != &weights[0].layout())))
        return Error{.code = ErrorCode::bad_tensor,
                     .what = !weight ? "the checkpoint has no such tensor"
                                     : fmt::format("shape or type differ from those of {}", with_number(hf_name, 0)),
                     .where = one,
                     .hint = fmt::format("config.json wants {} of them", n)};
      weights.push_back(*std::move(weight));
    }
    return weights;
  }

  Result<void> add_weights(const CheckpointTensor& row, const std::string& name, const std::string& hf_name,
                           std::vector<Weight> weights) {
    const bool is_matrix = row.cols != Dim::none;
    const int64_t n_matrices = row.matrices == Dim::none ? 1 : model_.dim(row.matrices);
    PlannedTensor tensor{.name = name + std::string(row.ending), .hf_name = hf_name + (row.bare ? "" : ".weight")};
    tensor.change = row.change;
    tensor.order =
        make_order(row.order, n_matrices, model_.dim(row.rows), is_matrix ? model_.dim(row.cols) : 1, model_);
    TRY(check_shape(tensor.order, weights, is_matrix));
    const TensorOrder& order = tensor.order;
    if (row.matrices != Dim::none) tensor.shape.push_inner(n_matrices);
    tensor.shape.push_inner(order.n_out_rows());
    if (is_matrix) tensor.shape.push_inner(order.n_out_cols());
    const TensorOrder bias_order = order_of_bias(order);
    TRY(plan_values(row, name, std::move(tensor), std::move(weights)));
    // The engine adds a bias to products, and to norms with a mean; any other one is refused by check_rest().
    const bool may_have_bias = is_matrix ? !is_table(row) : model_.family->layer_norm && row.matrices == Dim::none;
    if (!may_have_bias || row.bare || has_place(hf_name)) return {};
    return add_bias(name, hf_name, bias_order);
  }

  Result<void> add_bias(const std::string& name, const std::string& hf_name, const TensorOrder& order) {
    auto bias = TRY(
        by_any_spelling(hf_name, [&](const std::string& n) { return Weight::find_plain(checkpoint_, n + ".bias"); }));
    if (!bias) return {};
    PlannedTensor tensor{.name = name + ".bias", .hf_name = hf_name + ".bias"};
    tensor.order = order;
    tensor.shape = {order.n_matrices * order.n_out_rows()};
    std::vector<Weight> weights;
    weights.push_back(*std::move(bias));
    TRY(check_shape(order, weights, /*is_matrix=*/false));
    return plan_values({}, name, std::move(tensor), std::move(weights));
  }

  // Dimensions of 1 may be there or not, and leading ones may be one.
  Result<void> check_shape(const TensorOrder& order, const std::vector<Weight>& weights, bool is_matrix) {
    const Weight& weight = weights.front();
    const auto n_weights = static_cast<int64_t>(weights.size());
    const int64_t n_rows = order.n_matrices * order.n_rows / n_weights;
    const bool fits = is_matrix ? weight.n_rows() == n_rows && weight.row_elems() == order.n_cols
                                : weight.n_rows() * weight.row_elems() == n_rows;
    if (fits && !(is_matrix && weight.shape().size() < 2)) return {};
    Shape found, wanted;
    for (size_t i = 0; i < weight.shape().size() && i < size_t{kMaxDims}; ++i) found.push_inner(weight.shape()[i]);
    if (order.n_matrices > n_weights) wanted.push_inner(order.n_matrices);
    wanted.push_inner(order.n_rows);
    if (is_matrix) wanted.push_inner(order.n_cols);
    return Error{.code = ErrorCode::bad_tensor,
                 .what = fmt::format("shape is {}, config.json wants {}", found.to_string(), wanted.to_string()),
                 .where = weight.where(),
                 .hint = "the files do not belong to one model"};
  }

  Result<void> plan_values(const CheckpointTensor& row, const std::string& name, PlannedTensor tensor,
                           std::vector<Weight> weights) {
    for (const Weight& weight : weights)
      for (const SafetensorsTensor* part : weight.parts()) used_.insert(part);
    const bool keeps = keeps_codes_of(row, tensor, weights);
    tensor.type = keeps ? *weights.front().exact_type() : type_of(row, tensor.shape);
    if (keeps) TRY(add_scales(name, tensor.order.n_matrices, weights));
    tensor.weights = std::move(weights);
    plan_.tensors.push_back(std::move(tensor));
    return {};
  }

  // NAME.scale is applied to products, with one number or one per expert.
  bool keeps_codes_of(const CheckpointTensor& row, const PlannedTensor& tensor,
                      const std::vector<Weight>& weights) const {
    const bool needs_scale = !weights.front().layout().tensor_scale.empty();
    const bool may_scale = !is_table(row) && (row.matrices == Dim::none || row.matrices == Dim::n_expert);
    return keeps_codes_ && row.cols != Dim::none && !row.is_small && weights.front().exact_type() &&
           tensor.order.keeps_rows() && tensor.change == arch::ValueChange::none && (!needs_scale || may_scale);
  }

  DType type_of(const CheckpointTensor& row, const Shape& shape) const {
    if (row.cols == Dim::none || row.is_small) return DType::f32;
    return shape.row_elems() % dtype_row(plan_.matrix_type).block_elems == 0 ? plan_.matrix_type : DType::f16;
  }

  // One number, or one per matrix.
  Result<void> add_scales(const std::string& name, int64_t n_matrices, const std::vector<Weight>& weights) {
    std::vector<float> scales, input_scales;
    for (int64_t i = 0; i < n_matrices; ++i) {
      const Weight& weight = weights[weights.size() == 1 ? 0 : static_cast<size_t>(i)];
      if (const auto scale = TRY(weight.tensor_scale())) scales.push_back(*scale);
      if (const auto scale = TRY(weight.input_scale())) input_scales.push_back(*scale);
    }
    const auto n = static_cast<size_t>(n_matrices);
    if (scales.size() == n) add_values(name + ".scale", std::move(scales));
    if (input_scales.size() == n) add_values(name + ".input_scale", std::move(input_scales));
    return {};
  }

  void add_values(std::string name, std::vector<float> values) {
    PlannedTensor tensor{.name = std::move(name), .hf_name = "(computed)"};
    tensor.shape = {static_cast<int64_t>(values.size())};
    tensor.values = std::move(values);
    plan_.tensors.push_back(std::move(tensor));
  }

  void leave_out(const Weight& weight) {
    for (const SafetensorsTensor* part : weight.parts()) {
      used_.insert(part);
      plan_.left_out.push_back(part->name);
    }
  }

  // Nothing of the checkpoint is dropped silently.
  Result<void> check_rest() {
    for (const SafetensorsTensor& tensor : checkpoint_.tensors()) {
      if (used_.contains(&tensor)) continue;
      const std::string_view name = tensor.name;
      const bool is_useless =
          std::ranges::any_of(kUselessEndings, [&](std::string_view ending) { return name.ends_with(ending); }) ||
          std::ranges::any_of(model_.family->ignored,
                              [&](std::string_view start) { return name.starts_with(start); }) ||
          is_of_extra_layer(name);
      // Scales of activations, of weights that are not kept as codes.
      const bool is_activation = name.ends_with(".input_scale") || name.ends_with(".input_global_scale");
      if (!is_useless && !is_activation)
        return Error{.code = ErrorCode::unsupported,
                     .what = fmt::format("{} has no such tensor as this engine knows it", model_.family->hf_class),
                     .where = checkpoint_.where(tensor)};
      plan_.left_out.push_back(tensor.name);
    }
    return {};
  }

  // Next-token blocks are numbered on behind the layers.
  bool is_of_extra_layer(std::string_view name) const {
    for (int64_t i = 0; i < model_.n_extra_layers; ++i)
      if (name.starts_with(fmt::format("model.layers.{}.", model_.n_layer + i))) return true;
    return false;
  }

  const Checkpoint& checkpoint_;
  const ModelConfig& model_;
  bool keeps_codes_;
  TensorPlan plan_;
  std::unordered_set<std::string> planned_;  // names of the GGUF
  std::unordered_set<const SafetensorsTensor*> used_;
};

}  // namespace

Result<TensorPlan> plan_tensors(const Checkpoint& checkpoint, const ModelConfig& model, std::string_view out_type) {
  return Planner(checkpoint, model, out_type).run();
}

}  // namespace tokamak::convert
