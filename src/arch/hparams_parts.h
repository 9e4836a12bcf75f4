// Readers of groups of keys, for hparams.cpp.
#pragma once

#include "arch/hparams.h"
#include "arch/keys.h"

namespace tokamak::arch {

// Rotation with its scaling (rope.*); also sets hp.n_ctx_long, and hp.attention_scale where scaling
// changes it. Errors: bad_metadata, unsupported (a kind of scaling).
Result<ir::RopeParams> read_rope(const Keys& keys, Hparams& hp);
// Nothing when the model has no experts.
Result<void> read_moe(const Keys& keys, Hparams& hp);
Result<void> read_mla(const Keys& keys, Hparams& hp);
// Sizes of delta nets, and which layers have them.
Result<void> read_delta_net(const Keys& keys, Hparams& hp);

}  // namespace tokamak::arch
