// The parts of a tokenizer.json that become a vocabulary. Used by tokenizer_files.cpp.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "convert/sentencepiece.h"
#include "safetensors/json_text.h"
#include "tokenizer/vocab_source.h"

namespace tokamak::convert {

struct AddedToken {
  int64_t id = 0;
  std::string text;
  bool special = false;
};

enum class VocabKind : uint8_t { byte_bpe, sentencepiece };

// Byte-level BPE, or BPE over SentencePiece-like pieces (spaces written as U+2581). Errors: unsupported
// (another kind; a normalizer that the engine does not apply).
Result<VocabKind> kind_of_tokenizer(const Json& json, const std::string& where);

// Tokens, types and merges of the model (byte_bpe: no scores; sentencepiece: scores by the order of the merges).
// Holes in the ids become unused tokens. Errors: bad_vocab, bad_file.
Result<VocabSource> read_bpe_model(const Json& json, VocabKind kind, std::vector<std::string>& notes,
                                   const std::string& where);
// The same tables from a SentencePiece model. Errors: unsupported (unigram).
Result<VocabSource> vocab_of_pieces(const SentencePieceModel& model, const std::string& where);

// "added_tokens" of tokenizer.json, or "added_tokens_decoder" of tokenizer_config.json. Errors: bad_file.
Result<std::vector<AddedToken>> read_added_tokens(const Json& json, const std::string& where);
// Gives added tokens their place and type. Ids from `n_vocab` on are left out with a note. Errors: bad_vocab.
Result<void> apply_added_tokens(const std::vector<AddedToken>& added, VocabKind kind, int64_t n_vocab,
                                VocabSource& vocab, std::vector<std::string>& notes, const std::string& where);

// Whether the post-processor puts a token in front of a text and behind it, and which.
struct Affixes {
  std::string first, last;  // empty: none
};
Affixes read_affixes(const Json& json);

// Whether a text gets a leading space (sentencepiece kinds).
bool adds_space_prefix(const Json& json);

}  // namespace tokamak::convert
