// One metadata entry of a GGUF file: a typed scalar, or an array of scalars or strings.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "gguf/format.h"

namespace tokamak {

// A view: key, strings and array elements stay in the file's bytes (string arrays hold one view per element), so a
// value lives no longer than the bytes it was read from. Made by the validator only; every view lies inside the file.
// Conversions fail with bad_metadata and name file, key and offset. Thread-safe: immutable.
class GgufValue {
 public:
  std::string_view key() const { return key_; }
  GgufType type() const { return is_array_ ? GgufType::array : element_type_; }
  GgufType element_type() const { return element_type_; }  // of a scalar: its type
  bool is_array() const { return is_array_; }
  uint64_t size() const { return n_elements_; }  // elements; 1 for a scalar
  uint64_t offset() const { return offset_; }    // bytes from the start of its part file to the value's type field
  // "u32", "string", "array of f32"
  std::string type_name() const;
  // The elements as they lie in the file, without type, count or (for one string) length. Not aligned.
  std::span<const std::byte> raw() const { return raw_; }

  // Integers: every integer type is accepted when the value lies in [min, max]; bool and floats are not.
  Result<uint64_t> to_u64(uint64_t min = 0, uint64_t max = std::numeric_limits<uint64_t>::max()) const;
  Result<int64_t> to_i64(int64_t min = std::numeric_limits<int64_t>::min(),
                         int64_t max = std::numeric_limits<int64_t>::max()) const;
  // f32, f64, or an integer of at most 2^53 in magnitude. NaN and infinities are never in range.
  Result<double> to_f64(double min = std::numeric_limits<double>::lowest(),
                        double max = std::numeric_limits<double>::max()) const;
  Result<bool> to_bool() const;
  // The bytes of a string; not checked to be UTF-8.
  Result<std::string_view> to_string() const;

  // Arrays; a scalar counts as an array of one. A bool among integers counts as 0 or 1 (keys such as
  // attention.sliding_window_pattern are stored either way). Floats may be NaN or infinite.
  Result<std::vector<int64_t>> to_ints() const;
  Result<std::vector<float>> to_floats() const;
  Result<std::vector<std::string_view>> to_strings() const;

  // For people: numbers plain, arrays as "[1, 2, 3, ...]" with at most max_elements, strings quoted and cut to
  // max_bytes.
  std::string to_display(size_t max_elements = 8, size_t max_bytes = 60) const;

  // Start of a message's `where`: file, key, offset.
  std::string where() const;

 private:
  friend class GgufValidator;
  Error wrong_type(std::string_view wanted) const;
  Error out_of_range(const std::string& value, const std::string& wanted) const;

  std::string_view key_;
  std::shared_ptr<const std::string> file_;  // name of the part file, for messages
  GgufType element_type_ = GgufType::u8;
  bool is_array_ = false;
  uint64_t n_elements_ = 0;
  uint64_t offset_ = 0;
  std::span<const std::byte> raw_;
  std::vector<std::string_view> strings_;  // of an array of strings only
};

// `text` in quotes, cut to max_bytes with "..." so that messages stay one line.
std::string short_quote(std::string_view text, size_t max_bytes = 80);

}  // namespace tokamak
