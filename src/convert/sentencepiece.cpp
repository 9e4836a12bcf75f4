#include "convert/sentencepiece.h"

#include <fmt/format.h>

#include <cstring>
#include <optional>

#include "base/utf8.h"

namespace tokamak::convert {

namespace {

enum class Wire : uint8_t { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };
constexpr uint64_t kMaxField = (uint64_t{1} << 29) - 1;

struct Field {
  uint64_t number = 0;
  Wire wire = Wire::varint;
  uint64_t value = 0;                // varint, fixed32, fixed64
  std::span<const std::byte> bytes;  // of Wire::bytes
};

// Walks the fields of one message. A malformed field ends the walk with ok() false.
class Fields {
 public:
  explicit Fields(std::span<const std::byte> bytes) : bytes_(bytes) {}
  bool ok() const { return ok_; }
  size_t offset() const { return at_; }

  bool next(Field& field) {
    if (!ok_ || at_ == bytes_.size()) return false;
    uint64_t tag = 0;
    ok_ = varint(tag) && (tag >> 3) >= 1 && (tag >> 3) <= kMaxField;
    if (!ok_) return false;
    field = {.number = tag >> 3, .wire = static_cast<Wire>(tag & 7)};
    switch (field.wire) {
      case Wire::varint:
        return ok_ = varint(field.value);
      case Wire::fixed64:
        return ok_ = fixed(8, field.value);
      case Wire::fixed32:
        return ok_ = fixed(4, field.value);
      case Wire::bytes: {
        uint64_t n = 0;
        ok_ = varint(n) && n <= bytes_.size() - at_;
        if (!ok_) return false;
        field.bytes = bytes_.subspan(at_, n);
        at_ += n;
        return true;
      }
    }
    return ok_ = false;  // groups are not in use
  }

 private:
  bool varint(uint64_t& out) {
    out = 0;
    for (int shift = 0; shift < 64 && at_ < bytes_.size(); shift += 7) {
      const auto byte = static_cast<uint8_t>(bytes_[at_++]);
      out |= uint64_t{byte & 0x7Fu} << shift;
      if (byte < 0x80) return true;
    }
    return false;
  }
  bool fixed(size_t n, uint64_t& out) {
    if (bytes_.size() - at_ < n) return false;
    out = 0;
    std::memcpy(&out, bytes_.data() + at_, n);
    at_ += n;
    return true;
  }

  std::span<const std::byte> bytes_;
  size_t at_ = 0;
  bool ok_ = true;
};

// ModelProto.SentencePiece: piece = 1, score = 2, type = 3.
std::optional<SentencePiece> parse_piece(std::span<const std::byte> bytes) {
  SentencePiece piece;
  Fields fields(bytes);
  for (Field field; fields.next(field);) {
    if (field.number == 1 && field.wire == Wire::bytes)
      piece.text.assign(reinterpret_cast<const char*>(field.bytes.data()), field.bytes.size());
    if (field.number == 2 && field.wire == Wire::fixed32) {
      const auto bits = static_cast<uint32_t>(field.value);
      std::memcpy(&piece.score, &bits, sizeof bits);
    }
    if (field.number == 3 && field.wire == Wire::varint) piece.type = static_cast<int32_t>(field.value & 0xFF);
  }
  if (!fields.ok() || piece.type < 1 || piece.type > 6 || !is_valid_utf8(piece.text)) return std::nullopt;
  return piece;
}

// The varint field `number` of a message, or `fallback`.
uint64_t varint_field(std::span<const std::byte> bytes, uint64_t number, uint64_t fallback) {
  Fields fields(bytes);
  for (Field field; fields.next(field);)
    if (field.number == number && field.wire == Wire::varint) fallback = field.value;
  return fallback;
}

// Whether the bytes field `number` of a message is there and not empty.
bool has_bytes(std::span<const std::byte> bytes, uint64_t number) {
  bool found = false;
  Fields fields(bytes);
  for (Field field; fields.next(field);)
    found |= field.number == number && field.wire == Wire::bytes && !field.bytes.empty();
  return found;
}

}  // namespace

Result<SentencePieceModel> parse_sentencepiece(std::span<const std::byte> bytes, const std::string& where) {
  SentencePieceModel model;
  Fields fields(bytes);
  const auto bad = [&](std::string what) {
    return Error{.code = ErrorCode::bad_file,
                 .what = std::move(what),
                 .where = where,
                 .hint = "the file is damaged or not a SentencePiece model"};
  };
  for (Field field; fields.next(field);) {
    if (field.wire != Wire::bytes) continue;
    if (field.number == 1) {  // ModelProto.pieces
      auto piece = parse_piece(field.bytes);
      if (!piece) return bad(fmt::format("piece {} before byte {} is malformed", model.pieces.size(), fields.offset()));
      model.pieces.push_back(*std::move(piece));
    }
    if (field.number == 2) model.is_bpe = varint_field(field.bytes, 3, 1) == 2;  // trainer_spec.model_type
    if (field.number == 3) {                                                     // normalizer_spec
      model.add_dummy_prefix = varint_field(field.bytes, 3, 1) != 0;
      model.has_charsmap = has_bytes(field.bytes, 2);  // precompiled_charsmap
    }
  }
  if (!fields.ok()) return bad(fmt::format("malformed at byte {}", fields.offset()));
  if (model.pieces.empty()) return bad("it holds no pieces");
  return model;
}

}  // namespace tokamak::convert
