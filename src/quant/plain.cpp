#include "quant/plain.h"

#include <cmath>
#include <limits>

#include "base/half.h"
#include "quant/blocks.h"

namespace tokamak {

namespace {

template <class Stored, class ToF32>
void decode_plain(const std::byte* blocks, int64_t n, float* out, ToF32&& to_f32) {
  for (int64_t i = 0; i < n; ++i)
    out[i] = to_f32(load_block<Stored>(blocks + i * static_cast<int64_t>(sizeof(Stored))));
}

template <class Stored, class FromF32>
void encode_plain(const float* x, int64_t n, std::byte* blocks, FromF32&& from_f32) {
  for (int64_t i = 0; i < n; ++i)
    store_block<Stored>(blocks + i * static_cast<int64_t>(sizeof(Stored)), from_f32(x[i]));
}

constexpr auto cast_to_f32 = [](auto value) { return static_cast<float>(value); };

template <class Int>
Int saturate(float x) {
  const double rounded = std::nearbyint(static_cast<double>(x));
  constexpr double low = static_cast<double>(std::numeric_limits<Int>::min());
  if (rounded < low) return std::numeric_limits<Int>::min();
  if (rounded >= -low) return std::numeric_limits<Int>::max();  // -low is max + 1, exact in f64
  return static_cast<Int>(rounded);
}

const char* fault_if(bool bad) { return bad ? "an element is inf or NaN" : nullptr; }

}  // namespace

void decode_f32(const std::byte* blocks, int64_t n, float* out) { decode_plain<float>(blocks, n, out, cast_to_f32); }
void decode_f16(const std::byte* blocks, int64_t n, float* out) { decode_plain<uint16_t>(blocks, n, out, f16_to_f32); }
void decode_bf16(const std::byte* blocks, int64_t n, float* out) {
  decode_plain<uint16_t>(blocks, n, out, bf16_to_f32);
}
void decode_f64(const std::byte* blocks, int64_t n, float* out) { decode_plain<double>(blocks, n, out, cast_to_f32); }
void decode_i8(const std::byte* blocks, int64_t n, float* out) { decode_plain<int8_t>(blocks, n, out, cast_to_f32); }
void decode_i16(const std::byte* blocks, int64_t n, float* out) { decode_plain<int16_t>(blocks, n, out, cast_to_f32); }
void decode_i32(const std::byte* blocks, int64_t n, float* out) { decode_plain<int32_t>(blocks, n, out, cast_to_f32); }
void decode_i64(const std::byte* blocks, int64_t n, float* out) { decode_plain<int64_t>(blocks, n, out, cast_to_f32); }

void encode_f32(const float* x, int64_t n, const float*, std::byte* b) { encode_plain<float>(x, n, b, cast_to_f32); }
void encode_f16(const float* x, int64_t n, const float*, std::byte* b) { encode_plain<uint16_t>(x, n, b, f32_to_f16); }
void encode_bf16(const float* x, int64_t n, const float*, std::byte* b) {
  encode_plain<uint16_t>(x, n, b, f32_to_bf16);
}
void encode_f64(const float* x, int64_t n, const float*, std::byte* b) {
  encode_plain<double>(x, n, b, [](float v) { return static_cast<double>(v); });
}
void encode_i8(const float* x, int64_t n, const float*, std::byte* b) {
  encode_plain<int8_t>(x, n, b, saturate<int8_t>);
}
void encode_i16(const float* x, int64_t n, const float*, std::byte* b) {
  encode_plain<int16_t>(x, n, b, saturate<int16_t>);
}
void encode_i32(const float* x, int64_t n, const float*, std::byte* b) {
  encode_plain<int32_t>(x, n, b, saturate<int32_t>);
}
void encode_i64(const float* x, int64_t n, const float*, std::byte* b) {
  encode_plain<int64_t>(x, n, b, saturate<int64_t>);
}

const char* fault_f32(const std::byte* block) { return fault_if(!std::isfinite(load_block<float>(block))); }
const char* fault_f16(const std::byte* block) { return fault_if((load_block<uint16_t>(block) & 0x7C00) == 0x7C00); }
const char* fault_bf16(const std::byte* block) { return fault_if((load_block<uint16_t>(block) & 0x7F80) == 0x7F80); }
// An f64 beyond the f32 range decodes to inf.
const char* fault_f64(const std::byte* block) {
  return fault_if(!std::isfinite(static_cast<float>(load_block<double>(block))));
}

}  // namespace tokamak
