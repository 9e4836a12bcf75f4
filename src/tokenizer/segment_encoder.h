// Encodes a stretch of plain text (no added tokens in it): one implementation per family of vocabularies.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "tokenizer/pre_tokenizers.h"
#include "tokenizer/vocab.h"

namespace tokamak {

// Immutable; encode() is thread-safe. The vocabulary must outlive it.
class SegmentEncoder {
 public:
  virtual ~SegmentEncoder() = default;
  // Appends the ids of `text`, any bytes; what happens to ill-formed UTF-8 is said at the factories. Returns how many
  // bytes (of the text as normalised) no token stands for: dropped, or behind unk.
  virtual size_t encode(std::string_view text, std::vector<int32_t>& out) const = 0;
};

// Byte-level BPE (or, for rows with `characters`, BPE over UTF-8 characters with byte tokens as fallback).
// A run of ill-formed bytes is a piece of its own. A byte without a letter token is dropped, as the Hugging Face
// tokenizers do; a warning at load names how many there are. Text longer than 2^30 bytes is encoded in parts.
// Errors: bad_vocab when there are no merges (allowed for kimi-k2: pairs then merge by the rank of the joined token).
Result<std::unique_ptr<SegmentEncoder>> make_bpe_encoder(const Vocab& vocab, const PreTokenizer& pre,
                                                         const std::vector<std::string>& merges, bool lowercase,
                                                         int32_t unk);

// SentencePiece BPE: spaces become U+2581, pairs merge by the score of the joined token, characters that are no token
// (and ill-formed bytes) become byte tokens, or unk where a byte token is missing.
//   add_space_prefix  each segment that is not empty gets a leading space (what Hugging Face calls `legacy`)
// Errors: bad_vocab without scores.
Result<std::unique_ptr<SegmentEncoder>> make_spm_encoder(const Vocab& vocab, bool add_space_prefix, int32_t unk);

// In a SentencePiece vocabulary: a user-defined run of two or more spaces. Such runs are not cut out of the text
// beforehand; they merge before everything else, shorter ones first. Up to the longest run in the vocabulary both
// ways agree; beyond it this is what the Hugging Face tokenizer of the model does.
bool is_space_run(const Vocab& vocab, int32_t id);

}  // namespace tokamak
