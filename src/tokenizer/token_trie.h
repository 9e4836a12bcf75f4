// Finds added tokens (control and user-defined) in raw text: leftmost, then longest.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace tokamak {

class TokenTrie {
 public:
  struct Match {
    int32_t id;
    size_t n_bytes;
  };

  TokenTrie() : nodes_(1) {}

  // `always`: also found when control tokens are not parsed. The last id added for a text wins.
  void add(std::string_view text, int32_t id, bool always);
  // Longest token that starts at text[offset]. O(length of the longest token).
  std::optional<Match> longest(std::string_view text, size_t offset, bool parse_control) const;
  // First offset >= from where a token may start, or text.size().
  size_t next_start(std::string_view text, size_t from) const;

 private:
  struct Node {
    std::vector<std::pair<uint8_t, int32_t>> children;  // sorted by byte
    int32_t id = -1;
    bool always = false;
  };
  int32_t child(int32_t node, uint8_t byte) const;

  std::vector<Node> nodes_;
  std::array<bool, 256> starts_{};  // bytes that begin some token
};

}  // namespace tokamak
