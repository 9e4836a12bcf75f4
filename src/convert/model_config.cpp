#include "convert/model_config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <limits>

#include "arch/hparams.h"
#include "base/check.h"
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
  for (const arch::ConfigDefault& row : family.defaults)
    if (row.config == field) return row.value;
  return std::numeric_limits<double>::quiet_NaN();
}

struct SizeField {
  std::string_view name;
  int64_t ModelConfig::*member;
  int64_t max;
};
constexpr auto kSizeFields = std::to_array<SizeField>({
    {"vocab_size", &ModelConfig::n_vocab, arch::kMaxVocab},
    {"max_position_embeddings", &ModelConfig::n_ctx, arch::kMaxContext},
    {"hidden_size", &ModelConfig::n_embd, arch::kMaxWidth},
    {"num_hidden_layers", &ModelConfig::n_layer, arch::kMaxLayers},
    {"intermediate_size", &ModelConfig::n_ff, arch::kMaxWidth},
    {"num_attention_heads", &ModelConfig::n_head, arch::kMaxHeads},
    {"num_key_value_heads", &ModelConfig::n_head_kv, arch::kMaxHeads},
    {"head_dim", &ModelConfig::head_dim, arch::kMaxHeadDim},
});

Result<void> read_sizes(const ConfigReader& config, ModelConfig& model) {
  for (const SizeField& field : kSizeFields) {
    const double fallback = default_of(*model.family, field.name);
    const bool is_null = !config.has(field.name);
    if (is_null && std::isnan(fallback)) continue;  // derived below, or missing
    model.*field.member = TRY(config.integer(field.name, 1, field.max))
                              .value_or(std::isnan(fallback) ? 0 : static_cast<int64_t>(fallback));
  }
  for (const SizeField& field : kSizeFields) {
    if (model.*field.member != 0) continue;
    if (field.member == &ModelConfig::n_head_kv)
      model.n_head_kv = model.n_head;
    else if (field.member == &ModelConfig::head_dim && model.n_head > 0 && model.n_embd >= model.n_head)
      model.head_dim = model.n_embd / model.n_head;
    else
      return config.error(field.name, "is missing");
  }
  if (model.n_head % model.n_head_kv != 0)
    return config.error("num_key_value_heads", fmt::format("{} query heads cannot share {} key-value heads evenly",
                                                           model.n_head, model.n_head_kv));
  return {};
}

Result<void> add_plain_keys(const ConfigReader& config, ModelConfig& model) {
  const std::string prefix = std::string(model.family->architecture) + ".";
  for (const arch::CheckpointKey& row : arch::checkpoint_keys()) {
    const std::string name = prefix + std::string(row.gguf);
    const SizeField* size = nullptr;
    for (const SizeField& field : kSizeFields)
      if (field.name == row.config) size = &field;
    if (size) {
      model.keys.push_back({name, static_cast<uint32_t>(model.*size->member)});
      continue;
    }
    const double fallback = default_of(*model.family, row.config);
    const auto value = TRY(config.number(row.config, 0, 1e9));
    if (!value && row.optional) continue;
    if (!value && std::isnan(fallback)) return config.error(row.config, "is missing");
    const double number = value.value_or(fallback);
    if (row.type == arch::KeyType::u32)
      model.keys.push_back({name, static_cast<uint32_t>(number)});
    else
      model.keys.push_back({name, static_cast<float>(number)});
  }
  return {};
}

Result<void> check_activation(const ConfigReader& config, const CheckpointFamily& family) {
  for (std::string_view field : {"hidden_act", "hidden_activation"}) {
    const auto name = TRY(config.text(field));
    // Old Gemma files say "gelu" in hidden_act and the truth in hidden_activation.
    const bool is_shadowed = field == "hidden_act" && config.has("hidden_activation");
    if (!name || *name == family.activation || is_shadowed) continue;
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
  model.keys.push_back(
      {fmt::format("{}.attention.scale", model.family->architecture), static_cast<float>(1 / std::sqrt(scalar))});
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

Result<void> check_unsupported(const ConfigReader& config) {
  if (TRY(config.boolean("use_bidirectional_attention")).value_or(false))
    return Error{.code = ErrorCode::unsupported,
                 .what = "attention in both directions is not supported",
                 .where = config.where("use_bidirectional_attention")};
  return {};
}

}  // namespace

int64_t ModelConfig::dim(arch::Dim dim) const {
  switch (dim) {
    case arch::Dim::vocab:
      return n_vocab;
    case arch::Dim::embd:
      return n_embd;
    case arch::Dim::q:
      return n_head * head_dim;
    case arch::Dim::kv:
      return n_head_kv * head_dim;
    case arch::Dim::ff:
      return n_ff;
    case arch::Dim::head:
      return head_dim;
    case arch::Dim::none:
      break;
  }
  CHECK(dim != arch::Dim::none);
  return 0;
}

Result<ModelConfig> read_model_config(const Json& json, const std::string& where) {
  const ConfigReader whole(json, where);
  ModelConfig model{.family = TRY(find_family(whole))};
  const std::string section(model.family->section);
  const ConfigReader config = section.empty() ? whole : TRY(whole.section(section));
  TRY(read_sizes(config, model));
  TRY(check_activation(config, *model.family));
  TRY(check_unsupported(config));
  const bool whole_tied = TRY(whole.boolean("tie_word_embeddings")).value_or(model.family->tied);
  model.tied = TRY(config.boolean("tie_word_embeddings")).value_or(whole_tied);
  TRY(add_plain_keys(config, model));
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
    return;
  }
  std::visit(
      [&](const auto& value) {
        if constexpr (!std::is_same_v<std::decay_t<decltype(value)>, std::vector<bool>>) writer.add(key.name, value);
      },
      key.value);
}

std::string key_text(const KeyValue& value) {
  if (const auto* flags = std::get_if<std::vector<bool>>(&value)) {
    std::string text;
    for (bool flag : *flags) text += flag ? '1' : '0';
    return text;
  }
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  if (const auto* number = std::get_if<uint32_t>(&value)) return std::to_string(*number);
  return fmt::format("{}", std::get<float>(value));
}

}  // namespace tokamak::convert
