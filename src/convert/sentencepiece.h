// Reads SentencePiece models (tokenizer.model): a protocol-buffer message, of which only the pieces and two flags
// matter. Field numbers: sentencepiece_model.proto of the SentencePiece project.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"

namespace tokamak::convert {

struct SentencePiece {
  std::string text;
  float score = 0;
  int32_t type = 1;  // as in TokenType
};

struct SentencePieceModel {
  std::vector<SentencePiece> pieces;  // by id
  bool is_bpe = false;                // the default kind is unigram
  bool add_dummy_prefix = true;       // a space in front of every text
  bool has_charsmap = false;          // texts are rewritten by a table (NFKC, lower case) before they are cut
};

// Memory grows with the pieces really present. Errors: bad_file, with the byte offset.
Result<SentencePieceModel> parse_sentencepiece(std::span<const std::byte> bytes, const std::string& where);

}  // namespace tokamak::convert
