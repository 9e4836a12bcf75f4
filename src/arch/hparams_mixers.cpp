// Keys of experts, latent attention and delta nets.
#include <algorithm>

#include "arch/architectures.h"
#include "arch/hparams_parts.h"

namespace tokamak::arch {

namespace {
Error bad(const Keys& keys, std::string_view key, std::string what) {
  return Error{.code = ErrorCode::bad_metadata, .what = std::move(what), .where = keys.key(key)};
}
}  // namespace

Result<void> read_moe(const Keys& keys, Hparams& hp) {
  MoeHparams& moe = hp.moe;
  moe.n_expert = TRY(keys.count_or("expert_count", 0, kMaxExperts));
  if (moe.n_expert == 0) return {};
  moe.n_used = TRY(keys.size("expert_used_count", std::min(moe.n_expert, kMaxExpertsUsed)));
  const auto widths = TRY(keys.per_layer("expert_feed_forward_length", {hp.layers[0].n_ff}, hp.n_layer, 0, kMaxWidth));
  for (int64_t width : widths) moe.n_ff = std::max(moe.n_ff, width);
  if (moe.n_ff == 0) return bad(keys, "expert_feed_forward_length", "is missing");
  const int64_t n_shared = TRY(keys.count_or("expert_shared_count", 0, kMaxWidth));
  moe.n_ff_shared = TRY(keys.count_or("expert_shared_feed_forward_length",
                                      std::min(kMaxWidth, std::max<int64_t>(n_shared, 1) * moe.n_ff), kMaxWidth));
  const int64_t gating = TRY(keys.count_or("expert_gating_func", 0, static_cast<int64_t>(Gating::sqrt_softplus)));
  moe.gating = gating == 0 ? hp.family->gating : static_cast<Gating>(gating);
  moe.renormalise = TRY(keys.flag_or("expert_weights_norm", hp.family->renormalise));
  moe.weights_scale = TRY(keys.number_or("expert_weights_scale", 1, -1e6, 1e6));
  if (moe.weights_scale == 0) moe.weights_scale = 1;  // some converters write 0 for "none"
  moe.n_group = std::max<int64_t>(1, TRY(keys.count_or("expert_group_count", 1, moe.n_expert)));
  moe.n_group_used = std::max<int64_t>(1, TRY(keys.count_or("expert_group_used_count", moe.n_group, moe.n_group)));
  moe.n_group_best = std::min(moe.n_group_best, moe.n_expert / moe.n_group);
  if (moe.n_expert % moe.n_group != 0)
    return bad(keys, "expert_group_count",
               fmt::format("{} experts cannot form {} equal groups", moe.n_expert, moe.n_group));
  if (moe.n_used > moe.n_group_used * (moe.n_expert / moe.n_group))
    return bad(keys, "expert_used_count", fmt::format("{} experts do not fit the chosen groups", moe.n_used));
  return {};
}

Result<void> read_mla(const Keys& keys, Hparams& hp) {
  if (!hp.family->mla) return {};
  if (!keys.has("attention.key_length_mla"))
    return Error{.code = ErrorCode::unsupported,
                 .what = "latent attention in its expanded form (attn_kv_b) is not supported",
                 .where = keys.key("attention.key_length_mla"),
                 .hint = "the file was made before attn_k_b and attn_v_b were split: convert the checkpoint again"};
  MlaHparams& mla = hp.mla;
  mla.q_lora_rank = TRY(keys.count_or("attention.q_lora_rank", 0, kMaxWidth));
  mla.kv_lora_rank = TRY(keys.size("attention.kv_lora_rank", kMaxHeadDim));
  const int64_t n_rot = TRY(keys.size("rope.dimension_count", kMaxHeadDim));
  const int64_t head_dim = TRY(keys.size("attention.key_length_mla", kMaxHeadDim));
  mla.head_dim_v = TRY(keys.size("attention.value_length_mla", kMaxHeadDim));
  mla.n_nope = head_dim - n_rot;
  if (mla.n_nope < 1)
    return bad(keys, "attention.key_length_mla", fmt::format("{} is no more than the rotated {}", head_dim, n_rot));
  if (hp.head_dim_k != mla.kv_lora_rank + n_rot || hp.head_dim_v != mla.kv_lora_rank)
    return bad(keys, "attention.key_length",
               fmt::format("{} and value_length {} are not those of latents of {} with {} rotated", hp.head_dim_k,
                           hp.head_dim_v, mla.kv_lora_rank, n_rot));
  for (const LayerHparams& layer : hp.layers)
    if (layer.n_head_kv != 1) return bad(keys, "attention.head_count_kv", "must be 1: latents are shared by all heads");
  return {};
}

Result<void> read_delta_net(const Keys& keys, Hparams& hp) {
  if (!hp.family->delta_net) return {};
  DeltaNetHparams& net = hp.delta_net;
  net.n_conv = TRY(keys.size("ssm.conv_kernel", kMaxConvTaps));
  net.n_head_k = TRY(keys.size("ssm.group_count", kMaxHeads));
  net.n_head_v = TRY(keys.size("ssm.time_step_rank", kMaxHeads));
  net.head_dim_k = TRY(keys.size("ssm.state_size", kMaxHeadDim));
  const int64_t inner = TRY(keys.size("ssm.inner_size", kMaxWidth));
  if (net.n_conv < 2) return bad(keys, "ssm.conv_kernel", "must be at least 2");
  if (net.n_head_v % net.n_head_k != 0)
    return bad(keys, "ssm.time_step_rank",
               fmt::format("{} value heads cannot share {} key heads evenly", net.n_head_v, net.n_head_k));
  if (inner % net.n_head_v != 0 || inner / net.n_head_v > kMaxHeadDim)
    return bad(keys, "ssm.inner_size",
               fmt::format("{} is not {} heads of at most {}", inner, net.n_head_v, kMaxHeadDim));
  net.head_dim_v = inner / net.n_head_v;
  const int64_t interval = TRY(keys.size_or("full_attention_interval", 4, kMaxLayers));
  std::vector<int64_t> recurrent;
  for (int64_t i = 0; i < hp.n_layer; ++i) recurrent.push_back((i + 1) % interval != 0);
  recurrent = TRY(keys.per_layer("attention.recurrent_layers", std::move(recurrent), hp.n_layer, 0, 1));
  for (size_t i = 0; i < hp.layers.size(); ++i) hp.layers[i].is_delta_net = recurrent[i] != 0;
  return {};
}

}  // namespace tokamak::arch
