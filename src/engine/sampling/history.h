// What has been generated so far, as far as the penalties look back.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace tokamak {

using TokenText = std::function<std::string(int32_t)>;

class History {
 public:
  struct Windows {
    int64_t penalties = 0;  // tokens; -1: all
    int64_t dry = 0;
  };

  // Breakers are texts across which DRY sees no repetition; `text` gives the bytes of a token and may be empty when
  // there are no breakers.
  History(Windows windows, std::vector<std::string> breakers, TokenText text);

  // Amortised O(log n + distinct tokens) for penalties, O(1) for DRY.
  void accept(int32_t token);
  void clear();

  // Tokens of the penalty window, ascending, each once, and how often each occurs.
  std::span<const int32_t> seen() const { return seen_; }
  std::span<const int32_t> n_seen() const { return n_seen_; }

  // Tokens that would continue a repetition: ascending, each once, with the length in tokens (>= min_length) of the
  // longest earlier sequence equal to the end of the history that it followed. O(window).
  struct Repeats {
    std::vector<int32_t> tokens;
    std::vector<size_t> lengths;
  };
  const Repeats& repeats(size_t min_length);

 private:
  void count(int32_t token);
  void uncount(int32_t token);
  bool ends_breaker(int32_t token);

  Windows windows_;
  size_t n_kept_;  // tokens to remember, SIZE_MAX: all
  std::vector<std::string> breakers_;
  size_t longest_breaker_ = 0;
  TokenText text_;

  std::vector<int32_t> tokens_;
  std::vector<uint8_t> is_break_;  // by token of tokens_: a breaker ends in it
  std::string tail_;               // the last longest_breaker_ - 1 bytes of text
  std::vector<int32_t> seen_, n_seen_;

  Repeats repeats_;
  std::vector<size_t> same_;                       // scratch: by distance from the end, length of the common suffix
  std::vector<std::pair<int32_t, size_t>> found_;  // scratch
};

}  // namespace tokamak
