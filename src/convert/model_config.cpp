#include "convert/model_config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <limits>

#include "arch/hparams.h"
#include "convert/layer_config.h"
#include "convert/rope_config.h"

namespace tokamak::convert {

namespace {

using arch::CheckpointFamily;

Error unknown_class(const std::string& name, const std::string& where) {
  std::string known;
  for (const CheckpointFamily& family : arch::checkpoint_families())
    known += (known.empty() ? "" : ", ") + std::string(family.hf_class);
  return {.code = ErrorCode::unsupported,
          .what = fmt::format("model class '{}' is not supported", name),
          .where = where,
          .hint = "supported: " + known};
}

Result<const CheckpointFamily*> find_family(const ConfigReader& config) {
  const Json* classes = config.find("architectures");
  if (!classes || !classes->is_array() || classes->empty() || !classes->front().is_string())
    return config.error("architectures", "must name the model's class", "is this the folder of a language model?");
  const std::string name = classes->front().get<std::string>();
  if (const CheckpointFamily* family = arch::find_checkpoint_family(name)) return family;
  return unknown_class(name, config.where("architectures"));
}

// The family's default of a number, or NaN.
double default_of(const CheckpointFamily& family, std::string_view field) {
  for (const arch::ConfigValue& row : family.defaults)
    if (row.config == field) return row.value;
  return std::numeric_limits<double>::quiet_NaN();
}

struct SizeField {
  std::string_view name;
  int64_t ModelConfig::*member;
  int64_t max;
  uint8_t parts = arch::kAnyParts;  // only families with these have it
  bool optional = false;            // may be absent, null or 0
};
constexpr auto kSizeFields = std::to_array<SizeField>({
    {"vocab_size", &ModelConfig::n_vocab, arch::kMaxVocab},
    {"max_position_embeddings", &ModelConfig::n_ctx, arch::kMaxContext},
    {"hidden_size", &ModelConfig::n_embd, arch::kMaxWidth},
    {"num_hidden_layers", &ModelConfig::n_layer, arch::kMaxLayers},
    {"num_attention_heads", &ModelConfig::n_head, arch::kMaxHeads},
    {"num_key_value_heads", &ModelConfig::n_head_kv, arch::kMaxHeads, arch::kPlainAttention},
    {"head_dim", &ModelConfig::head_dim, arch::kMaxHeadDim, arch::kPlainAttention},
    {"num_experts", &ModelConfig::n_expert, arch::kMaxExperts, arch::kExperts},
    {"num_experts_per_tok", &ModelConfig::n_expert_used, arch::kMaxExpertsUsed, arch::kExperts},
    {"moe_intermediate_size", &ModelConfig::expert_ff, arch::kMaxWidth, arch::kExperts},
    {"n_shared_experts", &ModelConfig::n_shared_expert, arch::kMaxWidth, arch::kExperts, true},
    {"shared_expert_intermediate_size", &ModelConfig::shared_ff, arch::kMaxWidth, arch::kExperts, true},
    {"intermediate_size", &ModelConfig::n_ff, arch::kMaxWidth},
    {"q_lora_rank", &ModelConfig::q_lora, arch::kMaxWidth, arch::kLatentAttention, true},
    {"kv_lora_rank", &ModelConfig::kv_lora, arch::kMaxWidth, arch::kLatentAttention},
    {"qk_nope_head_dim", &ModelConfig::nope_dim, arch::kMaxHeadDim, arch::kLatentAttention},
    {"qk_rope_head_dim", &ModelConfig::rope_dim, arch::kMaxHeadDim, arch::kLatentAttention},
    {"v_head_dim", &ModelConfig::mla_v_dim, arch::kMaxHeadDim, arch::kLatentAttention},
    {"linear_num_key_heads", &ModelConfig::n_key_head, arch::kMaxHeads, arch::kDeltaNet},
    {"linear_num_value_heads", &ModelConfig::n_value_head, arch::kMaxHeads, arch::kDeltaNet},
    {"linear_key_head_dim", &ModelConfig::key_head_dim, arch::kMaxHeadDim, arch::kDeltaNet},
    {"linear_value_head_dim", &ModelConfig::value_head_dim, arch::kMaxHeadDim, arch::kDeltaNet},
    {"linear_conv_kernel_dim", &ModelConfig::conv_kernel, arch::kMaxConvTaps, arch::kDeltaNet},
    {"num_nextn_predict_layers", &ModelConfig::n_extra_layers, arch::kMaxLayers, arch::kAnyParts, true},
});

// What a size is when config.json and the class leave it open; 0: it is needed.
int64_t derived(const ModelConfig& model, int64_t ModelConfig::*member) {
  if (member == &ModelConfig::n_head_kv) return model.n_head;
  if (member == &ModelConfig::head_dim && model.n_head > 0) return model.n_embd / model.n_head;
  if (member == &ModelConfig::n_ff)
    return model.family->ff_per_embd > 0 ? model.family->ff_per_embd * model.n_embd : model.expert_ff;
  return 0;
}

// Falcon: "multi_query" is one key-value head, but not in the newer form, which counts them.
Result<void> read_multi_query(const ConfigReader& config, ModelConfig& model) {
  if (!config.has("multi_query") || TRY(config.boolean("new_decoder_architecture")).value_or(false)) return {};
  model.n_head_kv = TRY(config.boolean("multi_query")).value_or(true) ? 1 : model.n_head;
  return {};
}

Result<void> check_heads(const ConfigReader& config, const ModelConfig& model) {
  if (model.has(arch::kPlainAttention) && model.n_head % model.n_head_kv != 0)
    return config.error("num_key_value_heads", fmt::format("{} query heads cannot share {} key-value heads evenly",
                                                           model.n_head, model.n_head_kv));
  if (model.has(arch::kDeltaNet) && model.n_value_head % model.n_key_head != 0)
    return config.error("linear_num_value_heads", fmt::format("{} value heads cannot share {} key heads evenly",
                                                              model.n_value_head, model.n_key_head));
  if (model.has(arch::kExperts) && model.n_expert_used > model.n_expert)
    return config.error("num_experts_per_tok",
                        fmt::format("{} of {} experts cannot be used", model.n_expert_used, model.n_expert));
  return {};
}

Result<void> read_sizes(const ConfigReader& config, ModelConfig& model) {
  for (const SizeField& field : kSizeFields) {
    if (!model.has(field.parts)) continue;
    const double fallback = default_of(*model.family, field.name);
    const auto value = TRY(config.integer(field.name, field.optional ? 0 : 1, field.max));
    int64_t& size = model.*field.member;
    size = value.value_or(std::isnan(fallback) ? 0 : static_cast<int64_t>(fallback));
    if (!value && field.optional && config.is_null(field.name)) size = 0;
    if (size == 0) size = derived(model, field.member);
    if (size == 0 && !field.optional) return config.error(field.name, "is missing");
  }
  TRY(read_multi_query(config, model));
  if (model.shared_ff == 0) model.shared_ff = model.n_shared_expert * model.expert_ff;
  model.n_rot = model.has(arch::kLatentAttention) ? model.rope_dim : model.head_dim;
  return check_heads(config, model);
}

void add_size_keys(ModelConfig& model) {
  for (const arch::SizeKey& row : arch::size_keys()) {
    if (!model.has(row.parts)) continue;
    const int64_t size = model.dim(row.dim);
    if (size != 0 || !row.if_present) model.add(row.gguf, static_cast<uint32_t>(size));
  }
}

// A flag counts as 0 or 1.
Result<std::optional<double>> number_or_flag(const ConfigReader& config, std::string_view field) {
  const Json* value = config.find(field);
  if (value && value->is_boolean()) return std::optional(value->get<bool>() ? 1.0 : 0.0);
  return config.number(field, 0, 1e9);
}

Result<void> add_number_keys(const ConfigReader& config, ModelConfig& model) {
  for (const arch::CheckpointKey& row : arch::checkpoint_keys()) {
    if (!model.has(row.parts)) continue;
    const double fallback =
        config.is_null(row.config) ? std::numeric_limits<double>::quiet_NaN() : default_of(*model.family, row.config);
    const double number = TRY(number_or_flag(config, row.config)).value_or(fallback);
    if (std::isnan(number)) continue;
    if (row.type == arch::KeyType::u32)
      model.add(row.gguf, static_cast<uint32_t>(number));
    else if (row.type == arch::KeyType::boolean)
      model.add(row.gguf, number != 0);
    else
      model.add(row.gguf, static_cast<float>(number));
  }
  const auto eps = TRY(config.number("norm_eps", 0, 1));
  model.add(model.family->layer_norm ? "attention.layer_norm_epsilon" : "attention.layer_norm_rms_epsilon",
            static_cast<float>(eps.value_or(default_of(*model.family, "norm_eps"))));
  return {};
}

// How the router chooses, and what it makes of the scores.
Result<void> add_router_keys(const ConfigReader& config, ModelConfig& model) {
  if (!model.has(arch::kExperts)) return {};
  arch::Gating score = model.family->router;
  const std::string scoring = TRY(config.text("scoring_func")).value_or("");
  if (scoring == "softmax")
    score = arch::Gating::softmax;
  else if (scoring == "sigmoid" || scoring == "noaux_tc")  // dots.llm1 names the method instead
    score = arch::Gating::sigmoid;
  else if (!scoring.empty())
    return Error{.code = ErrorCode::unsupported,
                 .what = fmt::format("a router that scores by '{}' is not supported", scoring),
                 .where = config.where("scoring_func")};
  model.add("expert_gating_func", static_cast<uint32_t>(score));
  const auto group_default = [&](std::string_view field) {
    const double number = default_of(*model.family, field);
    return std::isnan(number) ? 1 : static_cast<int64_t>(number);
  };
  const int64_t n_group = TRY(config.integer("n_group", 1, model.n_expert)).value_or(group_default("n_group"));
  const int64_t n_used = TRY(config.integer("topk_group", 1, n_group)).value_or(group_default("topk_group"));
  if (n_group == 1 || TRY(config.text("topk_method")).value_or("") == "greedy") return {};
  if (model.n_expert % n_group != 0)
    return config.error("n_group", fmt::format("{} experts are no {} equal groups", model.n_expert, n_group));
  model.add("expert_group_count", static_cast<uint32_t>(n_group));
  model.add("expert_group_used_count", static_cast<uint32_t>(n_used));
  return {};
}

Result<void> check_activation(const ConfigReader& config, const CheckpointFamily& family) {
  for (std::string_view field : {"hidden_act", "hidden_activation"}) {
    const auto name = TRY(config.text(field));
    // Old Gemma files say "gelu" in hidden_act and the truth in hidden_activation.
    const bool is_shadowed = field == "hidden_act" && config.has("hidden_activation");
    const std::string known = fmt::format(" {} ", family.activation);
    if (!name || is_shadowed || known.find(fmt::format(" {} ", *name)) != known.npos) continue;
    return Error{
        .code = ErrorCode::unsupported,
        .what = fmt::format("activation '{}' is not what {} models of this engine compute", *name, family.architecture),
        .where = config.where(field),
        .hint = fmt::format("supported: {}", family.activation)};
  }
  return {};
}

// Gemma: scores are divided by sqrt(query_pre_attn_scalar), which is head_dim in most sizes.
Result<void> read_attention_scale(const ConfigReader& config, ModelConfig& model) {
  const double fallback = default_of(*model.family, "query_pre_attn_scalar");
  if (std::isnan(fallback)) return {};
  const double scalar = TRY(config.number("query_pre_attn_scalar", 1e-6, 1e9)).value_or(fallback);
  if (scalar == static_cast<double>(model.head_dim)) return {};
  model.add("attention.scale", static_cast<float>(1 / std::sqrt(scalar)));
  return {};
}

Result<void> read_fp8_tile(const ConfigReader& whole, ModelConfig& model) {
  const ConfigReader quantization = TRY(whole.section("quantization_config"));
  const Json* size = quantization.find("weight_block_size");
  if (size == nullptr) return {};
  const auto is_size = [](const Json& n) { return n.is_number_unsigned() && n > 0 && n <= arch::kMaxWidth; };
  if (!size->is_array() || size->size() != 2 || !is_size((*size)[0]) || !is_size((*size)[1]))
    return quantization.error("weight_block_size", "must be two sizes");
  model.fp8_tile = {(*size)[0].get<int64_t>(), (*size)[1].get<int64_t>()};
  return {};
}

Result<void> check_unsupported(const ConfigReader& config, const CheckpointFamily& family) {
  if (TRY(config.boolean("use_bidirectional_attention")).value_or(false))
    return Error{.code = ErrorCode::unsupported,
                 .what = "attention in both directions is not supported",
                 .where = config.where("use_bidirectional_attention")};
  for (const arch::ConfigValue& row : family.required) {
    const auto value = TRY(number_or_flag(config, row.config));
    if (value && *value != row.value)
      return Error{.code = ErrorCode::unsupported,
                   .what = fmt::format("{} models of this engine need {}", family.architecture,
                                       config.find(row.config)->is_boolean() ? (row.value != 0 ? "true" : "false")
                                                                             : fmt::format("{}", row.value)),
                   .where = config.where(row.config)};
  }
  return {};
}

}  // namespace

void ModelConfig::add(std::string_view key, KeyValue value) {
  keys.push_back({fmt::format("{}.{}", family->architecture, key), std::move(value)});
}

bool ModelConfig::has_layer(arch::LayerSet layers, int64_t layer_idx) const {
  const auto i = static_cast<size_t>(layer_idx);
  switch (layers) {
    case arch::LayerSet::all:
      return true;
    case arch::LayerSet::dense:
      return !has_experts[i];
    case arch::LayerSet::moe:
      return has_experts[i];
    case arch::LayerSet::attention:
      return !is_recurrent[i];
    case arch::LayerSet::recurrent:
      return is_recurrent[i];
  }
  return false;
}

Result<ModelConfig> read_model_config(const Json& json, const std::string& where) {
  const ConfigReader whole(json, where);
  ModelConfig model{.family = TRY(find_family(whole))};
  const std::string section(model.family->section);
  const ConfigReader config = (section.empty() ? whole : TRY(whole.section(section))).with_names(model.family->fields);
  TRY(read_sizes(config, model));
  TRY(check_activation(config, *model.family));
  TRY(check_unsupported(config, *model.family));
  const bool whole_tied = TRY(whole.boolean("tie_word_embeddings")).value_or(model.family->tied);
  model.tied = TRY(config.boolean("tie_word_embeddings")).value_or(whole_tied);
  add_size_keys(model);
  TRY(add_number_keys(config, model));
  TRY(add_router_keys(config, model));
  TRY(read_layer_kinds(config, model));
  TRY(read_attention_scale(config, model));
  TRY(read_rope(config, model));
  TRY(read_windows(config, model));
  TRY(check_nope_layers(config, model));
  TRY(read_fp8_tile(whole, model));
  return model;
}

void add_key(GgufWriter& writer, const MetadataKey& key) {
  if (const auto* flags = std::get_if<std::vector<bool>>(&key.value)) {
    std::vector<uint8_t> bytes(flags->begin(), flags->end());
    static_assert(sizeof(bool) == 1);
    writer.add_array(key.name, std::span(reinterpret_cast<const bool*>(bytes.data()), bytes.size()));
  } else if (const auto* numbers = std::get_if<std::vector<int32_t>>(&key.value)) {
    writer.add_array(key.name, std::span(*numbers));
  } else if (const auto* text = std::get_if<std::string>(&key.value)) {
    writer.add(key.name, *text);
  } else if (const auto* flag = std::get_if<bool>(&key.value)) {
    writer.add(key.name, *flag);
  } else if (const auto* number = std::get_if<uint32_t>(&key.value)) {
    writer.add(key.name, *number);
  } else {
    writer.add(key.name, std::get<float>(key.value));
  }
}

std::string key_text(const KeyValue& value) {
  if (const auto* flags = std::get_if<std::vector<bool>>(&value)) {
    std::string text;
    for (bool flag : *flags) text += flag ? '1' : '0';
    return text;
  }
  if (const auto* numbers = std::get_if<std::vector<int32_t>>(&value))
    return fmt::format("{}", fmt::join(*numbers, " "));
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  if (const auto* flag = std::get_if<bool>(&value)) return *flag ? "true" : "false";
  if (const auto* number = std::get_if<uint32_t>(&value)) return std::to_string(*number);
  return fmt::format("{}", std::get<float>(value));
}

}  // namespace tokamak::convert
