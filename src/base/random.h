// Counter-based random numbers: a pure function of (seed, position, stream), so a draw does not depend on what was
// drawn before it, in which batch, or on which thread.
#pragma once

#include <array>
#include <cstdint>

namespace tokamak {

// Philox4x32-10: ten rounds of a keyed bijection of 128-bit counters.
// Source: Salmon, Moraes, Dror, Shaw 2011, "Parallel random numbers: as easy as 1, 2, 3", section 3.3.
constexpr std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t{0xD2511F53} * counter[0];
    const uint64_t b = uint64_t{0xCD9E8D57} * counter[2];
    counter = {static_cast<uint32_t>(b >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(b),
               static_cast<uint32_t>(a >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(a)};
    key[0] += 0x9E3779B9;  // golden ratio
    key[1] += 0xBB67AE85;  // sqrt(3) - 1
  }
  return counter;
}

// Uniform in [0, 1), a multiple of 2^-53. `stream` separates draws made for different purposes at one position.
constexpr double uniform(uint64_t seed, uint64_t position, uint32_t stream = 0) {
  const auto words = philox4x32({static_cast<uint32_t>(position), static_cast<uint32_t>(position >> 32), stream, 0},
                                {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
  const uint64_t bits = (uint64_t{words[1]} << 32) | words[0];
  return static_cast<double>(bits >> 11) * 0x1p-53;
}

// A seed for requests that name none: from the operating system's entropy, below 2^53 so that JSON can repeat it.
uint64_t entropy_seed();

}  // namespace tokamak
