#include "cli/chunked_text.h"

#include <fmt/format.h>

#include "cli/console.h"
#include "cli/input.h"
#include "cli/loading.h"

namespace tokamak::cli {

Result<TextChunks> read_whole_text(const SettingValues& values, const Tokenizer& tokenizer, int64_t n_ctx) {
  const std::string& path = values.text("--file");
  if (path.empty())
    return Error{
        .code = ErrorCode::bad_argument, .what = "there is no text to work on", .hint = "give one with -f FILE"};
  const std::string text = path == "-" ? TRY(read_standard_input()) : TRY(read_file(path));
  size_t n_lost_bytes = 0;
  TextChunks chunks = TRY(divide_text(tokenizer, text, n_ctx, &n_lost_bytes));
  if (n_lost_bytes > 0) talk_line(lost_bytes_text(n_lost_bytes));
  return chunks;
}

Result<TextChunks> read_text_chunks(const SettingValues& values, const Tokenizer& tokenizer, int64_t first_chunk) {
  TextChunks chunks = TRY(read_whole_text(values, tokenizer, values.integer("--chunk-size")));
  if (const int64_t n_chunks = values.integer("--chunks"); n_chunks > 0) chunks.keep(first_chunk + n_chunks);
  return chunks;
}

Result<SessionOptions> chunk_session_options(const SettingValues& values, const Model& model, int64_t n_ctx) {
  SessionOptions options = TRY(session_options(values, model));
  options.n_ctx = n_ctx;
  if (const int64_t n_ctx_train = model.hparams().n_ctx_train; n_ctx > n_ctx_train)
    talk_line(
        fmt::format("tokamak: the model was trained for {} tokens of context, chunks have {}", n_ctx_train, n_ctx));
  return options;
}

}  // namespace tokamak::cli
