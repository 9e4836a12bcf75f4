#include <algorithm>
#include <array>
#include <bit>
#include <string>

#include "base/utf8.h"
#include "tokenizer/merge.h"
#include "tokenizer/segment_encoder.h"

namespace tokamak {

bool is_space_run(const Vocab& vocab, int32_t id) {
  if (vocab.type(id) != TokenType::user_defined) return false;
  std::string_view text = vocab.text(id);
  if (text.size() < 2 * kSpaceMark.size()) return false;
  while (text.starts_with(kSpaceMark)) text.remove_prefix(kSpaceMark.size());
  return text.empty();
}

namespace {

// Order-preserving: a higher score gives a smaller key. Keys of finite scores are above kSpaceRunKeys.
uint32_t score_key(float score) {
  const uint32_t bits = std::bit_cast<uint32_t>(score + 0.0f);  // -0 becomes +0
  return ~((bits >> 31) ? ~bits : bits | 0x80000000u);
}
constexpr uint32_t kSpaceRunKeys = 1u << 16;

class SpmEncoder final : public SegmentEncoder {
 public:
  SpmEncoder(const Vocab& vocab, bool add_space_prefix, int32_t unk)
      : vocab_(vocab), add_space_prefix_(add_space_prefix), unk_(unk) {
    keys_.resize(static_cast<size_t>(vocab.size()));
    for (int32_t id = 0; id < vocab.size(); ++id) {
      const bool run = is_space_run(vocab, id);
      const uint32_t n_bytes = static_cast<uint32_t>(std::min<size_t>(vocab.text(id).size(), kSpaceRunKeys - 1));
      keys_[static_cast<size_t>(id)] = run ? n_bytes : std::max(score_key(vocab.score(id)), kSpaceRunKeys);
      if (piece(vocab.text(id)) != kNoToken) note_inner_marks(vocab.text(id));
    }
  }

  size_t encode(std::string_view text, std::vector<int32_t>& out) const override {
    if (text.empty()) return 0;
    std::string escaped;
    escaped.reserve(text.size() + text.size() / 2 + kSpaceMark.size());
    if (add_space_prefix_) escaped += kSpaceMark;
    for (const char c : text) {
      if (c == ' ')
        escaped += kSpaceMark;
      else
        escaped += c;
    }
    MergeScratch scratch;
    size_t n_lost = 0;
    for (std::string_view rest = escaped; !rest.empty();) {
      const size_t n = word_length(rest);
      n_lost += encode_part(rest.substr(0, n), scratch, out);
      rest.remove_prefix(n);
    }
    return n_lost;
  }

 private:
  int32_t piece(std::string_view text) const {
    const int32_t id = vocab_.find(text);
    if (id == kNoToken) return kNoToken;
    const TokenType type = vocab_.type(id);
    return type == TokenType::control || type == TokenType::unknown || type == TokenType::byte ||
                   type == TokenType::unused
               ? kNoToken
               : id;
  }

  // Notes the bytes in front of every space mark inside a piece, the marks' own excepted.
  void note_inner_marks(std::string_view text) {
    for (size_t at = text.find(kSpaceMark, 1); at != std::string_view::npos; at = text.find(kSpaceMark, at + 1))
      if (!text.substr(0, at).ends_with(kSpaceMark)) joins_mark_[static_cast<uint8_t>(text[at - 1])] = true;
  }

  // Bytes up to the next place that no piece can cross: where a word ends and a space mark begins, unless some piece
  // holds such a pair. Merging the words one by one is exact and keeps the candidate heap small. At most about 2^30
  // (32-bit offsets), then at a character boundary.
  size_t word_length(std::string_view text) const {
    constexpr size_t kMax = size_t{1} << 30;
    for (size_t at = text.find(kSpaceMark, 1); at < std::min(text.size(), kMax); at = text.find(kSpaceMark, at + 1))
      if (!text.substr(0, at).ends_with(kSpaceMark) && !joins_mark_[static_cast<uint8_t>(text[at - 1])]) return at;
    if (text.size() <= kMax) return text.size();
    size_t n = kMax;
    while (n > kMax - 4 && (static_cast<unsigned char>(text[n]) & 0xC0) == 0x80) --n;
    return n;
  }

  // Returns the number of lost bytes.
  size_t encode_part(std::string_view text, MergeScratch& scratch, std::vector<int32_t>& out) const {
    scratch.symbols.clear();
    for (size_t i = 0; i < text.size();) {
      const Utf8Char c = decode_utf8(text, i);
      const int32_t id = c.valid ? piece(text.substr(i, c.n_bytes)) : kNoToken;
      scratch.symbols.push_back({id, static_cast<uint32_t>(i), c.n_bytes, -1, -1});
      i += c.n_bytes;
    }
    merge_pairs(scratch, [&](const MergeSymbol& l, const MergeSymbol& r) -> MergeResult {
      const int32_t id = piece(text.substr(l.begin, l.n_bytes + r.n_bytes));
      if (id == kNoToken) return {};
      // Equal scores: by the parts' ids, the order in which Hugging Face derives merges from a score table.
      const uint64_t key = keys_[static_cast<size_t>(id)];
      return {id, {key << 32 | static_cast<uint32_t>(l.id), static_cast<uint32_t>(r.id)}};
    });
    bool last_unknown = false;
    size_t n_lost = 0;
    for (int32_t i = scratch.symbols.empty() ? -1 : 0; i >= 0; i = scratch.symbols[static_cast<size_t>(i)].next) {
      const MergeSymbol& symbol = scratch.symbols[static_cast<size_t>(i)];
      if (symbol.id != kNoToken) out.push_back(symbol.id);
      const bool unknown = symbol.id == kNoToken && !append_bytes(text.substr(symbol.begin, symbol.n_bytes), out);
      if (unknown && !last_unknown && unk_ != kNoToken) out.push_back(unk_);
      if (unknown) n_lost += symbol.n_bytes;
      last_unknown = unknown;
    }
    return n_lost;
  }

  // False, and nothing appended, when the vocabulary lacks one of the bytes.
  bool append_bytes(std::string_view bytes, std::vector<int32_t>& out) const {
    for (const char c : bytes)
      if (vocab_.byte_token(static_cast<uint8_t>(c)) == kNoToken) return false;
    for (const char c : bytes) out.push_back(vocab_.byte_token(static_cast<uint8_t>(c)));
    return true;
  }

  const Vocab& vocab_;
  bool add_space_prefix_;
  int32_t unk_;
  std::vector<uint32_t> keys_;          // per token: smaller merges first
  std::array<bool, 256> joins_mark_{};  // last bytes of the characters in front of a space mark inside pieces
};

}  // namespace

Result<std::unique_ptr<SegmentEncoder>> make_spm_encoder(const Vocab& vocab, bool add_space_prefix, int32_t unk) {
  if (!vocab.has_scores())
    return Error{ErrorCode::bad_vocab, "a vocabulary of kind 'llama' needs scores", "tokenizer.ggml.scores",
                 "convert the model again"};
  return std::unique_ptr<SegmentEncoder>(std::make_unique<SpmEncoder>(vocab, add_space_prefix, unk));
}

}  // namespace tokamak
