// Checks JSON text byte by byte, without keeping it. Source: RFC 8259.
#pragma once

#include <cstdint>
#include <string>

namespace tokamak {

// One JSON value, without white space before it. Duplicate keys pass; UTF-8 is the caller's affair.
class JsonScanner {
 public:
  enum class Step : uint8_t {
    more,         // the byte belongs to the value
    done,         // the byte ends the value
    done_before,  // the value, a number, ended in front of the byte
    bad,          // the byte fits nowhere, or nests deeper than kMaxJsonDepth
  };
  Step feed(char c);
  // A number at the end of all text is complete.
  bool is_whole_number() const { return nesting_.empty() && state_ == State::number && number_can_end(); }

 private:
  enum class State : uint8_t { value, first_item, first_key, key, colon, after, string, escape, hex, literal, number };
  enum class Number : uint8_t { minus, zero, integer, point, fraction, e, e_sign, exponent };

  Step begin_value(char c);
  Step in_number(char c);
  Step after_value(char c);
  Step end_value();
  bool number_can_end() const;

  State state_ = State::value;
  Number number_ = Number::minus;
  bool is_key_ = false;
  uint8_t n_hex_ = 0;
  const char* literal_ = "";  // what must still come
  std::string nesting_;       // of { and [
};

}  // namespace tokamak
