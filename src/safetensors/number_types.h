// The number types of safetensors files. One row per type; everything else about a type is derived from its row.
// Source: the format's published description; FP8 as in Micikevicius et al. 2022 (arXiv:2209.05433).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace tokamak {

enum class NumberType : uint8_t {
  boolean,
  u8,
  i8,
  f4,
  f8_e4m3,
  f8_e5m2,
  f8_e8m0,
  i16,
  u16,
  f16,
  bf16,
  i32,
  u32,
  f32,
  i64,
  u64,
  f64,
};

struct NumberTypeRow {
  NumberType id;
  std::string_view name;  // "dtype" of the header
  uint8_t n_bits;         // of one element
  bool is_float;          // holds weights as they are; the rest are codes and indices
};

// In enum order.
inline constexpr auto kNumberTypes = std::to_array<NumberTypeRow>({
    {NumberType::boolean, "BOOL", 8, false},
    {NumberType::u8, "U8", 8, false},
    {NumberType::i8, "I8", 8, false},
    {NumberType::f4, "F4", 4, false},
    {NumberType::f8_e4m3, "F8_E4M3", 8, false},
    {NumberType::f8_e5m2, "F8_E5M2", 8, false},
    {NumberType::f8_e8m0, "F8_E8M0", 8, false},
    {NumberType::i16, "I16", 16, false},
    {NumberType::u16, "U16", 16, false},
    {NumberType::f16, "F16", 16, true},
    {NumberType::bf16, "BF16", 16, true},
    {NumberType::i32, "I32", 32, false},
    {NumberType::u32, "U32", 32, false},
    {NumberType::f32, "F32", 32, true},
    {NumberType::i64, "I64", 64, false},
    {NumberType::u64, "U64", 64, false},
    {NumberType::f64, "F64", 64, true},
});

constexpr bool number_types_match_enum() {
  for (size_t i = 0; i < kNumberTypes.size(); ++i)
    if (static_cast<size_t>(kNumberTypes[i].id) != i) return false;
  return kNumberTypes.size() == static_cast<size_t>(NumberType::f64) + 1;
}
static_assert(number_types_match_enum());

constexpr const NumberTypeRow& number_type_row(NumberType type) { return kNumberTypes[static_cast<size_t>(type)]; }

// Null when there is no such name.
constexpr const NumberTypeRow* find_number_type(std::string_view name) {
  for (const NumberTypeRow& row : kNumberTypes)
    if (row.name == name) return &row;
  return nullptr;
}

// "BF16, F16, ..." for messages.
std::string number_type_names();

// One FP8 code (E4M3, the "fn" form: base/e4m3.h). E5M2: the upper byte of binary16. E8M0: 2^(code - 127), 255 is NaN.
float f8_e5m2_to_f32(uint8_t code);
float f8_e8m0_to_f32(uint8_t code);

// out[n] = elements [begin, begin + n) as f32 (F64 rounded to nearest even).
//   type   F16, BF16, F32, F64 or an FP8 type (CHECKed)
//   bytes  of the whole tensor, any alignment
// Non-finite elements stay what they are.
void decode_numbers(NumberType type, const std::byte* bytes, int64_t begin, int64_t n, float* out);
bool can_decode(NumberType type);

}  // namespace tokamak
