// Hand-built decoder graphs in the node order of the model recipes.
#pragma once

#include "ir/graph.h"

namespace tokamak::fuse {

struct ModelShape {
  int32_t n_layers = 2;
  bool qk_norm = false;        // norms on query and key heads (qwen3)
  bool qkv_bias = false;       // biases on the three projections (qwen2)
  bool post_norm = false;      // norms before the residual (gemma2, gemma3)
  bool logit_softcap = false;  // gemma2
};

ir::Graph model_graph(const ModelShape& shape);

}  // namespace tokamak::fuse
