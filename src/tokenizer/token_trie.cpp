#include "tokenizer/token_trie.h"

#include <algorithm>

namespace tokamak {

int32_t TokenTrie::child(int32_t node, uint8_t byte) const {
  const auto& children = nodes_[static_cast<size_t>(node)].children;
  const auto it = std::lower_bound(children.begin(), children.end(), std::pair<uint8_t, int32_t>(byte, -1));
  return it != children.end() && it->first == byte ? it->second : -1;
}

void TokenTrie::add(std::string_view text, int32_t id, bool always) {
  if (text.empty()) return;
  starts_[static_cast<uint8_t>(text[0])] = true;
  int32_t node = 0;
  for (const char c : text) {
    int32_t next = child(node, static_cast<uint8_t>(c));
    if (next < 0) {
      next = static_cast<int32_t>(nodes_.size());
      nodes_.emplace_back();
      auto& children = nodes_[static_cast<size_t>(node)].children;
      const std::pair<uint8_t, int32_t> entry(static_cast<uint8_t>(c), next);
      children.insert(std::lower_bound(children.begin(), children.end(), entry), entry);
    }
    node = next;
  }
  nodes_[static_cast<size_t>(node)].id = id;
  nodes_[static_cast<size_t>(node)].always = always;
}

std::optional<TokenTrie::Match> TokenTrie::longest(std::string_view text, size_t offset, bool parse_control) const {
  std::optional<Match> best;
  int32_t node = 0;
  for (size_t i = offset; i < text.size(); ++i) {
    node = child(node, static_cast<uint8_t>(text[i]));
    if (node < 0) break;
    const Node& reached = nodes_[static_cast<size_t>(node)];
    if (reached.id >= 0 && (parse_control || reached.always)) best = Match{reached.id, i + 1 - offset};
  }
  return best;
}

size_t TokenTrie::next_start(std::string_view text, size_t from) const {
  while (from < text.size() && !starts_[static_cast<uint8_t>(text[from])]) ++from;
  return from;
}

}  // namespace tokamak
