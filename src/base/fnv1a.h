// FNV-1a, 64 bits: names of cache entries and vocabularies, not secrets. Source: Fowler, Noll, Vo;
// http://www.isthe.com/chongo/tech/comp/fnv
#pragma once

#include <cstdint>
#include <string_view>

namespace tokamak {

class Fnv1a {
 public:
  void add(std::string_view bytes) {
    for (const char c : bytes) add_byte(static_cast<unsigned char>(c));
  }
  void add(uint64_t number) {  // little-endian
    for (int i = 0; i < 8; ++i) add_byte(number >> (8 * i) & 0xFF);
  }
  uint64_t value() const { return hash_; }

 private:
  void add_byte(uint64_t byte) { hash_ = (hash_ ^ byte) * 0x100000001B3u; }
  uint64_t hash_ = 0xCBF29CE484222325u;
};

}  // namespace tokamak
