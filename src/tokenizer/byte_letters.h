// The alphabet of byte-level BPE: every byte is written as one printable character, so that merges are plain text.
// Printable Latin-1 bytes stand for themselves; the other 68 are U+0100 onwards, in byte order.
// Source: Radford et al. 2019 (GPT-2), the tokenizer published with it.
#pragma once

#include <array>
#include <cstdint>

namespace tokamak {

constexpr bool is_own_letter(unsigned byte) {
  return (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

constexpr std::array<char32_t, 256> make_byte_letters() {
  std::array<char32_t, 256> letters{};
  char32_t next = 0x100;
  for (unsigned byte = 0; byte < 256; ++byte) letters[byte] = is_own_letter(byte) ? byte : next++;
  return letters;
}
inline constexpr std::array<char32_t, 256> kByteLetters = make_byte_letters();
static_assert(kByteLetters[' '] == 0x120 && kByteLetters['\n'] == 0x10A && kByteLetters[0xAD] == 0x143);

// Byte of a letter, or -1 when the character is outside the alphabet.
constexpr int byte_of_letter(char32_t letter) {
  if (letter < 256) return is_own_letter(letter) ? static_cast<int>(letter) : -1;
  for (unsigned byte = 0; byte < 256; ++byte)
    if (kByteLetters[byte] == letter) return static_cast<int>(byte);
  return -1;
}

}  // namespace tokamak
