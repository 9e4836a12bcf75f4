// Recipes and per-family key readers that the table of architectures names.
#pragma once

#include "arch/recipe.h"

namespace tokamak::arch {

// Pre-norm decoder: x += attn(norm x); x += ffn(norm x). Biases, q/k norms and tying by tensor presence.
void build_decoder(Recipe& r);
// Every fourth layer has no rope; no key says so (architectures.md 3.3).
Result<void> adjust_smollm3(const GgufFile& file, Hparams& hparams);

// Pre- and post-norms around both sub-blocks ("sandwich"), scaled embedding.
void build_gemma(Recipe& r);
// Five local layers with their own rope base, then a global one.
Result<void> adjust_gemma3(const GgufFile& file, Hparams& hparams);

}  // namespace tokamak::arch
