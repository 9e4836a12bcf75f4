// FLASH_ATTN_EXT over a paged cache: arguments, tiling and scratch. Kernels: attention_generic.h.
//
// One order for everything: keys of a sequence are cut at absolute positions into chunks of 256 and blocks of 64.
// Inside a chunk softmax runs online, block after block; the chunks' results are merged in ascending order. A query row
// therefore gets the same bits alone, in a prefill of any chunking, on any number of threads and in pages of any size.
// Source: Milakov & Gimelshein 2018 (arXiv:1805.02867); Dao et al. 2022 (arXiv:2205.14135).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend/cpu/ops/kv_cache.h"

namespace tokamak::cpu {

inline constexpr int64_t kKeyBlock = 64, kKeyChunk = 256;
inline constexpr int64_t kMaxTileRows = 48;  // query rows (tokens times heads) that share one pass over the keys

struct AttentionSequence {
  const int32_t* pages = nullptr;  // position p is in slot pages[p / page_size] * page_size + p % page_size
  int64_t n_keys = 0;              // positions 0 .. n_keys - 1 are written, this step's included; with causal, any
                                   // number above all positions of the step will do
};

// Tokens of one sequence that are worked on together.
struct AttentionTile {
  int32_t first_token, n_tokens;
};

// y[t,h] = sum_j softmax_j(f(scale * q[t,h].k[j])) v[j] over the visible keys j of token t's sequence:
//   window > 0   pos - window < j <= pos
//   chunk > 0    pos / chunk * chunk <= j
//   causal       j <= pos
//   otherwise    all n_keys
// f(s) = softcap * tanh(s / softcap), or s when softcap is 0. A sink adds exp(sink[h]) to the denominator. A token
// that sees no key gets zeros. Keys outside a token's range are never read into its result, whatever they hold.
struct AttentionArgs {
  const float* q = nullptr;                 // [n_tokens][n_head][head_dim of keys]
  int64_t q_stride = 0, q_head_stride = 0;  // elements, token to token; head to head, 0: heads are contiguous
  float* y = nullptr;  // [n_tokens][n_head][head_dim of values], heads contiguous; must not overlap q
  int64_t y_stride = 0;
  int64_t n_head = 0;  // a multiple of the planes' n_head_kv
  KvPlane keys, values;
  const int32_t* positions = nullptr;  // [n_tokens]
  const int32_t* seq_ids = nullptr;    // [n_tokens], index into sequences
  std::span<const AttentionSequence> sequences;
  std::span<const AttentionTile> tiles;  // from make_attention_tiles for this n_head / n_head_kv
  const float* sinks = nullptr;          // [n_head] or null
  float scale = 1, softcap = 0;
  int64_t window = 0, chunk = 0;
  bool causal = true;
};

// Cuts a step into tiles: runs of tokens of one sequence, at most kMaxTileRows rows. Replaces `tiles`, which keeps its
// capacity: no allocation once it has held n_tokens tiles.
void make_attention_tiles(std::span<const int32_t> seq_ids, int64_t group, std::vector<AttentionTile>& tiles);

// How one call is cut into items. With few tokens and long contexts every chunk is an item of its own (split_keys):
// the kernel then leaves partial results in `partials`, and after a barrier attention_merge finishes the rows. The
// result has the same bits either way.
struct AttentionPlan {
  bool split_keys = false;
  int64_t n_items = 0;        // of attention
  int64_t n_merge_items = 0;  // of attention_merge; 0 unless split_keys
  int64_t n_parts = 0;        // pieces of one kv head's query heads: 1 unless there are more than kMaxTileRows
  int64_t max_chunks = 0;     // over all tokens
};
// partial_floats: size of the buffer that `partials` will point to; too small means no split.
AttentionPlan plan_attention(const AttentionArgs& args, int64_t n_tokens, int n_threads, int64_t partial_floats);

// Floats of `partials` that let a step of n_tokens with at most n_keys keys each be split.
int64_t attention_partial_floats(int64_t n_tokens, int64_t n_head, int64_t head_dim_v, int64_t n_keys);
// Floats of scratch per thread.
int64_t attention_scratch_floats(int64_t head_dim_k, int64_t head_dim_v);

struct AttentionCall {
  AttentionArgs args;
  AttentionPlan plan;
  float* partials = nullptr;
};

// Items [begin, end) of the plan. Neighbouring items pair short with long ones, so equal pieces cost the same.
//   scratch   attention_scratch_floats() per thread, 64-byte aligned
//   call.partials  null unless split_keys
using AttentionKernel = void (*)(const AttentionCall& call, float* scratch, int64_t begin, int64_t end);

// First and one past the last key that the token sees.
struct KeyRange {
  int64_t begin, end;
};
KeyRange visible_keys(const AttentionArgs& args, int64_t token);

}  // namespace tokamak::cpu
