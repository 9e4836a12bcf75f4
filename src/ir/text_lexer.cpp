#include "ir/text_lexer.h"

#include <fmt/format.h>

#include <cctype>

namespace tokamak::ir {

namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.' || c == '-' || c == '/';
}
bool is_number(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '-' || c == '+'; }
int hex_digit(char c) {
  if (is_digit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

}  // namespace

Error error_at(Place place, std::string what) {
  return Error{.code = ErrorCode::bad_argument,
               .what = std::move(what),
               .where = fmt::format("line {}, column {}", place.line, place.column)};
}

void Lexer::skip_blanks() {
  for (; pos_ < text_.size(); ++pos_) {
    const char c = text_[pos_];
    if (c == '\n') {
      ++line_;
      line_start_ = pos_ + 1;
    } else if (c == '#') {
      while (pos_ + 1 < text_.size() && text_[pos_ + 1] != '\n') ++pos_;
    } else if (c != ' ' && c != '\t' && c != '\r') {
      return;
    }
  }
}

std::string_view Lexer::take_while(bool (*accept)(char)) {
  const size_t begin = pos_;
  while (pos_ < text_.size() && accept(text_[pos_])) ++pos_;
  return text_.substr(begin, pos_ - begin);
}

Result<Token> Lexer::read_string(Place place) {
  Token token{.kind = Token::Kind::string, .place = place};
  const size_t begin = pos_++;
  while (pos_ < text_.size() && text_[pos_] != '"' && text_[pos_] != '\n') {
    char c = text_[pos_++];
    if (c == '\\') {
      c = at(pos_++);
      if (c == 'x') {
        const int high = hex_digit(at(pos_)), low = hex_digit(at(pos_ + 1));
        if (high < 0 || low < 0) return error_at(place, "\\x in a string needs two hexadecimal digits");
        c = static_cast<char>(high * 16 + low);
        pos_ += 2;
      } else if (c != '"' && c != '\\') {
        return error_at(place, "a string knows the escapes \\\" \\\\ \\xNN only");
      }
    }
    token.string += c;
  }
  if (at(pos_) != '"') return error_at(place, "the string does not end on its line");
  ++pos_;
  token.text = text_.substr(begin, pos_ - begin);
  return token;
}

Result<Token> Lexer::read() {
  skip_blanks();
  const Place place{line_, static_cast<uint32_t>(pos_ - line_start_ + 1)};
  if (pos_ >= text_.size()) return Token{.place = place};
  const char c = text_[pos_];
  if (c == '"') return read_string(place);
  Token token{.place = place};
  if (c == '%') {
    ++pos_;
    token.kind = Token::Kind::value_id;
    token.text = take_while(is_digit);
    if (token.text.empty()) return error_at(place, "digits must follow '%'");
  } else if (std::isalpha(static_cast<unsigned char>(c)) || c == '_') {
    token.kind = Token::Kind::word;
    token.text = take_while(is_word);
  } else if (is_digit(c) || c == '-') {
    token.kind = Token::Kind::number;
    token.text = take_while(is_number);
  } else if (std::string_view("={}[],:+").find(c) != std::string_view::npos) {
    token.kind = Token::Kind::punctuation;
    token.text = text_.substr(pos_++, 1);
  } else {
    return error_at(place, "unexpected character");
  }
  return token;
}

Result<void> Lexer::advance() {
  token_ = TRY(read());
  return {};
}

Result<Token> Lexer::next() {
  Token current = std::move(token_);
  TRY(advance());
  return current;
}

}  // namespace tokamak::ir
