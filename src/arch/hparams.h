// Sizes and constants of one model, read from its metadata once and checked, so that recipes never see a bad number.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "arch/gating.h"
#include "base/result.h"
#include "gguf/gguf.h"
#include "ir/builder.h"
#include "ir/limits.h"

namespace tokamak::arch {

struct ArchitectureRow;

struct LayerHparams {
  int64_t n_head = 0, n_head_kv = 0, n_ff = 0;
  int64_t window = 0;         // sliding window, tokens; 0 = full attention
  int64_t chunk = 0;          // attention inside runs of so many positions; 0 = full attention
  bool is_delta_net = false;  // instead of attention
  bool use_rope = true;
  bool use_temp = false;      // queries grow with the position
  bool norm_rotated = false;  // queries and keys are normed without weights after the rotation
  ir::RopeParams rope;
};

struct MoeHparams {
  int64_t n_expert = 0, n_used = 0;
  int64_t n_ff = 0, n_ff_shared = 0;  // widths of an expert and of the expert that is always on
  Gating gating = Gating::none;
  bool renormalise = false;
  double weights_scale = 1;
  int64_t n_group = 1, n_group_used = 1;
  int64_t n_group_best = 2;  // a group counts as the sum of so many of its best scores
};

// Attention over latents. The cache holds [latent | rotated part], one head: LayerHparams::n_head_kv is 1.
struct MlaHparams {
  int64_t q_lora_rank = 0;  // 0: one matrix for the queries
  int64_t kv_lora_rank = 0, n_nope = 0, head_dim_v = 0;
};

struct DeltaNetHparams {
  int64_t n_conv = 0;  // taps of the convolution
  int64_t n_head_k = 0, n_head_v = 0, head_dim_k = 0, head_dim_v = 0;

  int64_t n_channels() const { return 2 * n_head_k * head_dim_k + n_head_v * head_dim_v; }
  int64_t conv_elems() const { return (n_conv - 1) * n_channels(); }
  int64_t state_elems() const { return n_head_v * head_dim_v * head_dim_k; }
};

struct Hparams {
  const ArchitectureRow* family = nullptr;
  int64_t n_layer = 0;  // of the decoder: blocks that only predict further tokens are not counted
  int64_t n_embd = 0, n_vocab = 0, n_ctx_train = 0;
  int64_t head_dim_k = 0, head_dim_v = 0;  // of the cache
  double norm_eps = 0;
  bool parallel = false;                            // both sub-blocks read the layer's input
  double embedding_scale = 1;                       // factor on the embedding rows
  double residual_scale = 1;                        // factor on the results of sub-blocks
  double logit_scale = 1;                           // factor on the logits
  double attention_scale = 0;                       // factor on the scores
  double qkv_clamp = 0;                             // queries, keys and values are cut to +-this; 0 = off
  double attention_softcap = 0, logit_softcap = 0;  // 0 = off
  ir::TempParams temp;                              // of layers that use it
  int64_t n_ctx_long = 0;  // a context above it takes rope_factors_long instead of _short; 0 = there are none
  MoeHparams moe;
  MlaHparams mla;
  DeltaNetHparams delta_net;
  std::vector<LayerHparams> layers;

  bool is_recurrent() const {
    for (const LayerHparams& layer : layers)
      if (layer.is_delta_net) return true;
    return false;
  }
};

// Largest values accepted, so that no product of sizes can overflow and no file can ask for an endless graph.
using ir::kMaxHeadDim;
inline constexpr int64_t kMaxLayers = 512, kMaxHeads = 4096, kMaxWidth = int64_t{1} << 20;
inline constexpr int64_t kMaxExperts = 16384, kMaxExpertsUsed = 256, kMaxConvTaps = 64;
inline constexpr int64_t kMaxVocab = int64_t{1} << 26, kMaxContext = int64_t{1} << 30;

// Errors: unsupported (unknown architecture, naming the known ones; a feature not built yet), bad_metadata.
Result<Hparams> read_hparams(const GgufFile& file);

// Metadata key of this file's architecture: "SUFFIX" -> "llama.SUFFIX".
Result<std::string> arch_key(const GgufFile& file, std::string_view suffix);

}  // namespace tokamak::arch
