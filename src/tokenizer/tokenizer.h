// Text <-> token ids of one model.
// Goals: the ids of the model's own (Hugging Face) tokenizer; total on any bytes; linear time up to a logarithm.
// Non-goals: lstrip and rstrip of added tokens (GGUF does not carry them), WordPiece, unigram, RWKV and PLaMo 2 kinds.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "tokenizer/segment_encoder.h"
#include "tokenizer/token_trie.h"
#include "tokenizer/vocab.h"
#include "tokenizer/vocab_source.h"

namespace tokamak {

enum class TokenizerKind : uint8_t { none, bpe, spm };

struct EncodeOptions {
  bool add_special = true;     // bos, eos, sep where the vocabulary asks for them
  bool parse_special = false;  // texts of control tokens become these tokens; user-defined ones always do
};

struct DecodeOptions {
  bool keep_special = false;  // false: control and unknown tokens are left out
  bool at_text_start = true;  // drop the one leading space that encode added (add_space_prefix); false when the ids
                              // continue a text
  bool clean_spaces = false;  // remove spaces before . ? ! , and English contractions, as older models' tokenizers do
};

// Immutable and thread-safe; share it as std::shared_ptr<const Tokenizer>.
class Tokenizer {
 public:
  // Errors: unsupported for an unknown kind (tokenizer.ggml.model) or pre-tokenizer, naming it; bad_vocab as
  // Vocab::create and the encoders say. A missing pre-tokenizer name means "default", with a warning to the log.
  static Result<Tokenizer> create(VocabSource source);

  // Any bytes. Longest added tokens first, from the left; the text between them is encoded on its own.
  // `n_lost_bytes`, if given, becomes the number of bytes that no token stands for (a vocabulary without all bytes).
  std::vector<int32_t> encode(std::string_view text, const EncodeOptions& options = {},
                              size_t* n_lost_bytes = nullptr) const;

  // Valid UTF-8: every ill-formed part (a cut character, a lone byte token) becomes one U+FFFD per maximal subpart.
  // Ids outside the vocabulary add nothing.
  std::string decode(std::span<const int32_t> ids, const DecodeOptions& options = {}) const;
  // The raw bytes, ill-formed parts included; clean_spaces is not applied.
  std::string decode_bytes(std::span<const int32_t> ids, const DecodeOptions& options = {}) const;

  // Raw bytes that one token adds to a text, special tokens included; may be part of a character. Empty for an id
  // outside the vocabulary.
  std::string token_bytes(int32_t id) const;
  // The token as the vocabulary spells it ("\u0120the", "\u2581the"). The id must be inside.
  const std::string& token_text(int32_t id) const { return vocab_->text(id); }
  // Id of an exact vocabulary text, or kNoToken.
  int32_t find(std::string_view text) const { return vocab_ ? vocab_->find(text) : kNoToken; }

  TokenizerKind kind() const { return kind_; }
  int32_t n_vocab() const { return n_vocab_; }
  bool contains(int64_t id) const { return id >= 0 && id < n_vocab_; }
  const TokenRoles& roles() const { return roles_; }  // bos, eos, eot, unk, pad, fim_pre ...; kNoToken: none
  bool adds_bos() const { return add_bos_; }
  bool adds_eos() const { return add_eos_; }
  bool cleans_spaces() const { return pre_ && pre_->clean_spaces; }  // the model family's default for decoding
  std::string_view pre_tokenizer() const { return pre_ ? pre_->name : ""; }

  // undefined for ids outside the vocabulary and for the kind none.
  TokenType type(int32_t id) const;
  bool is_control(int32_t id) const { return type(id) == TokenType::control; }
  // Generation ends after this token.
  bool is_eog(int32_t id) const;
  std::span<const int32_t> eog_tokens() const { return end_tokens_; }            // sorted
  std::span<const int32_t> suppress_tokens() const { return suppress_tokens_; }  // never sampled

 private:
  Tokenizer() = default;
  Result<void> set_encoder(const VocabSource& source);
  void set_flags(const VocabSource& source);
  void index_added_tokens();
  void append_bytes(int32_t id, std::string& out) const;

  TokenizerKind kind_ = TokenizerKind::none;
  int32_t n_vocab_ = 0;
  const PreTokenizer* pre_ = nullptr;  // BPE only
  bool byte_letters_ = false;          // texts are spelled in byte letters
  bool spaces_escaped_ = false;        // texts spell a space as U+2581
  bool add_bos_ = false, add_eos_ = false, add_sep_ = false, add_space_prefix_ = false;
  std::unique_ptr<const Vocab> vocab_;  // null for the kind none
  std::unique_ptr<const SegmentEncoder> encoder_;
  TokenTrie added_;
  TokenRoles roles_;
  std::vector<int32_t> end_tokens_, suppress_tokens_;
};

}  // namespace tokamak
