// The tokenizer of a GGUF file.
#pragma once

#include "base/result.h"
#include "gguf/gguf.h"
#include "tokenizer/tokenizer.h"

namespace tokamak {

// The vocabulary tables of `file`, unchecked but for the types of the keys (bad_metadata).
Result<VocabSource> read_vocab(const GgufFile& file);

// read_vocab, then Tokenizer::create.
Result<Tokenizer> load_tokenizer(const GgufFile& file);

}  // namespace tokamak
