#include "engine/sampling/history.h"

#include <algorithm>

namespace tokamak {

History::History(Windows windows, std::vector<std::string> breakers, TokenText text)
    : windows_(windows), breakers_(std::move(breakers)), text_(std::move(text)) {
  const bool all = windows_.penalties < 0 || windows_.dry < 0;
  n_kept_ = all ? SIZE_MAX : static_cast<size_t>(std::max(windows_.penalties, windows_.dry));
  if (windows_.dry == 0 || !text_) breakers_.clear();
  for (const std::string& breaker : breakers_) longest_breaker_ = std::max(longest_breaker_, breaker.size());
}

void History::clear() {
  tokens_.clear();
  is_break_.clear();
  tail_.clear();
  seen_.clear();
  n_seen_.clear();
}

void History::accept(int32_t token) {
  if (n_kept_ == 0) return;
  tokens_.push_back(token);
  is_break_.push_back(windows_.dry != 0 && ends_breaker(token));
  if (windows_.penalties != 0) {
    count(token);
    const auto window = static_cast<size_t>(windows_.penalties);
    if (windows_.penalties > 0 && tokens_.size() > window) uncount(tokens_[tokens_.size() - 1 - window]);
  }
  if (n_kept_ < SIZE_MAX / 2 && tokens_.size() > 2 * n_kept_ + 64) {
    const auto n_old = static_cast<ptrdiff_t>(tokens_.size() - n_kept_);
    tokens_.erase(tokens_.begin(), tokens_.begin() + n_old);
    is_break_.erase(is_break_.begin(), is_break_.begin() + n_old);
  }
}

void History::count(int32_t token) {
  const auto at = std::lower_bound(seen_.begin(), seen_.end(), token);
  const auto n_at = n_seen_.begin() + (at - seen_.begin());
  if (at != seen_.end() && *at == token) {
    ++*n_at;
  } else {
    seen_.insert(at, token);
    n_seen_.insert(n_at, 1);
  }
}

void History::uncount(int32_t token) {
  const auto at = std::lower_bound(seen_.begin(), seen_.end(), token);
  const auto n_at = n_seen_.begin() + (at - seen_.begin());
  if (--*n_at > 0) return;
  seen_.erase(at);
  n_seen_.erase(n_at);
}

// A breaker may span tokens, so the end of the text before is kept.
bool History::ends_breaker(int32_t token) {
  if (breakers_.empty()) return false;
  const size_t n_before = tail_.size();
  tail_ += text_(token);
  bool found = false;
  for (const std::string& breaker : breakers_) {
    const size_t from = n_before >= breaker.size() ? n_before - breaker.size() + 1 : 0;
    found = found || tail_.find(breaker, from) != std::string::npos;
  }
  if (tail_.size() >= longest_breaker_) tail_.erase(0, tail_.size() - (longest_breaker_ - 1));
  return found;
}

const History::Repeats& History::repeats(size_t min_length) {
  repeats_.tokens.clear();
  repeats_.lengths.clear();
  found_.clear();
  const size_t n = windows_.dry < 0 ? tokens_.size() : std::min(tokens_.size(), static_cast<size_t>(windows_.dry));
  const auto back = [&](size_t i) { return tokens_[tokens_.size() - 1 - i]; };
  const auto is_break = [&](size_t i) { return is_break_[is_break_.size() - 1 - i] != 0; };
  size_t limit = 0;  // tokens after the last breaker
  while (limit < n && !is_break(limit)) ++limit;

  // same_[i]: how many tokens the history read backwards has in common with itself i tokens earlier. The Z algorithm:
  // [left, right) is the match that reaches furthest, and inside it earlier results repeat.
  same_.assign(n, 0);
  for (size_t i = 1, left = 0, right = 0; i < n; ++i) {
    size_t length = i < right ? std::min(right - i, same_[i - left]) : 0;
    while (i + length < n && back(length) == back(i + length)) ++length;
    same_[i] = length;
    if (i + length > right) left = i, right = i + length;
    const size_t usable = std::min(length, limit);
    if (usable >= min_length && usable > 0 && !is_break(i - 1)) found_.emplace_back(back(i - 1), usable);
  }

  std::sort(found_.begin(), found_.end());  // of one token the longest comes last
  for (size_t i = 0; i < found_.size(); ++i) {
    if (i + 1 < found_.size() && found_[i + 1].first == found_[i].first) continue;
    repeats_.tokens.push_back(found_[i].first);
    repeats_.lengths.push_back(found_[i].second);
  }
  return repeats_;
}

}  // namespace tokamak
