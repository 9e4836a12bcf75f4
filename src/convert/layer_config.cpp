#include "convert/layer_config.h"

#include <fmt/format.h>

#include <algorithm>

namespace tokamak::convert {

namespace {

constexpr int64_t kMaxLayer = 100000;

Error unsupported(const ConfigReader& config, std::string_view field, std::string what) {
  return {.code = ErrorCode::unsupported, .what = std::move(what), .where = config.where(field)};
}

int64_t default_of(const ModelConfig& model, std::string_view field, int64_t fallback) {
  for (const arch::ConfigValue& row : model.family->defaults)
    if (row.config == field) return static_cast<int64_t>(row.value);
  return fallback;
}

// A list of one text per layer, or nothing.
Result<std::vector<std::string>> layer_texts(const ConfigReader& config, std::string_view field, int64_t n_layer) {
  const Json* list = config.find(field);
  std::vector<std::string> texts;
  if (!list) return texts;
  if (!list->is_array() || static_cast<int64_t>(list->size()) < n_layer)
    return config.error(field, fmt::format("must name {} layers", n_layer));
  for (int64_t i = 0; i < n_layer; ++i) {
    const Json& item = (*list)[static_cast<size_t>(i)];
    if (!item.is_string()) return config.error(field, "must be a list of texts");
    texts.push_back(item.get<std::string>());
  }
  return texts;
}

// The first `n_dense` layers are dense, of the others every `step`-th has experts. (step 2: layers 1, 3, ...)
struct ExpertPattern {
  int64_t n_dense = 0, step = 1;
  bool has_experts(int64_t layer_idx) const { return layer_idx >= n_dense && (layer_idx + 1) % step == 0; }
};

Result<ExpertPattern> expert_pattern(const ConfigReader& config, const ModelConfig& model) {
  ExpertPattern pattern;
  const auto first = TRY(config.integer("first_k_dense_replace", 0, kMaxLayer));
  const auto start = TRY(config.integer("moe_layer_start_index", 0, kMaxLayer));
  pattern.n_dense = first.value_or(
      start.value_or(default_of(model, "first_k_dense_replace", default_of(model, "moe_layer_start_index", 0))));
  const auto interval = TRY(config.integer("moe_layer_interval", 1, kMaxLayer));
  const auto step = TRY(config.integer("interleave_moe_layer_step", 1, kMaxLayer));
  pattern.step = step.value_or(interval.value_or(1));
  const auto end = TRY(config.integer("moe_layer_end_index", -1, kMaxLayer)).value_or(-1);
  if (end != -1 && end < model.n_layer - 1)
    return unsupported(config, "moe_layer_end_index", "dense layers behind those with experts are not supported");
  const auto types = TRY(layer_texts(config, "mlp_layer_types", model.n_layer));
  if (types.empty()) return pattern;
  const auto first_sparse = std::ranges::find(types, "sparse");
  pattern.n_dense = first_sparse - types.begin();
  if (std::ranges::find(first_sparse, types.end(), "dense") != types.end())
    return unsupported(config, "mlp_layer_types", "dense layers behind those with experts are not supported");
  return pattern;
}

// Lists that say the same as the pattern, or something else that GGUF cannot say.
Result<void> check_lists(const ConfigReader& config, const ModelConfig& model) {
  if (const Json* dense = config.find("mlp_only_layers"); dense && dense->is_array() && !dense->empty())
    return unsupported(config, "mlp_only_layers", "dense layers among those with experts are not supported");
  if (TRY(config.integer("decoder_sparse_step", 0, kMaxLayer)).value_or(1) != 1)
    return unsupported(config, "decoder_sparse_step", "dense layers among those with experts are not supported");
  const Json* listed = config.find("moe_layers");
  if (!listed || !listed->is_array()) return {};
  for (int64_t i = 0; i < model.n_layer; ++i) {
    const bool is_listed = std::ranges::find(*listed, Json(i)) != listed->end();
    if (is_listed != model.has_experts[static_cast<size_t>(i)])
      return unsupported(config, "moe_layers", "only every n-th layer may have experts");
  }
  return {};
}

Result<void> read_experts(const ConfigReader& config, ModelConfig& model) {
  const ExpertPattern pattern = TRY(expert_pattern(config, model));
  for (int64_t i = 0; i < model.n_layer; ++i) model.has_experts[static_cast<size_t>(i)] = pattern.has_experts(i);
  TRY(check_lists(config, model));
  const bool has_dense = default_of(model, "first_k_dense_replace", -1) >= 0 || pattern.n_dense > 0 ||
                         default_of(model, "moe_layer_start_index", -1) >= 0;
  const bool has_step = default_of(model, "interleave_moe_layer_step", -1) >= 0 || pattern.step != 1 ||
                        default_of(model, "moe_layer_start_index", -1) >= 0;
  if (has_dense) model.add("leading_dense_block_count", static_cast<uint32_t>(pattern.n_dense));
  if (has_step) model.add("interleave_moe_layer_step", static_cast<uint32_t>(pattern.step));
  return {};
}

Result<void> read_recurrent(const ConfigReader& config, ModelConfig& model) {
  const auto types = TRY(layer_texts(config, "layer_types", model.n_layer));
  int64_t interval = TRY(config.integer("full_attention_interval", 1, kMaxLayer))
                         .value_or(default_of(model, "full_attention_interval", 4));
  if (!types.empty()) {
    const auto first = std::ranges::find(types, "full_attention");
    if (first != types.end()) interval = first - types.begin() + 1;
  }
  for (int64_t i = 0; i < model.n_layer; ++i) {
    const bool is_recurrent = (i + 1) % interval != 0;
    model.is_recurrent[static_cast<size_t>(i)] = is_recurrent;
    if (!types.empty() && types[static_cast<size_t>(i)] != (is_recurrent ? "linear_attention" : "full_attention"))
      return unsupported(config, "layer_types",
                         fmt::format("layer {} breaks the pattern of every {}th layer", i, interval));
  }
  model.add("full_attention_interval", static_cast<uint32_t>(interval));
  return {};
}

}  // namespace

Result<void> read_layer_kinds(const ConfigReader& config, ModelConfig& model) {
  model.has_experts.assign(static_cast<size_t>(model.n_layer), false);
  model.is_recurrent.assign(static_cast<size_t>(model.n_layer), false);
  if (model.has(arch::kExperts)) TRY(read_experts(config, model));
  if (model.has(arch::kDeltaNet)) TRY(read_recurrent(config, model));
  return {};
}

}  // namespace tokamak::convert
