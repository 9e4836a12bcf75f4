#include "tokenizer/vocab.h"

#include <fmt/format.h>

#include <bit>
#include <functional>

#include "tokenizer/vocab_source.h"

namespace tokamak {

namespace {

constexpr size_t kMaxTokenBytes = size_t{1} << 16;  // bounds what the tables of added tokens take

Error bad_vocab(std::string what, std::string where) {
  return Error{ErrorCode::bad_vocab, std::move(what), std::move(where), "convert the model again"};
}

std::string token_name(int32_t id, const std::string& text) { return fmt::format("token {} '{}'", id, text); }

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

}  // namespace

int parse_byte_token(std::string_view text) {
  if (text.size() != 6 || !text.starts_with("<0x") || text[5] != '>') return -1;
  const int high = hex_digit(text[3]), low = hex_digit(text[4]);
  return high < 0 || low < 0 ? -1 : high * 16 + low;
}

Result<Vocab> Vocab::create(VocabSource& source) {
  Vocab vocab;
  vocab.tokens_ = std::move(source.tokens);
  vocab.scores_ = std::move(source.scores);
  const size_t n = vocab.tokens_.size();
  if (n == 0) return bad_vocab("the vocabulary has no tokens", "tokenizer.ggml.tokens");
  if (n > (1u << 28)) return bad_vocab("more than 2^28 tokens", "tokenizer.ggml.tokens");
  if (!vocab.scores_.empty() && vocab.scores_.size() != n)
    return bad_vocab(std::to_string(vocab.scores_.size()) + " scores for " + std::to_string(n) + " tokens",
                     "tokenizer.ggml.scores");
  if (!source.types.empty() && source.types.size() != n)
    return bad_vocab(std::to_string(source.types.size()) + " types for " + std::to_string(n) + " tokens",
                     "tokenizer.ggml.token_type");
  vocab.types_.assign(n, TokenType::normal);
  for (size_t id = 0; id < source.types.size(); ++id) {
    const int32_t type = source.types[id];
    if (type < 0 || type > static_cast<int32_t>(TokenType::byte))
      return bad_vocab("unknown token type " + std::to_string(type),
                       "tokenizer.ggml.token_type[" + std::to_string(id) + "]");
    vocab.types_[id] = static_cast<TokenType>(type);
  }
  for (size_t id = 0; id < n; ++id) {
    if (vocab.tokens_[id].size() > kMaxTokenBytes)
      return bad_vocab(
          fmt::format("a token of {} bytes, allowed are at most {}", vocab.tokens_[id].size(), kMaxTokenBytes),
          "tokenizer.ggml.tokens[" + std::to_string(id) + "]");
    if (vocab.tokens_[id].empty()) vocab.tokens_[id] = "[EMPTY_" + std::to_string(id) + "]";
  }
  TRY(vocab.index_texts());
  TRY(vocab.index_bytes());
  return vocab;
}

Vocab::Place Vocab::place_of(std::string_view wanted) const {
  const uint64_t hash = std::hash<std::string_view>{}(wanted);
  const uint32_t tag = static_cast<uint32_t>(hash >> 32);
  const size_t mask = slots_.size() - 1;
  size_t slot = hash & mask;
  while (slots_[slot].id != kNoToken && (slots_[slot].tag != tag || text(slots_[slot].id) != wanted))
    slot = (slot + 1) & mask;
  return {slot, tag};
}

Result<void> Vocab::index_texts() {
  slots_.assign(std::bit_ceil(tokens_.size() * 2), Slot{});
  for (int32_t id = 0; id < size(); ++id) {
    const Place place = place_of(text(id));
    Slot& slot = slots_[place.slot];
    if (slot.id != kNoToken)
      return bad_vocab("the same text as token " + std::to_string(slot.id), token_name(id, text(id)));
    slot = {id, place.tag};
  }
  return {};
}

Result<void> Vocab::index_bytes() {
  byte_ids_.fill(kNoToken);
  for (int32_t id = 0; id < size(); ++id) {
    if (type(id) != TokenType::byte) continue;
    const int byte = parse_byte_token(text(id));
    if (byte < 0) return bad_vocab("a byte token that is not spelled <0xHH>", token_name(id, text(id)));
    int32_t& entry = byte_ids_[static_cast<size_t>(byte)];
    if (entry != kNoToken)
      return bad_vocab("the same byte as token " + std::to_string(entry), token_name(id, text(id)));
    entry = id;
  }
  return {};
}

int32_t Vocab::find(std::string_view wanted) const { return slots_[place_of(wanted).slot].id; }

}  // namespace tokamak
