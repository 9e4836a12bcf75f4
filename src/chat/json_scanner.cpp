#include "chat/json_scanner.h"

#include "chat/message.h"

namespace tokamak {

namespace {
bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_hex(char c) { return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }
}  // namespace

JsonScanner::Step JsonScanner::feed(char c) {
  switch (state_) {
    case State::value:
      return is_space(c) && !nesting_.empty() ? Step::more : begin_value(c);
    case State::first_item:
      if (is_space(c)) return Step::more;
      if (c == ']') return nesting_.pop_back(), end_value();
      return begin_value(c);
    case State::first_key:
    case State::key:
      if (is_space(c)) return Step::more;
      if (c == '}' && state_ == State::first_key) return nesting_.pop_back(), end_value();
      if (c != '"') return Step::bad;
      is_key_ = true;
      state_ = State::string;
      return Step::more;
    case State::colon:
      if (is_space(c)) return Step::more;
      if (c != ':') return Step::bad;
      state_ = State::value;
      return Step::more;
    case State::after:
      return after_value(c);
    case State::string:
      if (static_cast<uint8_t>(c) < 0x20) return Step::bad;
      if (c == '\\') state_ = State::escape;
      if (c != '"') return Step::more;
      if (!is_key_) return end_value();
      state_ = State::colon;
      return Step::more;
    case State::escape:
      if (std::string_view("\"\\/bfnrtu").find(c) == std::string_view::npos) return Step::bad;
      state_ = c == 'u' ? State::hex : State::string;
      n_hex_ = 0;
      return Step::more;
    case State::hex:
      if (!is_hex(c)) return Step::bad;
      if (++n_hex_ == 4) state_ = State::string;
      return Step::more;
    case State::literal:
      if (c != *literal_) return Step::bad;
      return *++literal_ == '\0' ? end_value() : Step::more;
    case State::number:
      return in_number(c);
  }
  return Step::bad;
}

JsonScanner::Step JsonScanner::begin_value(char c) {
  if (c == '{' || c == '[') {
    if (nesting_.size() >= static_cast<size_t>(kMaxJsonDepth)) return Step::bad;
    nesting_ += c;
    state_ = c == '{' ? State::first_key : State::first_item;
    return Step::more;
  }
  if (c == '"') {
    is_key_ = false;
    state_ = State::string;
    return Step::more;
  }
  if (c == 't' || c == 'f' || c == 'n') {
    literal_ = c == 't' ? "rue" : c == 'f' ? "alse" : "ull";
    state_ = State::literal;
    return Step::more;
  }
  if (c != '-' && !is_digit(c)) return Step::bad;
  number_ = c == '-' ? Number::minus : c == '0' ? Number::zero : Number::integer;
  state_ = State::number;
  return Step::more;
}

bool JsonScanner::number_can_end() const {
  return number_ == Number::zero || number_ == Number::integer || number_ == Number::fraction ||
         number_ == Number::exponent;
}

JsonScanner::Step JsonScanner::in_number(char c) {
  const auto go = [this](Number next) {
    number_ = next;
    return Step::more;
  };
  const bool digit = is_digit(c);
  switch (number_) {
    case Number::minus:
      if (digit) return go(c == '0' ? Number::zero : Number::integer);
      break;
    case Number::integer:
      if (digit) return Step::more;
      [[fallthrough]];
    case Number::zero:
      if (c == '.') return go(Number::point);
      if (c == 'e' || c == 'E') return go(Number::e);
      break;
    case Number::point:
      if (digit) return go(Number::fraction);
      break;
    case Number::fraction:
      if (digit) return Step::more;
      if (c == 'e' || c == 'E') return go(Number::e);
      break;
    case Number::e:
      if (c == '+' || c == '-') return go(Number::e_sign);
      [[fallthrough]];
    case Number::e_sign:
    case Number::exponent:
      if (digit) return go(Number::exponent);
      break;
  }
  if (!number_can_end()) return Step::bad;
  if (nesting_.empty()) return Step::done_before;
  state_ = State::after;
  return after_value(c);
}

JsonScanner::Step JsonScanner::after_value(char c) {
  if (is_space(c)) return Step::more;
  const bool in_object = nesting_.back() == '{';
  if (c == ',') {
    state_ = in_object ? State::key : State::value;
    return Step::more;
  }
  if (c != (in_object ? '}' : ']')) return Step::bad;
  nesting_.pop_back();
  return end_value();
}

JsonScanner::Step JsonScanner::end_value() {
  state_ = State::after;
  return nesting_.empty() ? Step::done : Step::more;
}

}  // namespace tokamak
