// Text of tokens that arrive one at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "tokenizer/tokenizer.h"

namespace tokamak {

// Every returned piece is valid UTF-8 and ends at a character boundary; the pieces together equal
// Tokenizer::decode of the same ids with the same options. clean_spaces is ignored: it would need text that is gone.
// Not thread-safe.
class StreamDecoder {
 public:
  // The tokenizer must not be null.
  explicit StreamDecoder(std::shared_ptr<const Tokenizer> tokenizer, DecodeOptions options = {});

  // Text that became complete with this token; often empty in the middle of a character.
  std::string push(int32_t id);
  // A character that was never completed, as one U+FFFD, or nothing. The decoder then starts anew.
  std::string finish();
  // Bytes held back (0 to 3).
  size_t n_pending() const { return pending_.size(); }

 private:
  std::shared_ptr<const Tokenizer> tokenizer_;
  DecodeOptions options_;
  bool strip_space_;
  std::string pending_;  // incomplete character
};

}  // namespace tokamak
