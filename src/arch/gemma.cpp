#include <cmath>

#include "arch/blocks.h"
#include "arch/families.h"

namespace tokamak::arch {

void build_gemma(Recipe& r) {
  ir::ValueId x = embed(r);
  for (int64_t layer_idx = 0; layer_idx < r.hp.n_layer; ++layer_idx) {
    const auto mixed = attention(r, layer_idx, rms_norm(r, x, block_name(layer_idx, "attn_norm")));
    if (!mixed) return;
    const ir::ValueId kept = keep_output_rows(r, layer_idx, *mixed, "attn_output_rows");
    x = keep_output_rows(r, layer_idx, x, "residual_output_rows");
    const ir::ValueId projected = linear(r, kept, block_name(layer_idx, "attn_output"), r.hp.n_embd);
    x = r.b.add(rms_norm(r, projected, block_name(layer_idx, "post_attention_norm")), x,
                block_name(layer_idx, "attn_residual"));
    const ir::ValueId fed = feed_forward(r, layer_idx, rms_norm(r, x, block_name(layer_idx, "ffn_norm")));
    x = r.b.add(rms_norm(r, fed, block_name(layer_idx, "post_ffw_norm")), x, block_name(layer_idx, "ffn_residual"));
  }
  head(r, x);
}

namespace {
constexpr int64_t kDefaultPeriod = 6;  // layers per global layer when no key tells
constexpr double kLocalTheta = 10000;  // rope base of the local layers when no key tells
constexpr int64_t kLayersOf27B = 62;

}  // namespace

Result<void> adjust_gemma3(const GgufFile& file, Hparams& hp) {
  const std::string window_key = TRY(arch_key(file, "attention.sliding_window"));
  const std::string theta_key = TRY(arch_key(file, "rope.freq_base_swa"));
  const int64_t window = TRY(file.get_i64_or(window_key, 0, 0, kMaxContext));
  const double theta = TRY(file.get_f64_or(theta_key, kLocalTheta, 1.0 + 1e-9, 1e12));
  const std::string pattern_key = TRY(arch_key(file, "attention.sliding_window_pattern"));
  const std::vector<bool> local = TRY(local_layers(file, pattern_key, hp.n_layer, kDefaultPeriod));
  for (size_t i = 0; i < hp.layers.size(); ++i) {
    if (!local[i]) continue;
    LayerHparams& layer = hp.layers[i];
    layer.window = window;
    layer.rope = {.n_rot = layer.rope.n_rot, .pairing = layer.rope.pairing, .theta = theta};  // unscaled
  }
  hp.embedding_scale = std::sqrt(static_cast<double>(hp.n_embd));
  if (hp.n_layer == kLayersOf27B)
    hp.attention_scale = 1 / std::sqrt(static_cast<double>(hp.n_embd) / static_cast<double>(hp.layers[0].n_head));
  return {};
}

}  // namespace tokamak::arch
