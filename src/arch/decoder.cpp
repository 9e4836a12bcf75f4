#include <fmt/format.h>

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

Result<std::vector<bool>> local_layers(const GgufFile& file, const std::string& key, int64_t n_layer, int64_t period) {
  const std::vector<int64_t> pattern = TRY(file.get_ints_or(key, {period}));
  std::vector<bool> local(static_cast<size_t>(n_layer));
  if (pattern.size() != 1 && pattern.size() != local.size())
    return Error{.code = ErrorCode::bad_metadata,
                 .what = fmt::format("{} values for {} layers", pattern.size(), n_layer),
                 .where = key};
  if (pattern.size() == 1 && pattern[0] < 0)
    return Error{.code = ErrorCode::bad_metadata, .what = "must not be negative", .where = key};
  for (size_t i = 0; i < local.size(); ++i) {
    const bool by_period = pattern[0] != 0 && (static_cast<int64_t>(i) + 1) % pattern[0] != 0;
    local[i] = pattern.size() == 1 ? by_period : pattern[i] != 0;
  }
  return local;
}

Result<void> adjust_windows(const GgufFile& file, Hparams& hp) {
  const std::string pattern_key = TRY(arch_key(file, "attention.sliding_window_pattern"));
  if (!file.has(pattern_key)) return {};
  const int64_t window = TRY(file.get_i64(TRY(arch_key(file, "attention.sliding_window")), 1, kMaxContext));
  const std::vector<bool> local = TRY(local_layers(file, pattern_key, hp.n_layer, 0));
  for (size_t i = 0; i < hp.layers.size(); ++i)
    if (local[i]) hp.layers[i].window = window;
  return {};
}

Result<void> adjust_smollm3(const GgufFile& file, Hparams& hp) {
  TRY(adjust_windows(file, hp));
  for (size_t i = 0; i < hp.layers.size(); ++i) hp.layers[i].use_rope = (i + 1) % 4 != 0;
  return {};
}

}  // namespace tokamak::arch
