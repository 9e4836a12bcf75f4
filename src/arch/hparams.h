// Sizes and constants of one model, read from its metadata once and checked, so that recipes never see a bad number.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "gguf/gguf.h"
#include "ir/builder.h"
#include "ir/limits.h"

namespace tokamak::arch {

struct ArchitectureRow;

struct LayerHparams {
  int64_t n_head = 0, n_head_kv = 0, n_ff = 0;
  int64_t window = 0;  // sliding window, tokens; 0 = full attention
  bool use_rope = true;
  ir::RopeParams rope;
};

struct Hparams {
  const ArchitectureRow* family = nullptr;
  int64_t n_layer = 0, n_embd = 0, n_vocab = 0, n_ctx_train = 0;
  int64_t head_dim_k = 0, head_dim_v = 0;
  double norm_eps = 0;
  double embedding_scale = 1;                       // factor on the embedding rows
  double attention_scale = 0;                       // factor on the scores
  double attention_softcap = 0, logit_softcap = 0;  // 0 = off
  std::vector<LayerHparams> layers;
};

// Largest values accepted, so that no product of sizes can overflow.
using ir::kMaxHeadDim;
inline constexpr int64_t kMaxLayers = 512, kMaxHeads = 4096, kMaxWidth = int64_t{1} << 20;
inline constexpr int64_t kMaxVocab = int64_t{1} << 26, kMaxContext = int64_t{1} << 30;

// Errors: unsupported (unknown architecture, naming the known ones; a feature not built yet), bad_metadata.
Result<Hparams> read_hparams(const GgufFile& file);

// Metadata key of this file's architecture: "SUFFIX" -> "llama.SUFFIX".
Result<std::string> arch_key(const GgufFile& file, std::string_view suffix);

}  // namespace tokamak::arch
