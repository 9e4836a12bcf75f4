#include "arch/blocks.h"
#include "arch/families.h"

namespace tokamak::arch {

void build_decoder(Recipe& r) {
  ir::ValueId x = embed(r);
  for (int64_t layer_idx = 0; layer_idx < r.hp.n_layer; ++layer_idx) {
    const auto mixed = attention(r, layer_idx, rms_norm(r, x, block_name(layer_idx, "attn_norm")));
    if (!mixed) return;
    const ir::ValueId kept = keep_output_rows(r, layer_idx, *mixed, "attn_output_rows");
    x = keep_output_rows(r, layer_idx, x, "residual_output_rows");
    x = r.b.add(linear(r, kept, block_name(layer_idx, "attn_output"), r.hp.n_embd), x,
                block_name(layer_idx, "attn_residual"));
    const ir::ValueId normed = rms_norm(r, x, block_name(layer_idx, "ffn_norm"));
    x = r.b.add(feed_forward(r, layer_idx, normed), x, block_name(layer_idx, "ffn_residual"));
  }
  head(r, x);
}

Result<void> adjust_smollm3(const GgufFile&, Hparams& hp) {
  for (size_t i = 0; i < hp.layers.size(); ++i) hp.layers[i].use_rope = (i + 1) % 4 != 0;
  return {};
}

}  // namespace tokamak::arch
