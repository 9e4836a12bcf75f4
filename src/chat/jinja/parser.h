// Tokens to tree. Source: Jinja 3.1 template designer documentation; precedences are Jinja's (`**` binds left, a unary
// minus binds tighter than a filter).
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "chat/jinja/ast.h"

namespace tokamak::jinja {

// Longest path through the tree. Deeper templates are refused, so that no walk over a tree exhausts the stack.
inline constexpr int kMaxTreeHeight = 200;

struct ParsedTemplate {
  Block body;
  // Names that are unknown inside a branch: Jinja fails only when the branch runs, and so does the interpreter.
  std::vector<std::string> warnings;
};

// Errors: bad_template (syntax, with line), unsupported (a construct of Jinja that chat templates cannot use).
Result<ParsedTemplate> parse_template(std::string_view source);

}  // namespace tokamak::jinja
