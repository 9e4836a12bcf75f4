// The tree of a template. Built once by the parser, never changed, shared by all renderings.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "chat/jinja/builtins.h"
#include "chat/jinja/value.h"

namespace tokamak::jinja {

struct Expr;
struct Stmt;
using ExprPtr = std::unique_ptr<Expr>;
using Block = std::vector<Stmt>;

enum class ExprKind : uint8_t {
  constant,  // value
  name,      // name
  list,
  tuple,      // kids
  dict,       // kids: key, value, key, value ...
  unary,      // op on kids[0]; op is one of + - not
  binary,     // kids[0] op kids[1]
  logic,      // kids[0] and/or kids[1]; the right side runs only if needed
  compare,    // kids[0] ops[0] kids[1] ops[1] kids[2] ...
  concat,     // kids[0] ~ kids[1] ~ ...
  choose,     // kids[0] if kids[1] else kids[2]; kids[2] may be null
  attribute,  // kids[0].name
  item,       // kids[0][kids[1]]
  slice,      // inside item only: kids start, stop, step, each may be null
  call,       // kids[0](args)
  filter,     // kids[0] | name(args); kids[0] is null at the head of a filter block
  test,       // kids[0] is name(args)
};

enum class Op : uint8_t {
  none,
  add,
  sub,
  mul,
  div,
  floordiv,
  mod,
  pow,
  negate,
  plus,
  not_,
  and_,
  or_,
  eq,
  ne,
  lt,
  le,
  gt,
  ge,
  in,
  not_in,
};

// One argument of a call, filter or test: positional, name=value, *value or **value.
struct Argument {
  enum class Form : uint8_t { positional, named, spread, spread_named } form;
  std::string name;
  ExprPtr value;
};

struct Expr {
  ExprKind kind;
  int line = 0;
  int height = 1;  // of the subtree; bounded by the parser
  Op op = Op::none;
  std::string name;
  Value value;
  std::vector<ExprPtr> kids;
  std::vector<Op> ops;
  std::vector<Argument> args;
  const BuiltinRow* row = nullptr;  // filter or test; null: unknown name in a branch, fails when it runs
};

enum class StmtKind : uint8_t {
  text,       // text
  print,      // expr
  branch,     // arms
  loop,       // target in expr [if test] [recursive]: body, otherwise
  set,        // target = expr
  set_block,  // target (filtered by expr if any) = rendered body
  with,       // names bound to values, then body
  macro,      // macro
  call,       // expr is the call; macro is the anonymous caller
  filter,     // expr is the filter chain over the rendered body
  scope,      // generation block: body in a scope of its own
  break_,
  continue_,
};

// What can stand left of `=` or after `for`: a name, name.field, or a tuple of targets.
struct Target {
  std::string name;
  std::string field;
  std::vector<Target> parts;
  bool is_tuple = false;
};

struct MacroDef {
  struct Param {
    std::string name;
    ExprPtr fallback;  // null: none
  };
  std::string name;  // empty for a caller
  std::vector<Param> params;
  std::shared_ptr<const Block> body;
  bool uses_caller = false, uses_varargs = false, uses_kwargs = false;
};

struct Stmt {
  StmtKind kind;
  int line = 0;
  std::string text;
  ExprPtr expr;
  ExprPtr test;
  Target target;
  Block body;
  Block otherwise;
  struct Arm {
    ExprPtr test;  // null: else
    Block body;
  };
  std::vector<Arm> arms;
  std::vector<std::pair<Target, ExprPtr>> bindings;
  std::shared_ptr<const MacroDef> macro;
  bool recursive = false;
};

}  // namespace tokamak::jinja
