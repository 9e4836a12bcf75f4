#include "backend/reference/rounding.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/e4m3.h"
#include "base/half.h"

namespace tokamak::reference {

void round_to(DType type, std::span<float> row) {
  if (type == DType::f32) return;
  if (type == DType::f16) {
    for (float& x : row) x = f16_to_f32(f32_to_f16(x));
    return;
  }
  if (type == DType::bf16) {
    for (float& x : row) x = bf16_to_f32(f32_to_bf16(x));
    return;
  }
  if (type == DType::f8_e4m3) {
    float largest = 0;
    for (float x : row) largest = std::isnan(x) || std::isnan(largest) ? NAN : std::max(largest, std::fabs(x));
    const F8Scale f8 = f8_scale(largest);
    for (float& x : row) x = f8.scale * f8_e4m3_to_f32(f32_to_f8_e4m3(x * f8.inverse));
    return;
  }
  CHECK(type == DType::q8_0, dtype_name(type));
  for (size_t begin = 0; begin < row.size(); begin += 32) {
    const std::span<float> block = row.subspan(begin, std::min<size_t>(32, row.size() - begin));
    float largest = 0;
    for (float x : block) largest = std::max(largest, std::fabs(x));
    const float d = largest / 127, inverse = d == 0 ? 0 : 1 / d;
    const float stored = f16_to_f32(f32_to_f16(d));
    for (float& x : block) x = stored * std::nearbyint(x * inverse);
  }
}

}  // namespace tokamak::reference
