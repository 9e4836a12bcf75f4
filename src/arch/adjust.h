// Per-family key readers that the table of architectures names: what the common keys do not say.
#pragma once

#include "arch/hparams.h"
#include "gguf/gguf.h"

namespace tokamak::arch {

// Which layers have a sliding window, from attention.sliding_window_pattern: a number (every n-th layer is global) or
// one flag per layer (non-zero = local). Without the key: as for the number `period`. Errors: bad_metadata.
Result<std::vector<bool>> local_layers(const GgufFile& file, const Hparams& hparams, int64_t period);

// Sliding windows of the layers that attention.sliding_window_pattern marks. Without that key attention is full, even
// where attention.sliding_window is given: such files come from converters that only copy the number.
Result<void> adjust_windows(const GgufFile& file, Hparams& hparams);
// A window on all layers, unless a pattern says which.
Result<void> adjust_phi3(const GgufFile& file, Hparams& hparams);
// adjust_windows, and: every fourth layer has no rope; no key says so.
Result<void> adjust_smollm3(const GgufFile& file, Hparams& hparams);
// Queries grow with the position: attention.temperature_scale and _length, by default the context before scaling.
Result<void> adjust_mistral3(const GgufFile& file, Hparams& hparams);
// Scaled embedding.
Result<void> adjust_gemma(const GgufFile& file, Hparams& hparams);
// adjust_gemma; every second layer is local; the size of 46 layers scales its scores otherwise.
Result<void> adjust_gemma2(const GgufFile& file, Hparams& hparams);
// adjust_gemma; five local layers with their own rope base, then a global one.
Result<void> adjust_gemma3(const GgufFile& file, Hparams& hparams);
// Olmo 3: three local layers, one global; rope scaling on the global ones only.
Result<void> adjust_olmo2(const GgufFile& file, Hparams& hparams);
// use_parallel_residual.
Result<void> adjust_gptneox(const GgufFile& file, Hparams& hparams);
// Both sub-blocks read the layer's input.
Result<void> adjust_parallel(const GgufFile& file, Hparams& hparams);
// Parallel where the second norm is missing.
Result<void> adjust_stablelm(const GgufFile& file, Hparams& hparams);
// Every second layer is local.
Result<void> adjust_gpt_oss(const GgufFile& file, Hparams& hparams);
// Local layers rotate, global ones do not; without a window all do.
Result<void> adjust_exaone4(const GgufFile& file, Hparams& hparams);
// Chunked layers with rope; every fourth sees everything, without rope, with growing queries.
Result<void> adjust_llama4(const GgufFile& file, Hparams& hparams);
// The sizes of 47 and 48 layers route by sigmoid without saying so; V2 ranks groups by their best expert.
Result<void> adjust_deepseek2(const GgufFile& file, Hparams& hparams);

}  // namespace tokamak::arch
