#include "arch/hparams.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "arch/architectures.h"

namespace tokamak::arch {

namespace {

// Keys of the file's architecture.
class Keys {
 public:
  Keys(const GgufFile& file, std::string_view arch) : file_(file), prefix_(std::string(arch) + ".") {}

  std::string key(std::string_view suffix) const { return prefix_ + std::string(suffix); }
  bool has(std::string_view suffix) const { return file_.has(key(suffix)); }
  Result<int64_t> size(std::string_view suffix, int64_t max) const { return file_.get_i64(key(suffix), 1, max); }
  Result<int64_t> size_or(std::string_view suffix, int64_t fallback, int64_t max) const {
    return file_.get_i64_or(key(suffix), fallback, 1, max);
  }
  Result<int64_t> count_or(std::string_view suffix, int64_t fallback, int64_t max) const {
    return file_.get_i64_or(key(suffix), fallback, 0, max);
  }
  Result<double> number(std::string_view suffix, double min, double max) const {
    return file_.get_f64(key(suffix), min, max);
  }
  Result<double> number_or(std::string_view suffix, double fallback, double min, double max) const {
    return file_.get_f64_or(key(suffix), fallback, min, max);
  }
  Result<std::string_view> text_or(std::string_view suffix, std::string_view fallback) const {
    return file_.get_string_or(key(suffix), fallback);
  }

  // A number for all layers, or one per layer.
  Result<std::vector<int64_t>> per_layer(std::string_view suffix, std::vector<int64_t> fallback, int64_t n_layer,
                                         int64_t max) const {
    std::vector<int64_t> values = TRY(file_.get_ints_or(key(suffix), std::move(fallback)));
    const auto n = static_cast<size_t>(n_layer);
    if (values.size() == 1) values.resize(n, values[0]);
    if (values.size() != n)
      return Error{.code = ErrorCode::bad_metadata,
                   .what = fmt::format("{} values for {} layers", values.size(), n_layer),
                   .where = key(suffix)};
    for (int64_t value : values)
      if (value < 1 || value > max)
        return Error{.code = ErrorCode::bad_metadata,
                     .what = fmt::format("{} is outside 1..{}", value, max),
                     .where = key(suffix)};
    return values;
  }

 private:
  const GgufFile& file_;
  std::string prefix_;
};

// architectures.md 3.2. llama3 scaling is a tensor (rope_freqs.weight), not a key.
Result<void> read_rope_scaling(const Keys& keys, ir::RopeParams& rope, int64_t n_ctx_train) {
  const std::string_view kind =
      TRY(keys.text_or("rope.scaling.type", keys.has("rope.scale_linear") ? "linear" : "none"));
  if (kind == "none") return {};
  if (kind != "linear" && kind != "yarn")
    return Error{.code = ErrorCode::unsupported,
                 .what = fmt::format("rope scaling '{}' is not supported yet", kind),
                 .where = keys.key("rope.scaling.type"),
                 .hint = "none, linear, yarn and llama3 factors are"};
  const double legacy = TRY(keys.number_or("rope.scale_linear", 1, 1e-6, 1e6));
  const double factor = TRY(keys.number_or("rope.scaling.factor", legacy, 1e-6, 1e6));
  rope.freq_scale = 1 / factor;
  if (kind == "linear") return {};
  rope.ext_factor = TRY(keys.number_or("rope.scaling.yarn_ext_factor", 1, 0, 1));
  rope.beta_fast = TRY(keys.number_or("rope.scaling.yarn_beta_fast", 32, 1e-3, 1e6));
  rope.beta_slow = TRY(keys.number_or("rope.scaling.yarn_beta_slow", 1, 1e-3, 1e6));
  rope.n_ctx_orig = TRY(keys.size_or("rope.scaling.original_context_length", n_ctx_train, kMaxContext));
  const double attn_factor = TRY(keys.number_or("rope.scaling.attn_factor", 1, 1e-6, 1e6));
  rope.attn_factor = attn_factor * (factor > 1 ? 1 + 0.1 * std::log(factor) : 1);
  return {};
}

Result<ir::RopeParams> read_rope(const Keys& keys, const Hparams& hp) {
  ir::RopeParams rope{.pairing = hp.family->pairing};
  rope.n_rot = TRY(keys.count_or("rope.dimension_count", hp.head_dim_k, hp.head_dim_k));
  if (rope.n_rot % 2 != 0)
    return Error{.code = ErrorCode::bad_metadata,
                 .what = fmt::format("{} rotated dimensions cannot be paired", rope.n_rot),
                 .where = keys.key("rope.dimension_count")};
  rope.theta = TRY(keys.number_or("rope.freq_base", 10000, 1.0 + 1e-9, 1e12));
  TRY(read_rope_scaling(keys, rope, hp.n_ctx_train));
  return rope;
}

Result<void> read_layers(const Keys& keys, Hparams& hp) {
  const auto n_head = TRY(keys.per_layer("attention.head_count", {}, hp.n_layer, kMaxHeads));
  const auto n_head_kv = TRY(keys.per_layer("attention.head_count_kv", n_head, hp.n_layer, kMaxHeads));
  const auto n_ff = TRY(keys.per_layer("feed_forward_length", {}, hp.n_layer, kMaxWidth));
  const int64_t head_dim = hp.n_embd / n_head[0];
  hp.head_dim_k = TRY(keys.size_or("attention.key_length", head_dim, kMaxWidth));
  hp.head_dim_v = TRY(keys.size_or("attention.value_length", head_dim, kMaxWidth));
  for (const auto& [n, name] : {std::pair(hp.head_dim_k, "key_length"), {hp.head_dim_v, "value_length"}})
    if (n < 1 || n > kMaxHeadDim)
      return Error{.code = ErrorCode::unsupported,
                   .what = fmt::format("attention heads of {} dimensions", n),
                   .where = keys.key(std::string("attention.") + name),
                   .hint = fmt::format("heads have 1 to {}", kMaxHeadDim)};
  const ir::RopeParams rope = TRY(read_rope(keys, hp));
  for (size_t i = 0; i < n_head.size(); ++i) {
    if (n_head[i] % n_head_kv[i] != 0)
      return Error{
          .code = ErrorCode::bad_metadata,
          .what = fmt::format("{} query heads cannot share {} key-value heads evenly", n_head[i], n_head_kv[i]),
          .where = keys.key("attention.head_count_kv")};
    hp.layers.push_back({.n_head = n_head[i], .n_head_kv = n_head_kv[i], .n_ff = n_ff[i], .rope = rope});
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
  std::string known;
  for (const ArchitectureRow& row : architectures()) known += (known.empty() ? "" : ", ") + std::string(row.name);
  return Error{.code = ErrorCode::unsupported,
               .what = fmt::format("model family '{}' is not supported", name),
               .where = "general.architecture",
               .hint = "supported: " + known};
}

}  // namespace

Result<std::string> arch_key(const GgufFile& file, std::string_view suffix) {
  return std::string(TRY(file.architecture())) + "." + std::string(suffix);
}

Result<Hparams> read_hparams(const GgufFile& file) {
  Hparams hp{.family = TRY(find_family(file))};
  const Keys keys(file, hp.family->name);
  hp.n_layer = TRY(keys.size("block_count", kMaxLayers));
  hp.n_embd = TRY(keys.size("embedding_length", kMaxWidth));
  hp.n_ctx_train = TRY(keys.size("context_length", kMaxContext));
  hp.n_vocab = TRY(read_n_vocab(file));
  hp.norm_eps = TRY(keys.number("attention.layer_norm_rms_epsilon", 0, 1));
  if (TRY(keys.count_or("expert_count", 0, kMaxWidth)) > 0)
    return Error{.code = ErrorCode::unsupported,
                 .what = "mixture-of-experts models are not supported yet",
                 .where = keys.key("expert_count")};
  TRY(read_layers(keys, hp));
  hp.attention_scale =
      TRY(keys.number_or("attention.scale", 1 / std::sqrt(static_cast<double>(hp.head_dim_k)), 0, 1e6));
  hp.attention_softcap = TRY(keys.number_or("attn_logit_softcapping", 0, 0, 1e9));
  hp.logit_softcap = TRY(keys.number_or("final_logit_softcapping", 0, 0, 1e9));
  if (hp.family->adjust) TRY(hp.family->adjust(file, hp));
  return hp;
}

}  // namespace tokamak::arch
