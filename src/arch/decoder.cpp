// The one decoder: layers of a mixer (attention, latent attention, delta net) and a feed-forward, wired as the family
// says.
#include "arch/architectures.h"
#include "arch/blocks.h"

namespace tokamak::arch {

using ir::ValueId;

namespace {

struct Layer {
  Recipe& r;
  int64_t layer_idx;
  Block block = r.hp.family->block;

  std::string at(std::string_view what) const { return block_name(layer_idx, what); }

  std::optional<ValueId> mixer(ValueId x) const {
    if (r.hp.layers[static_cast<size_t>(layer_idx)].is_delta_net) return delta_net(r, layer_idx, x);
    return r.hp.family->mla ? latent_attention(r, layer_idx, x) : attention(r, layer_idx, x);
  }

  ValueId project(ValueId mixed) const {
    const bool recurrent = r.hp.layers[static_cast<size_t>(layer_idx)].is_delta_net;
    return linear(r, mixed, at(recurrent ? "ssm_out" : "attn_output"), r.hp.n_embd);
  }

  // A sub-block's result on its way to the residual.
  ValueId finish(ValueId y, std::string_view post_norm, const std::string& name) const {
    if (block != Block::pre) y = norm(r, y, at(post_norm));
    return r.hp.residual_scale == 1 ? y : r.b.scale(y, r.hp.residual_scale, 0, name);
  }

  // x += f(norm x); x += g(norm x), with the norms where `block` puts them. Nothing: the cache was all that was wanted.
  std::optional<ValueId> sequential(ValueId x) const {
    const auto mixed = mixer(block == Block::post ? x : norm(r, x, at("attn_norm")));
    if (!mixed) return std::nullopt;
    const ValueId kept = keep_output_rows(r, layer_idx, *mixed, "attn_output_rows");
    x = keep_output_rows(r, layer_idx, x, "residual_output_rows");
    x = r.b.add(finish(project(kept), "post_attention_norm", at("attn_rescaled")), x, at("attn_residual"));
    const ValueId input = block == Block::post ? x : norm(r, x, at(r.hp.family->ffn_norm));
    const ValueId fed = feed_forward_or_experts(r, layer_idx, input);
    return r.b.add(finish(fed, "post_ffw_norm", at("ffn_rescaled")), x, at("ffn_residual"));
  }

  // x += f(norm x) + g(norm x): one norm for both, or one each (attn_norm_2 is the mixer's, else ffn_norm is g's).
  std::optional<ValueId> parallel(ValueId x) const {
    const bool has_second = r.has(at("attn_norm_2.weight")), has_ffn_norm = r.has(at("ffn_norm.weight"));
    const ValueId first = norm(r, x, at("attn_norm"));
    const auto mixed = mixer(has_second ? norm(r, x, at("attn_norm_2")) : first);
    if (!mixed) return std::nullopt;
    const ValueId kept = keep_output_rows(r, layer_idx, *mixed, "attn_output_rows");
    const ValueId residual = keep_output_rows(r, layer_idx, x, "residual_output_rows");
    const ValueId input =
        has_ffn_norm ? norm(r, residual, at("ffn_norm")) : keep_output_rows(r, layer_idx, first, "ffn_input_rows");
    const ValueId attended = project(kept);
    const ValueId fed = feed_forward_or_experts(r, layer_idx, input);
    return r.b.add(r.b.add(fed, attended, at("ffn_and_attn")), residual, at("residual"));
  }
};

}  // namespace

void build_decoder(Recipe& r) {
  ValueId x = embed(r);
  for (int64_t layer_idx = 0; layer_idx < r.hp.n_layer; ++layer_idx) {
    const Layer layer{r, layer_idx};
    const auto next = r.hp.parallel ? layer.parallel(x) : layer.sequential(x);
    if (!next) return;
    x = *next;
  }
  head(r, x);
}

}  // namespace tokamak::arch
