#include "tokenizer/stream_decoder.h"

#include <utility>

#include "base/check.h"
#include "base/utf8.h"

namespace tokamak {

StreamDecoder::StreamDecoder(std::shared_ptr<const Tokenizer> tokenizer, DecodeOptions options)
    : tokenizer_(std::move(tokenizer)), options_(options) {
  CHECK(tokenizer_ != nullptr);
  strip_space_ = options_.at_text_start && tokenizer_->add_space_prefix_;
}

std::string StreamDecoder::push(int32_t id) {
  const TokenType type = tokenizer_->type(id);
  if (!options_.keep_special && (type == TokenType::control || type == TokenType::unknown)) return {};
  tokenizer_->append_bytes(id, pending_);
  if (strip_space_ && !pending_.empty()) {
    if (pending_[0] == ' ') pending_.erase(0, 1);
    strip_space_ = false;
  }
  const size_t n_held = incomplete_utf8_suffix(pending_);
  std::string held = pending_.substr(pending_.size() - n_held);
  pending_.resize(pending_.size() - n_held);
  std::string out = replace_invalid_utf8(pending_);
  pending_ = std::move(held);
  return out;
}

std::string StreamDecoder::finish() {
  std::string out = replace_invalid_utf8(pending_);
  pending_.clear();
  strip_space_ = options_.at_text_start && tokenizer_->add_space_prefix_;
  return out;
}

}  // namespace tokamak
