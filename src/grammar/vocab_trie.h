// The bytes of all tokens of a vocabulary as a tree, and a bounded cache of what was learnt by walking it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tokenizer/tokenizer.h"

namespace tokamak {

namespace grammar {
class MaskCache;
}

// Built once per model; immutable and thread-safe (the cache locks). Control, unknown, unused and end-of-generation
// tokens and tokens without bytes are not in the tree: bytes never allow them.
class VocabTrie {
 public:
  using Ptr = std::shared_ptr<const VocabTrie>;

  static constexpr size_t kDefaultCacheBytes = size_t{64} << 20;

  static Ptr create(const Tokenizer& tokenizer, size_t cache_bytes = kDefaultCacheBytes);
  // Token `id` has the bytes pieces[id]; empty: not in the tree. For tests and benches.
  static Ptr create(std::vector<std::string> pieces, std::vector<int32_t> end_tokens,
                    size_t cache_bytes = kDefaultCacheBytes);

  ~VocabTrie();

  // Nodes in depth-first order: the children of node i are i + 1, after[i + 1], ... as long as they are < after[i].
  // Node 0 is the empty text.
  uint32_t n_nodes() const { return static_cast<uint32_t>(bytes_.size()); }
  uint8_t byte(uint32_t node) const { return bytes_[node]; }
  uint32_t after(uint32_t node) const { return after_[node]; }  // first node behind the subtree
  std::span<const int32_t> tokens(uint32_t node) const {
    return {tokens_.data() + first_token_[node], tokens_.data() + first_token_[node + 1]};
  }

  int32_t n_vocab() const { return n_vocab_; }
  size_t n_words() const { return (static_cast<size_t>(n_vocab_) + 63) / 64; }  // 64-bit words of a mask
  // Bytes of a token; of tokens outside the tree too. Empty for an id outside the vocabulary.
  std::string_view piece(int32_t id) const;
  bool in_tree(int32_t id) const;
  std::span<const int32_t> end_tokens() const { return end_tokens_; }  // sorted
  bool is_end(int32_t id) const;
  size_t max_piece_bytes() const { return max_piece_bytes_; }

  grammar::MaskCache& cache() const { return *cache_; }

 private:
  VocabTrie() = default;
  void build(std::vector<int32_t> sorted_ids);

  int32_t n_vocab_ = 0;
  std::string text_;               // of all pieces, end to end
  std::vector<uint32_t> offsets_;  // n_vocab + 1
  std::vector<uint8_t> in_tree_;   // by id
  std::vector<int32_t> end_tokens_;
  std::vector<uint8_t> bytes_;
  std::vector<uint32_t> after_, first_token_;
  std::vector<int32_t> tokens_;
  size_t max_piece_bytes_ = 0;
  std::unique_ptr<grammar::MaskCache> cache_;
};

}  // namespace tokamak
