// A text as chunks of equal length: what everything measured over a text works on, one chunk after the other.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "tokenizer/tokenizer.h"

namespace tokamak {

inline constexpr int64_t kMinChunkTokens = 8;

struct TextChunks {
  int64_t n_ctx = 0;            // tokens per chunk
  std::vector<int32_t> tokens;  // [n_chunks, n_ctx]

  int64_t n_chunks() const { return n_ctx == 0 ? 0 : static_cast<int64_t>(tokens.size()) / n_ctx; }
  std::span<const int32_t> chunk(int64_t chunk_idx) const {
    return std::span(tokens).subspan(static_cast<size_t>(chunk_idx * n_ctx), static_cast<size_t>(n_ctx));
  }
  // Leaves the first `n` chunks, if there are more.
  void keep(int64_t n);
};

// Whole chunks only; the rest of the text is left out. For a model that begins texts with a BOS token, it replaces the
// first token of each chunk. `n_lost_bytes` as in Tokenizer::encode.
// Errors: bad_argument (not even one chunk; n_ctx below kMinChunkTokens), unsupported (a model without vocabulary).
Result<TextChunks> divide_text(const Tokenizer& tokenizer, std::string_view text, int64_t n_ctx,
                               size_t* n_lost_bytes = nullptr);

// The same for tokens. `bos` is kNoToken for a model without one.
Result<TextChunks> divide_tokens(std::vector<int32_t> tokens, int64_t n_ctx, int32_t bos);

}  // namespace tokamak
