// How the keys that a token sees are cut into chunks that are worked on apart: a rule of the token's own keys and of
// the model, never of the batch, the device or the pages. Chunks are merged in ascending order.
#pragma once

#include <cstdint>

#include "backend/cuda/attention/layout.h"

namespace tokamak::cuda {

inline constexpr int64_t kKeyTile = 64;    // chunks begin at multiples of this
inline constexpr int64_t kKeyChunk = 256;  // up to here there is one chunk; the unit of RunContext::n_key_chunks
inline constexpr int64_t kSmallestChunk = 128, kLargestChunk = 2048;
inline constexpr int64_t kChunksOfAllHeads = 256;  // about two per multiprocessor of a large GPU: one wave

// Keys per chunk for a token that sees n keys: all heads together make at most kChunksOfAllHeads chunks until chunks
// have grown to kLargestChunk.
TOKAMAK_KV_HD constexpr int64_t attention_chunk(int64_t n, int64_t n_head_kv) {
  if (n <= kKeyChunk) return kKeyChunk;
  int64_t chunk = kSmallestChunk;
  while (chunk < kLargestChunk && chunk * kChunksOfAllHeads < n * n_head_kv) chunk *= 2;
  return chunk;
}

struct KeyChunks {
  int first_key, size, count;  // chunk i: keys [first_key + i size, first_key + (i + 1) size)
};
// For a token that sees keys [begin, end).
TOKAMAK_KV_HD constexpr KeyChunks key_chunks(int begin, int end, int n_head_kv) {
  const int first = begin / int{kKeyTile} * int{kKeyTile}, n = end > begin ? end - first : 0;
  const auto size = static_cast<int>(attention_chunk(n, n_head_kv));
  return {first, size, static_cast<int>((static_cast<unsigned>(n) + size - 1) / size)};
}

// The most chunks that a token has which sees at most n keys.
constexpr int64_t max_key_chunks(int64_t n, int64_t n_head_kv) {
  int64_t most = 1;
  for (int64_t chunk = kSmallestChunk; chunk <= kLargestChunk; chunk *= 2) {
    const int64_t longest = chunk * kChunksOfAllHeads / n_head_kv;  // that is cut into chunks of this size
    const int64_t keys = chunk < kLargestChunk && longest < n ? longest : n;
    if (keys > kKeyChunk && (keys + chunk - 1) / chunk > most && attention_chunk(keys, n_head_kv) <= chunk)
      most = (keys + chunk - 1) / chunk;
  }
  return most;
}

}  // namespace tokamak::cuda
