// A reading position in foreign bytes that cannot leave them.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

namespace tokamak {

// Every read says whether the bytes were there; a failed read moves nothing.
class Cursor {
 public:
  explicit Cursor(std::span<const std::byte> bytes) : bytes_(bytes) {}

  uint64_t offset() const { return offset_; }  // bytes from the start
  uint64_t left() const { return bytes_.size() - offset_; }

  template <class T>
  bool read(T& out) {
    if (left() < sizeof out) return false;
    std::memcpy(&out, bytes_.data() + offset_, sizeof out);
    offset_ += sizeof out;
    return true;
  }

  bool read(uint64_t n_bytes, std::span<const std::byte>& out) {
    if (left() < n_bytes) return false;
    out = bytes_.subspan(offset_, n_bytes);
    offset_ += n_bytes;
    return true;
  }

 private:
  std::span<const std::byte> bytes_;
  uint64_t offset_ = 0;
};

}  // namespace tokamak
