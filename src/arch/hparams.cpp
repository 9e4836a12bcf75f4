#include "arch/hparams.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "arch/architectures.h"
#include "arch/hparams_parts.h"
#include "base/settings.h"

namespace tokamak::arch {

namespace {

Result<void> read_head_dims(const Keys& keys, Hparams& hp, int64_t n_head) {
  const int64_t head_dim = hp.n_embd / n_head;
  hp.head_dim_k = TRY(keys.size_or("attention.key_length", head_dim, kMaxWidth));
  hp.head_dim_v = TRY(keys.size_or("attention.value_length", head_dim, kMaxWidth));
  for (const auto& [n, name] : {std::pair(hp.head_dim_k, "key_length"), {hp.head_dim_v, "value_length"}})
    if (n < 1 || n > kMaxHeadDim)
      return Error{.code = ErrorCode::unsupported,
                   .what = fmt::format("attention heads of {} dimensions", n),
                   .where = keys.key(std::string("attention.") + name),
                   .hint = fmt::format("heads have 1 to {}", kMaxHeadDim)};
  return {};
}

Result<void> read_layers(const Keys& keys, Hparams& hp) {
  const auto n_head = TRY(keys.per_layer("attention.head_count", {}, hp.n_layer, 1, kMaxHeads));
  const auto n_head_kv = TRY(keys.per_layer("attention.head_count_kv", n_head, hp.n_layer, 1, kMaxHeads));
  const bool has_experts = keys.has("expert_count");  // then a dense width may be missing or 0
  const auto n_ff =
      TRY(keys.per_layer("feed_forward_length", has_experts ? std::vector<int64_t>{0} : std::vector<int64_t>{},
                         hp.n_layer, has_experts ? 0 : 1, kMaxWidth));
  TRY(read_head_dims(keys, hp, n_head[0]));
  for (size_t i = 0; i < n_head.size(); ++i) {
    if (n_head[i] % n_head_kv[i] != 0)
      return Error{
          .code = ErrorCode::bad_metadata,
          .what = fmt::format("{} query heads cannot share {} key-value heads evenly", n_head[i], n_head_kv[i]),
          .where = keys.key("attention.head_count_kv")};
    hp.layers.push_back({.n_head = n_head[i], .n_head_kv = n_head_kv[i], .n_ff = n_ff[i]});
  }
  return {};
}

Result<int64_t> read_n_vocab(const GgufFile& file) {
  const GgufTensor* table = file.find_tensor("token_embd.weight");
  if (!table || table->shape.rank() != 2)
    return Error{.code = ErrorCode::bad_tensor,
                 .what = table ? "must be a matrix" : "the file has no such tensor",
                 .where = "token_embd.weight",
                 .hint = "the file is not a complete language model"};
  if (table->shape[0] > kMaxVocab)
    return Error{.code = ErrorCode::bad_tensor, .what = "the vocabulary is too large", .where = "token_embd.weight"};
  return table->shape[0];
}

Result<const ArchitectureRow*> find_family(const GgufFile& file) {
  const std::string_view name = TRY(file.architecture());
  if (const ArchitectureRow* row = find_architecture(name)) return row;
  std::vector<std::string_view> known;
  for (const ArchitectureRow& row : architectures()) known.push_back(row.name);
  const std::string_view near = nearest_name(name, known);
  return Error{.code = ErrorCode::unsupported,
               .what = fmt::format("model family '{}' is not supported", name),
               .where = "general.architecture",
               .hint = fmt::format("{} families are, {}; all are in docs/reference/architectures.md", known.size(),
                                   near.empty() ? "llama among them" : fmt::format("the nearest is '{}'", near))};
}

constexpr double kLargestFactor = 1e9, kSmallestFactor = 1e-9;

// A factor whose inverse is used too. Some converters write 0 for "none".
Result<double> read_factor(const Keys& keys, std::string_view suffix, double none, double min = -kLargestFactor) {
  const double factor = TRY(keys.number_or(suffix, 0, min, kLargestFactor));
  if (factor == 0) return none;
  if (std::abs(factor) < kSmallestFactor)
    return Error{.code = ErrorCode::bad_metadata,
                 .what = fmt::format("{} is too small for a factor", factor),
                 .where = keys.key(suffix)};
  return factor;
}

Result<void> read_scales(const Keys& keys, Hparams& hp) {
  hp.embedding_scale = TRY(read_factor(keys, "embedding_scale", 1));
  hp.residual_scale = TRY(read_factor(keys, "residual_scale", 1));
  hp.logit_scale = TRY(read_factor(keys, "logit_scale", 1));
  if (hp.family->divide_logits) hp.logit_scale = 1 / hp.logit_scale;
  const int64_t scored = hp.family->mla ? hp.mla.n_nope + hp.head_dim_k - hp.mla.kv_lora_rank : hp.head_dim_k;
  hp.attention_scale = TRY(keys.number_or("attention.scale", 0, 0, 1e6));
  if (hp.attention_scale == 0) hp.attention_scale = 1 / std::sqrt(static_cast<double>(scored));
  hp.qkv_clamp = TRY(keys.number_or("attention.clamp_kqv", 0, 0, 1e9));
  hp.attention_softcap = TRY(read_factor(keys, "attn_logit_softcapping", 0, 0));
  hp.logit_softcap = TRY(read_factor(keys, "final_logit_softcapping", 0, 0));
  return {};
}

}  // namespace

Result<std::string> arch_key(const GgufFile& file, std::string_view suffix) {
  return std::string(TRY(file.architecture())) + "." + std::string(suffix);
}

Result<Hparams> read_hparams(const GgufFile& file) {
  Hparams hp{.family = TRY(find_family(file))};
  const Keys sizes(file, hp.family->name);
  const int64_t n_blocks = TRY(sizes.size("block_count", kMaxLayers));
  const int64_t n_extra = TRY(sizes.count_or("nextn_predict_layers", 0, n_blocks - 1));
  const Keys keys(file, hp.family->name, n_extra);
  hp.n_layer = n_blocks - n_extra;
  hp.n_embd = TRY(keys.size("embedding_length", kMaxWidth));
  hp.n_ctx_train = TRY(keys.size("context_length", kMaxContext));
  hp.n_vocab = TRY(read_n_vocab(file));
  const bool is_rms = hp.family->norm == NormKind::rms;
  hp.norm_eps = TRY(keys.number(is_rms ? "attention.layer_norm_rms_epsilon" : "attention.layer_norm_epsilon", 0, 1));
  TRY(read_layers(keys, hp));
  TRY(read_moe(keys, hp));
  TRY(read_mla(keys, hp));
  TRY(read_delta_net(keys, hp));
  TRY(read_scales(keys, hp));
  const ir::RopeParams rope = TRY(read_rope(keys, hp));
  for (LayerHparams& layer : hp.layers) layer.rope = rope;
  if (hp.family->adjust) TRY(hp.family->adjust(file, hp));
  return hp;
}

}  // namespace tokamak::arch
