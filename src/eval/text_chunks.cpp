#include "eval/text_chunks.h"

#include <fmt/format.h>

namespace tokamak {

void TextChunks::keep(int64_t n) {
  if (n < n_chunks()) tokens.resize(static_cast<size_t>(n * n_ctx));
}

Result<TextChunks> divide_text(const Tokenizer& tokenizer, std::string_view text, int64_t n_ctx, size_t* n_lost_bytes) {
  if (tokenizer.kind() == TokenizerKind::none)
    return Error{.code = ErrorCode::unsupported,
                 .what = "this model has no vocabulary to read a text with",
                 .where = "tokenizer.ggml.model"};
  return divide_tokens(tokenizer.encode(text, {}, n_lost_bytes), n_ctx,
                       tokenizer.adds_bos() ? tokenizer.roles().bos : kNoToken);
}

Result<TextChunks> divide_tokens(std::vector<int32_t> tokens, int64_t n_ctx, int32_t bos) {
  if (n_ctx < kMinChunkTokens)
    return Error{.code = ErrorCode::bad_argument,
                 .what = fmt::format("chunks of {} tokens are too short", n_ctx),
                 .where = "--chunk-size",
                 .hint = fmt::format("at least {}", kMinChunkTokens)};
  TextChunks chunks{.n_ctx = n_ctx, .tokens = std::move(tokens)};
  if (chunks.n_chunks() == 0)
    return Error{.code = ErrorCode::bad_argument,
                 .what = fmt::format("the text has {} tokens, and one chunk takes {}", chunks.tokens.size(), n_ctx),
                 .where = "--file",
                 .hint = "give a longer text, or a smaller --chunk-size"};
  chunks.tokens.resize(static_cast<size_t>(chunks.n_chunks() * n_ctx));
  if (bos != kNoToken)
    for (size_t i = 0; i < chunks.tokens.size(); i += static_cast<size_t>(n_ctx)) chunks.tokens[i] = bos;
  return chunks;
}

}  // namespace tokamak
