// Filters, tests, methods and globals: one table row each. The parser checks names and arguments against the rows when
// a template is loaded, so that a misspelt argument is found then and not by the first request that reaches it.
#pragma once

#include <span>

#include "chat/jinja/value.h"

namespace tokamak::jinja {

class Args;
using Builtin = Result<Value> (*)(Interpreter&, Args&);

struct BuiltinRow {
  std::string_view name;
  // Names of the parameters, blanks between them; "?" marks the ones that may be left out, a final "*" takes any
  // further arguments. The first parameter of a filter, test or method is the value it is applied to.
  std::string_view params;
  Builtin run;
};

struct MethodRow {
  Kind kind;
  BuiltinRow row;
};

const BuiltinRow* find_filter(std::string_view name);
const BuiltinRow* find_test(std::string_view name);
const BuiltinRow* find_global(std::string_view name);
const BuiltinRow* find_method(Kind kind, std::string_view name);
std::span<const BuiltinRow> test_table();
std::span<const BuiltinRow> global_table();
std::span<const MethodRow> method_table();
// Methods of Python's list and dict that change it: the sandbox of transformers refuses them, and so do we.
bool is_mutating_method(Kind kind, std::string_view name);

// Why arguments do not fit `params`, or an empty string. n_positional counts the subject.
std::string signature_mismatch(std::string_view params, size_t n_positional, std::span<const std::string> names,
                               bool complete);

// Arguments bound to the parameters of one row.
class Args {
 public:
  static Result<Args> bind(Interpreter& interpreter, const BuiltinRow& row, CallArgs args);

  bool given(size_t i) const { return i < slots_.size() && slots_[i].has_value(); }
  bool given_value(size_t i) const { return given(i) && !slots_[i]->is(Kind::none); }  // given and not None
  const Value& at(size_t i) const;
  const Value& subject() const { return at(0); }
  bool truth(size_t i, bool fallback) const { return given(i) ? at(i).truthy() : fallback; }
  // These fail when the argument is of another type.
  Result<int64_t> integer(size_t i, int64_t fallback) const;
  Result<std::string> text(size_t i, std::string_view fallback) const;
  Result<std::string> text(size_t i) const { return text(i, {}); }

  CallArgs rest;  // what "*" took

 private:
  Args(Interpreter& interpreter, const BuiltinRow& row) : interpreter_(&interpreter), row_(&row) {}
  Interpreter* interpreter_;
  const BuiltinRow* row_;
  std::vector<std::optional<Value>> slots_;
};

}  // namespace tokamak::jinja
