#include "grammar/vocab_trie.h"

#include <algorithm>
#include <numeric>

#include "grammar/local_mask.h"

namespace tokamak {

VocabTrie::~VocabTrie() = default;

namespace {
bool has_text(const Tokenizer& tokenizer, int32_t id) {
  switch (tokenizer.type(id)) {
    case TokenType::normal:
    case TokenType::user_defined:
    case TokenType::byte:
      return true;
    default:
      return false;
  }
}
}  // namespace

VocabTrie::Ptr VocabTrie::create(const Tokenizer& tokenizer, size_t cache_bytes) {
  std::shared_ptr<VocabTrie> trie(new VocabTrie);
  trie->n_vocab_ = tokenizer.n_vocab();
  trie->cache_ = std::make_unique<grammar::MaskCache>(cache_bytes);
  trie->end_tokens_.assign(tokenizer.eog_tokens().begin(), tokenizer.eog_tokens().end());
  trie->in_tree_.resize(static_cast<size_t>(trie->n_vocab_));
  trie->offsets_.push_back(0);
  std::vector<int32_t> ids;
  for (int32_t id = 0; id < trie->n_vocab_; ++id) {
    const std::string bytes = tokenizer.token_bytes(id);
    trie->text_ += bytes;
    trie->offsets_.push_back(static_cast<uint32_t>(trie->text_.size()));
    if (bytes.empty() || !has_text(tokenizer, id) || trie->is_end(id)) continue;
    trie->in_tree_[static_cast<size_t>(id)] = 1;
    ids.push_back(id);
  }
  trie->build(std::move(ids));
  return trie;
}

VocabTrie::Ptr VocabTrie::create(std::vector<std::string> pieces, std::vector<int32_t> end_tokens, size_t cache_bytes) {
  std::shared_ptr<VocabTrie> trie(new VocabTrie);
  trie->n_vocab_ = static_cast<int32_t>(pieces.size());
  trie->cache_ = std::make_unique<grammar::MaskCache>(cache_bytes);
  std::sort(end_tokens.begin(), end_tokens.end());
  trie->end_tokens_ = std::move(end_tokens);
  trie->in_tree_.resize(pieces.size());
  trie->offsets_.push_back(0);
  std::vector<int32_t> ids;
  for (int32_t id = 0; id < trie->n_vocab_; ++id) {
    const std::string& bytes = pieces[static_cast<size_t>(id)];
    trie->text_ += bytes;
    trie->offsets_.push_back(static_cast<uint32_t>(trie->text_.size()));
    if (bytes.empty() || trie->is_end(id)) continue;
    trie->in_tree_[static_cast<size_t>(id)] = 1;
    ids.push_back(id);
  }
  trie->build(std::move(ids));
  return trie;
}

std::string_view VocabTrie::piece(int32_t id) const {
  if (id < 0 || id >= n_vocab_) return {};
  const auto i = static_cast<size_t>(id);
  return std::string_view(text_).substr(offsets_[i], offsets_[i + 1] - offsets_[i]);
}

bool VocabTrie::in_tree(int32_t id) const { return id >= 0 && id < n_vocab_ && in_tree_[static_cast<size_t>(id)]; }

bool VocabTrie::is_end(int32_t id) const { return std::binary_search(end_tokens_.begin(), end_tokens_.end(), id); }

void VocabTrie::build(std::vector<int32_t> ids) {
  std::sort(ids.begin(), ids.end(), [&](int32_t x, int32_t y) {
    const auto a = piece(x), b = piece(y);
    return a != b ? a < b : x < y;
  });
  std::vector<uint32_t> path{0};  // open nodes by depth
  const auto close_to = [&](size_t depth) {
    for (; path.size() > depth + 1; path.pop_back()) after_[path.back()] = n_nodes();
  };
  bytes_.push_back(0);
  after_.push_back(0);
  first_token_.push_back(0);
  std::string_view last;
  for (const int32_t id : ids) {
    const std::string_view text = piece(id);
    max_piece_bytes_ = std::max(max_piece_bytes_, text.size());
    const size_t common =
        static_cast<size_t>(std::mismatch(text.begin(), text.end(), last.begin(), last.end()).first - text.begin());
    close_to(common);
    for (size_t i = common; i < text.size(); ++i) {
      path.push_back(n_nodes());
      bytes_.push_back(static_cast<uint8_t>(text[i]));
      after_.push_back(0);
      first_token_.push_back(static_cast<uint32_t>(tokens_.size()));
    }
    tokens_.push_back(id);
    last = text;
  }
  close_to(0);
  after_[0] = n_nodes();
  first_token_.push_back(static_cast<uint32_t>(tokens_.size()));
}

}  // namespace tokamak
