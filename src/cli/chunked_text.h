// Texts that imatrix and eval walk through in chunks, and the sessions that run them.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "base/settings.h"
#include "engine/model.h"
#include "engine/session.h"
#include "eval/text_chunks.h"

namespace tokamak::cli {

// The text of --file in chunks of --chunk-size: the first `first_chunk` and at most --chunks after them; says so when
// the vocabulary loses bytes. Errors: bad_argument (no text, too short), those of read_file and divide_text.
Result<TextChunks> read_text_chunks(const SettingValues& values, const Tokenizer& tokenizer, int64_t first_chunk = 0);

// The same with all its chunks, of n_ctx tokens.
Result<TextChunks> read_whole_text(const SettingValues& values, const Tokenizer& tokenizer, int64_t n_ctx);

// For one chunk at a time; says so when the model was trained for shorter ones.
Result<SessionOptions> chunk_session_options(const SettingValues& values, const Model& model, int64_t n_ctx);

}  // namespace tokamak::cli
