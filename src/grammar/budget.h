// Time and memory that one compilation may still use.
#pragma once

#include <chrono>

#include "grammar/grammar.h"

namespace tokamak::grammar {

inline Error refusal(std::string what, std::string where, std::string hint = {}) {
  return Error{
      .code = ErrorCode::bad_argument, .what = std::move(what), .where = std::move(where), .hint = std::move(hint)};
}

class Budget {
 public:
  explicit Budget(const GrammarLimits& limits)
      : limits_(limits), end_(std::chrono::steady_clock::now() + limits.max_time) {}

  // Counts memory about to be used; looks at the clock every so often. Once exceeded, it stays exceeded.
  bool spend(size_t n_bytes) {
    n_bytes_ += n_bytes;
    if (++n_calls_ % 256 == 0) late_ = late_ || std::chrono::steady_clock::now() > end_;
    return ok();
  }
  bool ok() const { return n_bytes_ <= limits_.max_bytes && !late_; }
  size_t n_bytes() const { return n_bytes_; }
  const GrammarLimits& limits() const { return limits_; }

  Error error() const {
    return refusal(late_ ? "compiling takes longer than " + std::to_string(limits_.max_time.count()) + " ms"
                         : "compiling takes more than " + std::to_string(limits_.max_bytes >> 20) + " MiB",
                   "grammar", "make the constraint smaller");
  }

 private:
  GrammarLimits limits_;
  std::chrono::steady_clock::time_point end_;
  size_t n_bytes_ = 0;
  uint64_t n_calls_ = 0;
  bool late_ = false;
};

}  // namespace tokamak::grammar
