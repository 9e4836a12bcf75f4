#include "gguf/value.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <optional>

#include "base/utf8.h"

namespace tokamak {

namespace {

constexpr uint64_t kMaxExactInteger = uint64_t{1} << 53;  // beyond it not every integer is a double

// Any integer of 64 bits, signed or not: bits is its two's complement.
struct WideInt {
  bool negative;
  uint64_t bits;
  std::string to_text() const { return negative ? std::to_string(static_cast<int64_t>(bits)) : std::to_string(bits); }
};

template <class T>
T load(const std::byte* p) {
  T value;
  std::memcpy(&value, p, sizeof value);
  return value;
}

template <class T>
WideInt widen(const std::byte* p) {
  const T value = load<T>(p);
  return {value < 0, static_cast<uint64_t>(static_cast<int64_t>(value))};
}

std::optional<WideInt> load_integer(GgufType type, const std::byte* p) {
  switch (type) {
    case GgufType::u8:
      return widen<uint8_t>(p);
    case GgufType::i8:
      return widen<int8_t>(p);
    case GgufType::u16:
      return widen<uint16_t>(p);
    case GgufType::i16:
      return widen<int16_t>(p);
    case GgufType::u32:
      return widen<uint32_t>(p);
    case GgufType::i32:
      return widen<int32_t>(p);
    case GgufType::i64:
      return widen<int64_t>(p);
    case GgufType::u64:
      return WideInt{false, load<uint64_t>(p)};
    default:
      return std::nullopt;
  }
}

std::optional<int64_t> as_i64(WideInt value) {
  if (!value.negative && value.bits > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) return std::nullopt;
  return static_cast<int64_t>(value.bits);
}

// "from 1 to 512", without the ends that every value of the type satisfies.
template <class T>
std::string range_text(T min, T max) {
  const bool low = min != std::numeric_limits<T>::lowest(), high = max != std::numeric_limits<T>::max();
  if (low && high) return fmt::format("from {} to {}", min, max);
  if (low) return fmt::format("at least {}", min);
  return fmt::format("at most {}", max);
}

std::string display_scalar(GgufType type, const std::byte* p) {
  if (const auto integer = load_integer(type, p)) return integer->to_text();
  if (type == GgufType::f32) return fmt::format("{}", load<float>(p));
  if (type == GgufType::f64) return fmt::format("{}", load<double>(p));
  return load<uint8_t>(p) != 0 ? "true" : "false";
}

}  // namespace

std::string short_quote(std::string_view text, size_t max_bytes) {
  if (text.size() <= max_bytes) return fmt::format("\"{}\"", text);
  size_t n = max_bytes;  // back off to a character boundary
  while (n > 0 && (static_cast<unsigned char>(text[n]) & 0xC0) == 0x80) --n;
  return fmt::format("\"{}...\"", text.substr(0, n));
}

std::string GgufValue::type_name() const {
  const std::string_view element = gguf_type_row(element_type_).name;
  return is_array_ ? fmt::format("array of {}", element) : std::string(element);
}

std::string GgufValue::where() const { return fmt::format("{}: key {}, byte {}", *file_, short_quote(key_), offset_); }

Error GgufValue::wrong_type(std::string_view wanted) const {
  return Error{.code = ErrorCode::bad_metadata,
               .what = fmt::format("has type {}, must be {}", type_name(), wanted),
               .where = where()};
}

Error GgufValue::out_of_range(const std::string& value, const std::string& wanted) const {
  return Error{
      .code = ErrorCode::bad_metadata, .what = fmt::format("is {}, must be {}", value, wanted), .where = where()};
}

Result<uint64_t> GgufValue::to_u64(uint64_t min, uint64_t max) const {
  const auto value = is_array_ ? std::nullopt : load_integer(element_type_, raw_.data());
  if (!value) return wrong_type("an integer");
  if (value->negative && min == 0 && max == std::numeric_limits<uint64_t>::max())
    return out_of_range(value->to_text(), "at least 0");
  if (value->negative || value->bits < min || value->bits > max)
    return out_of_range(value->to_text(), min == 0 ? fmt::format("from 0 to {}", max) : range_text(min, max));
  return value->bits;
}

Result<int64_t> GgufValue::to_i64(int64_t min, int64_t max) const {
  const auto value = is_array_ ? std::nullopt : load_integer(element_type_, raw_.data());
  if (!value) return wrong_type("an integer");
  const auto small = as_i64(*value);
  if (!small || *small < min || *small > max) return out_of_range(value->to_text(), range_text(min, max));
  return *small;
}

Result<double> GgufValue::to_f64(double min, double max) const {
  if (is_array_) return wrong_type("a number");
  double number = 0;
  if (const auto integer = load_integer(element_type_, raw_.data())) {
    const auto small = as_i64(*integer);
    const auto limit = static_cast<int64_t>(kMaxExactInteger);
    if (!small || *small > limit || *small < -limit)
      return out_of_range(integer->to_text(), "at most 2^53 in magnitude");
    number = static_cast<double>(*small);
  } else if (element_type_ == GgufType::f32) {
    number = load<float>(raw_.data());
  } else if (element_type_ == GgufType::f64) {
    number = load<double>(raw_.data());
  } else {
    return wrong_type("a number");
  }
  if (!std::isfinite(number)) return out_of_range(fmt::format("{}", number), "a finite number");
  if (number < min || number > max) return out_of_range(fmt::format("{}", number), range_text(min, max));
  return number;
}

Result<bool> GgufValue::to_bool() const {
  if (type() != GgufType::boolean) return wrong_type("bool");
  return raw_[0] != std::byte{0};
}

Result<std::string_view> GgufValue::to_string() const {
  if (type() != GgufType::string) return wrong_type("string");
  return std::string_view(reinterpret_cast<const char*>(raw_.data()), raw_.size());
}

Result<std::vector<int64_t>> GgufValue::to_ints() const {
  const size_t n_bytes = gguf_type_row(element_type_).n_bytes;
  if (n_bytes == 0 || element_type_ == GgufType::f32 || element_type_ == GgufType::f64)
    return wrong_type("an integer or an array of integers");
  const GgufType stored = element_type_ == GgufType::boolean ? GgufType::u8 : element_type_;
  std::vector<int64_t> out;
  out.reserve(raw_.size() / n_bytes);  // bytes really present
  for (size_t i = 0; i < n_elements_; ++i) {
    const WideInt integer = *load_integer(stored, raw_.data() + i * n_bytes);
    const auto small = as_i64(integer);
    if (!small) return out_of_range(fmt::format("{} at index {}", integer.to_text(), i), "less than 2^63");
    out.push_back(*small);
  }
  return out;
}

Result<std::vector<float>> GgufValue::to_floats() const {
  const GgufTypeRow& row = gguf_type_row(element_type_);
  if (row.n_bytes == 0 || element_type_ == GgufType::boolean) return wrong_type("a number or an array of numbers");
  std::vector<float> out;
  out.reserve(raw_.size() / row.n_bytes);
  for (size_t i = 0; i < n_elements_; ++i) {
    const std::byte* p = raw_.data() + i * row.n_bytes;
    if (const auto integer = load_integer(element_type_, p))
      out.push_back(integer->negative ? static_cast<float>(static_cast<int64_t>(integer->bits))
                                      : static_cast<float>(integer->bits));
    else
      out.push_back(element_type_ == GgufType::f32 ? load<float>(p) : static_cast<float>(load<double>(p)));
  }
  return out;
}

Result<std::vector<std::string_view>> GgufValue::to_strings() const {
  if (element_type_ != GgufType::string) return wrong_type("a string or an array of strings");
  if (is_array_) return strings_;
  return std::vector{TRY(to_string())};
}

std::string GgufValue::to_display(size_t max_elements, size_t max_bytes) const {
  const auto element = [&](size_t i) {
    if (element_type_ != GgufType::string)
      return display_scalar(element_type_, raw_.data() + i * gguf_type_row(element_type_).n_bytes);
    const std::string_view text =
        is_array_ ? strings_[i] : std::string_view(reinterpret_cast<const char*>(raw_.data()), raw_.size());
    return short_quote(text, max_bytes);
  };
  if (!is_array_) return element(0);
  std::string out = "[";
  for (size_t i = 0; i < n_elements_ && i < max_elements; ++i) out += (i ? ", " : "") + element(i);
  return out + (n_elements_ > max_elements ? ", ...]" : "]");
}

}  // namespace tokamak
