#include <utf8proc.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <string>

#include "base/log.h"
#include "base/utf8.h"
#include "tokenizer/byte_letters.h"
#include "tokenizer/merge.h"
#include "tokenizer/segment_encoder.h"
#include "tokenizer/splitter.h"

namespace tokamak {

namespace {

// (left id, right id) -> rank and joined id. Open addressing, at most half full.
class MergeTable {
 public:
  explicit MergeTable(size_t n) : slots_(std::bit_ceil(std::max<size_t>(n * 2, 2))) {}

  // The first entry of a pair counts.
  void add(int32_t left, int32_t right, uint32_t rank, int32_t id) {
    Slot& slot = slots_[slot_of(key_of(left, right))];
    if (slot.id == kNoToken) slot = {key_of(left, right), rank, id};
  }
  MergeResult find(int32_t left, int32_t right) const {
    const Slot& slot = slots_[slot_of(key_of(left, right))];
    return {slot.id, {slot.rank, 0}};
  }

 private:
  struct Slot {
    uint64_t key = 0;
    uint32_t rank = 0;
    int32_t id = kNoToken;
  };
  static uint64_t key_of(int32_t left, int32_t right) {
    return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
  }
  size_t slot_of(uint64_t key) const {
    const size_t mask = slots_.size() - 1;
    size_t slot = (key * 0x9E3779B97F4A7C15u >> 32) & mask;  // multiplicative hashing, Knuth 6.4
    while (slots_[slot].id != kNoToken && slots_[slot].key != key) slot = (slot + 1) & mask;
    return slot;
  }
  std::vector<Slot> slots_;
};

std::string to_lower(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size();) {
    const Utf8Char c = decode_utf8(text, i);
    append_utf8(out, static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c.code_point))));
    i += c.n_bytes;
  }
  return out;
}

bool is_ascii(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

// Unicode NFC of valid UTF-8; the text itself if memory runs out.
std::string to_nfc(std::string_view text) {
  utf8proc_uint8_t* mapped = nullptr;
  const auto n =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()), static_cast<utf8proc_ssize_t>(text.size()),
                   &mapped, static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  std::string out =
      n < 0 ? std::string(text) : std::string(reinterpret_cast<const char*>(mapped), static_cast<size_t>(n));
  std::free(mapped);
  return out;
}

std::string escape_spaces(std::string_view text) {
  std::string out;
  out.reserve(text.size() * 2);
  for (const char c : text) {
    if (c == ' ')
      out += kSpaceMark;
    else
      out += c;
  }
  return out;
}

class BpeEncoder final : public SegmentEncoder {
 public:
  BpeEncoder(const Vocab& vocab, const PreTokenizer& pre, Splitter splitter, bool lowercase, int32_t unk,
             size_t n_merges)
      : vocab_(vocab),
        pre_(pre),
        splitter_(std::move(splitter)),
        lowercase_(lowercase),
        unk_(unk),
        table_(n_merges),
        by_token_rank_(n_merges == 0) {
    for (size_t byte = 0; byte < 256; ++byte) {
      append_utf8(letters_[byte], kByteLetters[byte]);
      letter_ids_[byte] = vocab.find(letters_[byte]);
    }
  }

  void add_merges(const std::vector<std::string>& merges) {
    size_t n_skipped = 0;
    for (size_t rank = 0; rank < merges.size(); ++rank) {
      const std::string_view merge = merges[rank];
      const size_t space = merge.find(' ', 1);
      if (space == std::string_view::npos) {
        ++n_skipped;
        continue;
      }
      const std::string_view left = merge.substr(0, space), right = merge.substr(space + 1);
      const int32_t left_id = vocab_.find(left), right_id = vocab_.find(right);
      const int32_t id = vocab_.find(std::string(left) += right);
      if (left_id == kNoToken || right_id == kNoToken || id == kNoToken)
        ++n_skipped;
      else
        table_.add(left_id, right_id, static_cast<uint32_t>(rank), id);
    }
    if (n_skipped)
      log_line(LogLevel::warning,
               "tokenizer: " + std::to_string(n_skipped) + " merges name no token of the vocabulary; ignored");
  }

  void warn_of_missing_letters() const {
    const auto n = std::count(letter_ids_.begin(), letter_ids_.end(), kNoToken);
    if (!pre_.characters && n)
      log_line(LogLevel::warning,
               "tokenizer: " + std::to_string(n) + " byte values have no token; text with them loses these bytes");
  }

  size_t encode(std::string_view text, std::vector<int32_t>& out) const override {
    MergeScratch scratch;
    size_t n_lost = 0;
    constexpr size_t kPart = size_t{1} << 30;  // bounds the offsets of the regex library and of the merge symbols
    while (!text.empty()) {
      const size_t n_valid = valid_utf8_prefix(text.substr(0, kPart));
      n_lost += encode_valid(text.substr(0, n_valid), scratch, out);
      text.remove_prefix(n_valid);
      size_t n_ill = 0;
      while (n_ill < text.size() && n_ill < kPart) {
        const Utf8Char c = decode_utf8(text, n_ill);
        if (c.valid) break;
        n_ill += c.n_bytes;
      }
      if (n_ill) n_lost += encode_piece(text.substr(0, n_ill), scratch, out);
      text.remove_prefix(n_ill);
    }
    return n_lost;
  }

 private:
  // These return the number of lost bytes.
  size_t encode_valid(std::string_view text, MergeScratch& scratch, std::vector<int32_t>& out) const {
    std::string changed;
    if (lowercase_) text = changed = to_lower(text);
    if (pre_.nfc && !is_ascii(text)) text = changed = to_nfc(text);
    if (pre_.escape) text = changed = escape_spaces(text);
    size_t n_lost = 0;
    for (const std::string_view piece : splitter_.split(text)) n_lost += encode_piece(piece, scratch, out);
    return n_lost;
  }

  size_t encode_piece(std::string_view piece, MergeScratch& scratch, std::vector<int32_t>& out) const {
    if (pre_.characters) return encode_characters(piece, scratch, out);
    if (piece.size() == 1) {
      const int32_t id = letter_ids_[static_cast<uint8_t>(piece[0])];
      if (id != kNoToken) out.push_back(id);
      return id == kNoToken ? 1 : 0;
    }
    std::string spelled;  // the piece in byte letters; needed only to look up texts
    if (pre_.ignore_merges || by_token_rank_)
      for (const char c : piece) spelled += letters_[static_cast<uint8_t>(c)];
    if (pre_.ignore_merges)
      if (const int32_t id = vocab_.find(spelled); id != kNoToken) return out.push_back(id), 0;
    scratch.symbols.clear();
    uint32_t begin = 0;
    size_t n_lost = 0;
    for (const char c : piece) {
      const uint8_t byte = static_cast<uint8_t>(c);
      const uint32_t n_bytes = static_cast<uint32_t>(letters_[byte].size());
      if (letter_ids_[byte] != kNoToken)
        scratch.symbols.push_back({letter_ids_[byte], begin, n_bytes, -1, -1});
      else
        ++n_lost;
      begin += n_bytes;
    }
    merge(spelled, scratch);
    for_each_symbol(scratch, [&](const MergeSymbol& symbol) { out.push_back(symbol.id); });
    return n_lost;
  }

  // `characters` rows: symbols are UTF-8 characters.
  size_t encode_characters(std::string_view piece, MergeScratch& scratch, std::vector<int32_t>& out) const {
    if (pre_.ignore_merges)
      if (const int32_t id = vocab_.find(piece); id != kNoToken) return out.push_back(id), 0;
    scratch.symbols.clear();
    size_t n_lost = 0;
    for (size_t i = 0; i < piece.size();) {
      const Utf8Char c = decode_utf8(piece, i);
      const int32_t id = c.valid ? vocab_.find(piece.substr(i, c.n_bytes)) : kNoToken;
      scratch.symbols.push_back({id, static_cast<uint32_t>(i), c.n_bytes, -1, -1});
      i += c.n_bytes;
    }
    merge(piece, scratch);
    for_each_symbol(scratch, [&](const MergeSymbol& symbol) {
      if (symbol.id != kNoToken) return out.push_back(symbol.id);
      const std::string_view bytes = piece.substr(symbol.begin, symbol.n_bytes);
      const bool known = std::all_of(bytes.begin(), bytes.end(),
                                     [&](char c) { return vocab_.byte_token(static_cast<uint8_t>(c)) != kNoToken; });
      if (!known) n_lost += bytes.size();
      if (!known && unk_ != kNoToken) out.push_back(unk_);
      if (known)
        for (const char c : bytes) out.push_back(vocab_.byte_token(static_cast<uint8_t>(c)));
    });
    return n_lost;
  }

  void merge(std::string_view spelled, MergeScratch& scratch) const {
    if (!by_token_rank_) {
      merge_pairs(scratch, [&](const MergeSymbol& l, const MergeSymbol& r) { return table_.find(l.id, r.id); });
      return;
    }
    merge_pairs(scratch, [&](const MergeSymbol& l, const MergeSymbol& r) -> MergeResult {
      if (l.begin + l.n_bytes != r.begin) return {};  // a dropped byte lies between
      const int32_t id = vocab_.find(spelled.substr(l.begin, l.n_bytes + r.n_bytes));
      return {id, {static_cast<uint32_t>(id), 0}};
    });
  }

  template <class Visit>
  static void for_each_symbol(const MergeScratch& scratch, const Visit& visit) {
    for (int32_t i = scratch.symbols.empty() ? -1 : 0; i >= 0; i = scratch.symbols[static_cast<size_t>(i)].next)
      visit(scratch.symbols[static_cast<size_t>(i)]);
  }

  const Vocab& vocab_;
  const PreTokenizer& pre_;
  Splitter splitter_;
  bool lowercase_;
  int32_t unk_;
  MergeTable table_;
  bool by_token_rank_;
  std::array<std::string, 256> letters_;  // UTF-8 of kByteLetters
  std::array<int32_t, 256> letter_ids_{};
};

}  // namespace

Result<std::unique_ptr<SegmentEncoder>> make_bpe_encoder(const Vocab& vocab, const PreTokenizer& pre,
                                                         const std::vector<std::string>& merges, bool lowercase,
                                                         int32_t unk) {
  if (merges.empty() && pre.rules->name != "kimi-k2" && pre.rules->name != "words")
    return Error{ErrorCode::bad_vocab, "a byte-level BPE vocabulary needs merges", "tokenizer.ggml.merges",
                 "convert the model again"};
  auto encoder =
      std::make_unique<BpeEncoder>(vocab, pre, TRY(Splitter::create(*pre.rules)), lowercase, unk, merges.size());
  encoder->add_merges(merges);
  encoder->warn_of_missing_letters();
  return std::unique_ptr<SegmentEncoder>(std::move(encoder));
}

}  // namespace tokamak
