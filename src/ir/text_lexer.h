// Tokens of the IR text, with their places. Internal to ir/text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace tokamak::ir {

struct Place {
  uint32_t line = 1, column = 1;  // column counts bytes
};

// what at where = "line 3, column 14".
Error error_at(Place place, std::string what);

struct Token {
  enum class Kind : uint8_t { end, value_id, word, number, string, punctuation };
  Kind kind = Kind::end;
  std::string_view text;  // as written; of a value_id without '%'
  std::string string;     // of a string: decoded
  Place place;
};

class Lexer {
 public:
  explicit Lexer(std::string_view text) : text_(text) {}

  const Token& peek() const { return token_; }
  // The current token; the next one becomes current. An Error when what follows is no token.
  Result<Token> next();
  Result<void> advance();  // reads the first token, or drops the current one

 private:
  void skip_blanks();
  Result<Token> read();
  Result<Token> read_string(Place place);
  std::string_view take_while(bool (*accept)(char));
  char at(size_t i) const { return i < text_.size() ? text_[i] : '\0'; }

  std::string_view text_;
  size_t pos_ = 0, line_start_ = 0;
  uint32_t line_ = 1;
  Token token_;
};

}  // namespace tokamak::ir
