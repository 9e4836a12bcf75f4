#include <cmath>

#include "arch/architectures.h"
#include "arch/hparams_parts.h"

namespace tokamak::arch {

namespace {

// Peng et al. 2023 (arXiv:2309.00071); the factors differ by family, see enum Yarn.
Result<void> read_yarn(const Keys& keys, ir::RopeParams& rope, Hparams& hp, double factor) {
  rope.ext_factor = TRY(keys.number_or("rope.scaling.yarn_ext_factor", 1, 0, 1));
  rope.beta_fast = TRY(keys.number_or("rope.scaling.yarn_beta_fast", 32, 1e-3, 1e6));
  rope.beta_slow = TRY(keys.number_or("rope.scaling.yarn_beta_slow", 1, 1e-3, 1e6));
  rope.n_ctx_orig = TRY(keys.size_or("rope.scaling.original_context_length", hp.n_ctx_train, kMaxContext));
  rope.round_range = hp.family->yarn_round_range;
  const double growth = factor > 1 ? std::log(factor) : 0;
  const double multiplier = TRY(keys.number_or("rope.scaling.yarn_log_multiplier", 0, 0, 1e3));
  rope.attn_factor = TRY(keys.number_or("rope.scaling.attn_factor", 1, 1e-6, 1e6));
  switch (hp.family->yarn) {
    case Yarn::plain:
      rope.attn_factor *= 1 + 0.1 * growth;
      break;
    case Yarn::mistral:
      rope.attn_factor *= (1 + 0.1 * growth) / (1 + 0.1 * multiplier * growth);
      break;
    case Yarn::deepseek:
      hp.attention_scale *= (1 + multiplier * growth) * (1 + multiplier * growth);
      break;
  }
  return {};
}

// llama3 scaling is a tensor (rope_freqs.weight), not a key.
Result<void> read_rope_scaling(const Keys& keys, ir::RopeParams& rope, Hparams& hp) {
  const std::string_view kind =
      TRY(keys.text_or("rope.scaling.type", keys.has("rope.scale_linear") ? "linear" : "none"));
  if (kind == "none") return {};
  if (kind == "longrope") {
    rope.attn_factor = TRY(keys.number_or("rope.scaling.attn_factor", 1, 1e-6, 1e6));
    hp.n_ctx_long = TRY(keys.size_or("rope.scaling.original_context_length", hp.n_ctx_train, kMaxContext));
    return {};
  }
  if (kind != "linear" && kind != "yarn")
    return Error{.code = ErrorCode::unsupported,
                 .what = fmt::format("rope scaling '{}' is not supported yet", kind),
                 .where = keys.key("rope.scaling.type"),
                 .hint = "none, linear, yarn, longrope and llama3 factors are"};
  const double legacy = TRY(keys.number_or("rope.scale_linear", 1, 1e-6, 1e6));
  const double factor = TRY(keys.number_or("rope.scaling.factor", legacy, 1e-6, 1e6));
  rope.freq_scale = 1 / factor;
  return kind == "yarn" ? read_yarn(keys, rope, hp, factor) : Result<void>();
}

}  // namespace

Result<ir::RopeParams> read_rope(const Keys& keys, Hparams& hp) {
  ir::RopeParams rope{.pairing = hp.family->pairing};
  if (!hp.family->rope) return rope;
  rope.n_rot = TRY(keys.count_or("rope.dimension_count", hp.head_dim_k, hp.head_dim_k));
  if (rope.n_rot % 2 != 0)
    return Error{.code = ErrorCode::bad_metadata,
                 .what = fmt::format("{} rotated dimensions cannot be paired", rope.n_rot),
                 .where = keys.key("rope.dimension_count")};
  rope.theta = TRY(keys.number_or("rope.freq_base", 10000, 1.0 + 1e-9, 1e12));
  TRY(read_rope_scaling(keys, rope, hp));
  return rope;
}

}  // namespace tokamak::arch
