// The tokens of one vocabulary, validated: text, type and score of each id, and the ids of texts, bytes and roles.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "tokenizer/vocab_source.h"

namespace tokamak {

inline constexpr int32_t kNoToken = -1;
inline constexpr std::string_view kSpaceMark = "\u2581";  // a space in SentencePiece texts

// Ids by role, kNoToken when there is none.
struct TokenRoles {
  int32_t bos = kNoToken, eos = kNoToken, eot = kNoToken, eom = kNoToken;
  int32_t unk = kNoToken, sep = kNoToken, pad = kNoToken, mask = kNoToken;
  int32_t fim_pre = kNoToken, fim_suf = kNoToken, fim_mid = kNoToken;
  int32_t fim_pad = kNoToken, fim_rep = kNoToken, fim_sep = kNoToken;
};

// Immutable after create.
class Vocab {
 public:
  // Takes tokens, scores and types out of `source`. An empty text becomes "[EMPTY_id]".
  // Errors: bad_vocab for arrays of different lengths, an unknown type number, two tokens with one text, a byte token
  // that is not spelled <0xHH>, and two tokens for one byte.
  static Result<Vocab> create(VocabSource& source);

  int32_t size() const { return static_cast<int32_t>(tokens_.size()); }
  bool contains(int64_t id) const { return id >= 0 && id < size(); }
  // The id must be inside.
  const std::string& text(int32_t id) const { return tokens_[static_cast<size_t>(id)]; }
  TokenType type(int32_t id) const { return types_[static_cast<size_t>(id)]; }
  float score(int32_t id) const { return scores_.empty() ? 0 : scores_[static_cast<size_t>(id)]; }
  bool has_scores() const { return !scores_.empty(); }
  // Id of an exact text, or kNoToken.
  int32_t find(std::string_view wanted) const;
  // Id of the token <0xHH>, or kNoToken.
  int32_t byte_token(uint8_t byte) const { return byte_ids_[byte]; }

 private:
  Result<void> index_texts();
  Result<void> index_bytes();
  struct Slot {
    int32_t id = kNoToken;
    uint32_t tag = 0;  // upper half of the text's hash: most misses end without touching the text
  };
  struct Place {
    size_t slot;
    uint32_t tag;
  };
  Place place_of(std::string_view wanted) const;

  std::vector<std::string> tokens_;
  std::vector<TokenType> types_;
  std::vector<float> scores_;
  std::vector<Slot> slots_;  // open addressing by hash of the text; a power of two, at most half full
  std::array<int32_t, 256> byte_ids_{};
};

// Byte of a text "<0xHH>" (two hexadecimal digits of either case), or -1.
int parse_byte_token(std::string_view text);

// Roles from the file's ids (ids outside the vocabulary are ignored with a warning), then the kind's defaults, then
// well-known texts of control tokens (end of turn, fill in the middle).
TokenRoles find_roles(const Vocab& vocab, const VocabSource& source);

// Tokens that end generation: eos, eot, eom and control or user-defined tokens with a well-known closing text; of
// models that fill gaps, those that come after a filled one. Sorted.
std::vector<int32_t> find_end_tokens(const Vocab& vocab, const TokenRoles& roles);

}  // namespace tokamak
