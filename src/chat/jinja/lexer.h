// Template text to tokens, with Jinja's whitespace rules as transformers sets them: trim_blocks and lstrip_blocks on,
// keep_trailing_newline off. Source: Jinja 3.1 template designer documentation, "Whitespace Control".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace tokamak::jinja {

enum class TokenKind : uint8_t {
  data,  // text between the tags, ready to print
  print_begin,
  print_end,
  block_begin,
  block_end,
  name,
  string,
  integer,
  floating,
  op,  // text holds the operator
  end,
};

struct Token {
  TokenKind kind;
  int line;
  std::string text;  // strings: unescaped; numbers: digits without underscores
};

// Errors: bad_template with the line. The last token is always `end`.
Result<std::vector<Token>> tokenize(std::string_view source);

// The Error of a template, with its line.
Error template_error(int line, std::string what);

}  // namespace tokamak::jinja
