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

// Tensors beside the weights that no engine needs: rope tables of old checkpoints, scales of caches.
constexpr auto kUselessEndings = std::to_array<std::string_view>(
    {"rotary_emb.inv_freq", ".k_scale", ".v_scale", ".q_scale", ".kv_cache_scale", ".output_scale"});

std::string with_layer(std::string_view pattern, int64_t layer_idx) {
  const size_t at = pattern.find("{}");
  if (at == pattern.npos) return std::string(pattern);
  return fmt::format("{}{}{}", pattern.substr(0, at), layer_idx, pattern.substr(at + 2));
}

class Planner {
 public:
  Planner(const Checkpoint& checkpoint, const ModelConfig& model, std::string_view out_type)
      : checkpoint_(checkpoint), model_(model), keeps_codes_(out_type == "auto") {
    if (const DTypeRow* row = find_dtype(out_type)) plan_.matrix_type = row->id;
    if (keeps_codes_) plan_.matrix_type = most_used_type();
  }

  Result<TensorPlan> run() {
    if (!model_.rope_factors.empty()) add_values("rope_freqs.weight", model_.rope_factors);
    for (const CheckpointTensor& row : model_.family->tensors) {  // what comes before the layers
      if (is_layered(row)) break;
      TRY(add(row, 0));
    }
    for (int64_t layer_idx = 0; layer_idx < model_.n_layer; ++layer_idx)
      for (const CheckpointTensor& row : model_.family->tensors)
        if (is_layered(row)) TRY(add(row, layer_idx));
    bool behind = false;
    for (const CheckpointTensor& row : model_.family->tensors) {
      behind |= is_layered(row);
      if (behind && !is_layered(row)) TRY(add(row, 0));
    }
    TRY(check_rest());
    return std::move(plan_);
  }

 private:
  static bool is_layered(const CheckpointTensor& row) { return row.hf.find("{}") != row.hf.npos; }
  // Rows are looked up, without a product.
  static bool is_table(const CheckpointTensor& row) { return row.gguf == "token_embd"; }

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

  Result<void> add(const CheckpointTensor& row, int64_t layer_idx) {
    const std::string hf_name = with_layer(row.hf, layer_idx), name = with_layer(row.gguf, layer_idx);
    const bool is_head = row.gguf == "output";
    auto weight = TRY(
        by_any_spelling(hf_name, [&](const std::string& n) { return Weight::find(checkpoint_, n, model_.fp8_tile); }));
    if (is_head && model_.tied) {
      if (weight) leave_out(*weight);
      return {};
    }
    if (!weight) {
      return Error{.code = ErrorCode::bad_tensor,
                   .what = "the checkpoint has no such tensor",
                   .where = hf_name + ".weight",
                   .hint = fmt::format("{} needs it; the checkpoint may be incomplete", model_.family->hf_class)};
    }
    Shape shape{model_.dim(row.rows)};
    if (row.cols != Dim::none) shape.push_inner(model_.dim(row.cols));
    TRY(add_weight(row, name, hf_name, *std::move(weight), shape));
    // The engine adds a bias to products only; any other one is refused by check_rest().
    if (row.cols == Dim::none || is_table(row)) return {};
    auto bias = TRY(by_any_spelling(hf_name, [&](const std::string& n) { return find_bias(n); }));
    if (bias) TRY(add_weight(row, name, hf_name, *std::move(bias), {model_.dim(row.rows)}, ".bias"));
    return {};
  }

  Result<std::optional<Weight>> find_bias(const std::string& stem) const {
    return Weight::find_plain(checkpoint_, stem + ".bias");
  }

  Result<void> add_weight(const CheckpointTensor& row, const std::string& name, const std::string& hf_name,
                          Weight weight, const Shape& shape, std::string_view ending = ".weight") {
    std::vector<int64_t> wanted;
    for (int i = 0; i < shape.rank(); ++i) wanted.push_back(shape[i]);
    if (weight.shape() != wanted) {
      Shape found;
      for (size_t i = 0; i < weight.shape().size() && i < size_t{kMaxDims}; ++i) found.push_inner(weight.shape()[i]);
      return Error{.code = ErrorCode::bad_tensor,
                   .what = fmt::format("shape is {}, config.json wants {}", found.to_string(), shape.to_string()),
                   .where = weight.where(),
                   .hint = "the files do not belong to one model"};
    }
    for (const SafetensorsTensor* part : weight.parts()) used_.insert(part);
    PlannedTensor tensor{.name = name + std::string(ending), .hf_name = hf_name + std::string(ending)};
    tensor.shape = shape;
    tensor.change = row.change;
    tensor.n_head = row.rows == Dim::q ? model_.n_head : row.rows == Dim::kv ? model_.n_head_kv : 1;
    const bool keeps = keeps_codes_of(row, weight, shape);
    tensor.type = keeps ? *weight.exact_type() : type_of(shape);
    if (keeps) TRY(add_scales(name, weight));
    tensor.weight = std::move(weight);
    plan_.tensors.push_back(std::move(tensor));
    return {};
  }

  // Looking up a row applies no NAME.scale.
  bool keeps_codes_of(const CheckpointTensor& row, const Weight& weight, const Shape& shape) const {
    const bool needs_scale = !weight.layout().tensor_scale.empty();
    return keeps_codes_ && shape.rank() > 1 && weight.exact_type() && !(is_table(row) && needs_scale);
  }

  DType type_of(const Shape& shape) const {
    if (shape.rank() < 2) return DType::f32;
    return shape.row_elems() % dtype_row(plan_.matrix_type).block_elems == 0 ? plan_.matrix_type : DType::f16;
  }

  Result<void> add_scales(const std::string& name, const Weight& weight) {
    if (const auto scale = TRY(weight.tensor_scale())) add_values(name + ".scale", {*scale});
    if (const auto scale = TRY(weight.input_scale())) add_values(name + ".input_scale", {*scale});
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
          std::ranges::any_of(model_.family->ignored, [&](std::string_view start) { return name.starts_with(start); });
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

  const Checkpoint& checkpoint_;
  const ModelConfig& model_;
  bool keeps_codes_;
  TensorPlan plan_;
  std::unordered_set<const SafetensorsTensor*> used_;
};

}  // namespace

Result<TensorPlan> plan_tensors(const Checkpoint& checkpoint, const ModelConfig& model, std::string_view out_type) {
  return Planner(checkpoint, model, out_type).run();
}

}  // namespace tokamak::convert
