// Which tokens are behind which part of an answer.
#pragma once

#include <algorithm>
#include <vector>

#include "server/reply.h"

namespace tokamak::server {

// Tokens whose text is held back belong to the delta that brings it. Tags of
// thoughts belong to none.
class TokenSplit {
 public:
  void add(const TokensEvent& event) {
    const auto is_tag = [](const OutputEvent& e) { return e.kind == OutputKind::tag; };
    if (!event.text.empty() && std::ranges::all_of(event.text, is_tag)) return held_.clear();
    held_.insert(held_.end(), event.tokens.begin(), event.tokens.end());
  }
  // Those of a delta of this kind.
  std::vector<GeneratedToken> take(ReplyDelta::Kind kind) {
    if (kind == ReplyDelta::Kind::reasoning) n_reasoning_ += static_cast<int64_t>(held_.size());
    return std::exchange(held_, {});
  }
  int64_t n_reasoning() const { return n_reasoning_; }

 private:
  std::vector<GeneratedToken> held_;
  int64_t n_reasoning_ = 0;
};

}  // namespace tokamak::server
