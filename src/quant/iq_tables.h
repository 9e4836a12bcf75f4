// The lookup tables of the IQ types. Grids are packed: a point is one 16-bit word of small codes that index a value
// list. Source: the `gguf` Python package, through tools/gen_iq_tables.py.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

namespace tokamak {

extern const std::array<uint16_t, 256> kIq2XxsGrid;  // 8 elements of 2 bits, values kIq2Values
extern const std::array<uint16_t, 512> kIq2XsGrid;
extern const std::array<uint16_t, 1024> kIq2SGrid;
extern const std::array<uint16_t, 2048> kIq1Grid;    // 8 elements of 2 bits, value code - 1
extern const std::array<uint16_t, 256> kIq3XxsGrid;  // 4 elements of 3 bits, values kIq3XxsValues
extern const std::array<uint16_t, 512> kIq3SGrid;    // 4 elements of 3 bits, values kIq3SValues

inline constexpr uint8_t kIq2Values[4] = {8, 25, 43, 0};  // code 3 does not occur
inline constexpr uint8_t kIq3XxsValues[8] = {4, 12, 20, 28, 36, 44, 52, 62};
inline constexpr uint8_t kIq3SValues[8] = {1, 3, 5, 7, 9, 11, 13, 15};
inline constexpr int8_t kIq4Values[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

// Eight signs from seven stored bits: the eighth makes the number of minus signs even.
constexpr uint8_t eight_signs(unsigned seven_bits) {
  const unsigned low = seven_bits & 127;
  return static_cast<uint8_t>(low | (static_cast<unsigned>(std::popcount(low)) & 1) << 7);
}

}  // namespace tokamak
