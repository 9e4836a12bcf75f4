#include "safetensors/number_types.h"

#include <cmath>
#include <cstring>
#include <limits>

#include "base/check.h"
#include "base/e4m3.h"
#include "base/half.h"

namespace tokamak {

namespace {
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

template <class T, class Convert>
void decode_as(const std::byte* bytes, int64_t begin, int64_t n, float* out, Convert convert) {
  for (int64_t i = 0; i < n; ++i) {
    T code;
    std::memcpy(&code, bytes + (begin + i) * static_cast<int64_t>(sizeof code), sizeof code);
    out[i] = convert(code);
  }
}
}  // namespace

std::string number_type_names() {
  std::string names;
  for (const NumberTypeRow& row : kNumberTypes) names += (names.empty() ? "" : ", ") + std::string(row.name);
  return names;
}

float f8_e5m2_to_f32(uint8_t code) { return f16_to_f32(static_cast<uint16_t>(code << 8)); }

float f8_e8m0_to_f32(uint8_t code) { return code == 255 ? kNan : std::ldexp(1.0f, code - 127); }

bool can_decode(NumberType type) {
  using enum NumberType;
  return number_type_row(type).is_float || type == f8_e4m3 || type == f8_e5m2 || type == f8_e8m0;
}

void decode_numbers(NumberType type, const std::byte* bytes, int64_t begin, int64_t n, float* out) {
  switch (type) {
    case NumberType::f32:
      return decode_as<float>(bytes, begin, n, out, [](float x) { return x; });
    case NumberType::f64:
      return decode_as<double>(bytes, begin, n, out, [](double x) { return static_cast<float>(x); });
    case NumberType::f16:
      return decode_as<uint16_t>(bytes, begin, n, out, f16_to_f32);
    case NumberType::bf16:
      return decode_as<uint16_t>(bytes, begin, n, out, bf16_to_f32);
    case NumberType::f8_e4m3:
      return decode_as<uint8_t>(bytes, begin, n, out, f8_e4m3_to_f32);
    case NumberType::f8_e5m2:
      return decode_as<uint8_t>(bytes, begin, n, out, f8_e5m2_to_f32);
    case NumberType::f8_e8m0:
      return decode_as<uint8_t>(bytes, begin, n, out, f8_e8m0_to_f32);
    default:
      CHECK(can_decode(type), number_type_row(type).name);
  }
}

}  // namespace tokamak
