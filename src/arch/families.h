// Recipes and per-family key readers that the table of architectures names.
#pragma once

#include "arch/recipe.h"

namespace tokamak::arch {

// Which layers have a sliding window, from a key that holds a number (every n-th layer is global) or one flag per layer
// (non-zero = local). Without the key: as for the number `period`. Errors: bad_metadata.
Result<std::vector<bool>> local_layers(const GgufFile& file, const std::string& key, int64_t n_layer, int64_t period);

// Pre-norm decoder: x += attn(norm x); x += ffn(norm x). Biases, q/k norms and tying by tensor presence.
void build_decoder(Recipe& r);
// Sliding windows of the layers that attention.sliding_window_pattern marks. Without that key attention is full, even
// where attention.sliding_window is given: such files come from converters that only copy the number.
Result<void> adjust_windows(const GgufFile& file, Hparams& hparams);
// adjust_windows, and: every fourth layer has no rope; no key says so (architectures.md 3.3).
Result<void> adjust_smollm3(const GgufFile& file, Hparams& hparams);

// Pre- and post-norms around both sub-blocks ("sandwich"), scaled embedding.
void build_gemma(Recipe& r);
// Five local layers with their own rope base, then a global one.
Result<void> adjust_gemma3(const GgufFile& file, Hparams& hparams);

}  // namespace tokamak::arch
