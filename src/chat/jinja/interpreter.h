// Runs a parsed template. One Interpreter per rendering; not shared between threads.
#pragma once

#include <ctime>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "chat/jinja/ast.h"
#include "chat/jinja/value.h"

namespace tokamak::jinja {

// What one rendering may use. Templates come with model files, so each bound holds against a hostile one.
struct RenderLimits {
  size_t max_output_bytes = 16u << 20;
  size_t max_value_bytes = 512u << 20;  // sum over all values created, freed ones included
  int64_t max_steps = 10'000'000;       // statements and expressions run, items iterated
  int max_depth = 600;                  // nested blocks, expressions and macro calls; at most about 4 MB of stack
};

using Variables = std::vector<std::pair<std::string, Value>>;

// A block's variables. Assignments go to the innermost scope, look-ups walk outwards.
struct Scope {
  explicit Scope(std::shared_ptr<Scope> outer_) : outer(std::move(outer_)), depth(outer ? outer->depth + 1 : 1) {}

  std::shared_ptr<Scope> outer;
  int depth;  // length of the chain of scopes
  Variables variables;
  bool is_captured = false;  // by a macro; freed by the interpreter, which breaks the cycle

  // n_scanned grows by the number of variables looked at.
  const Value* find(std::string_view name, size_t& n_scanned) const;
  void set(std::string_view name, Value value);
};

class Interpreter {
 public:
  // `clock` is the local time that strftime_now sees.
  Interpreter(const RenderLimits& limits, std::function<std::tm()> clock);
  ~Interpreter();
  Interpreter(const Interpreter&) = delete;
  Interpreter& operator=(const Interpreter&) = delete;

  Result<std::string> render(const Block& body, Variables variables);

  // For the builtins. Every value a template makes is charged to the limits first.
  Result<Value> text(std::string text);
  Result<Value> list(List items);
  Result<Value> tuple(List items, bool is_group = false);
  Result<Value> iterator(List items);
  Result<Value> dict(Dict dict);
  Result<Value> texts(std::vector<std::string> parts);  // a list of strings
  Result<void> charge(size_t n_bytes);
  Result<void> charge_product(size_t count, size_t each);  // n_bytes = count * each, checked
  Result<void> step();
  // Long strings cost steps where they are read: one per 256 bytes.
  void note_read(const Value& value) {
    if (value.is_string()) steps_ += static_cast<int64_t>(value.text().size() / 256);
  }
  // For objects that can be made to refer to themselves: see Object::release.
  void keep(std::shared_ptr<Object> object) { kept_.push_back(std::move(object)); }
  std::tm now() const { return clock_(); }
  Error fail(std::string what) const;

  Result<Cursor> iterate(const Value& value) const;
  Result<List> to_list(const Value& value);
  Result<Value> call(const Value& callee, CallArgs args);
  Result<Value> filter(std::string_view name, CallArgs args);  // by name, for map
  Result<Value> test(std::string_view name, CallArgs args);    // by name, for select
  Result<Value> run_row(const BuiltinRow& row, CallArgs args);

  // What Python's getattr finds on the value itself: methods and fields, but no dict keys.
  Result<std::optional<Value>> python_attribute(const Value& value, std::string_view name);
  Result<Value> attribute_of(const Value& value, std::string_view name);  // value.name
  Result<Value> item_of(const Value& value, const Value& key);            // value[key]
  Result<Value> slice_of(const Value& value, const Value& start, const Value& stop, const Value& step);
  Result<Value> binary(Op op, const Value& a, const Value& b);
  Result<Value> negate(const Value& a);
  Result<bool> compare(Op op, const Value& a, const Value& b);
  Result<bool> equals(const Value& a, const Value& b);
  Result<bool> less(const Value& a, const Value& b);
  Result<bool> contains(const Value& container, const Value& item);

  Result<std::string> str(const Value& value);   // Python's str()
  Result<std::string> repr(const Value& value);  // Python's repr()

  Result<Value> call_macro(const std::shared_ptr<const MacroDef>& macro, const std::shared_ptr<Scope>& scope,
                           CallArgs args);
  // A recursive loop calling itself with `items`; returns the rendered text.
  Result<Value> run_loop_again(const Stmt& loop, const std::shared_ptr<Scope>& scope, const Value& items, int depth);
  Result<bool> loop_accepts(const Stmt& loop, const std::shared_ptr<Scope>& scope, const Value& item);

 private:
  enum class Flow : uint8_t { next, break_, continue_ };
  class Deeper;
  friend class Deeper;

  // exec.cpp
  Result<Flow> run(const Block& block);
  Result<Flow> run(const Stmt& stmt);
  Result<Flow> run_branch(const Stmt& stmt);
  Result<Flow> run_loop(const Stmt& stmt, const Value& items, int depth);
  Result<Flow> run_loop_body(const Stmt& stmt, const std::shared_ptr<Object>& loop, const Value& item);
  Result<void> run_set_block(const Stmt& stmt, Flow& flow);
  Result<Flow> run_with(const Stmt& stmt);
  Result<Flow> run_filter_block(const Stmt& stmt);
  Result<Flow> run_in_scope(const Block& block, std::shared_ptr<Scope> scope);
  Result<std::string> capture(const Block& block, std::shared_ptr<Scope> scope, Flow& flow);
  Result<void> run_call_block(const Stmt& stmt);
  Result<void> assign(const Target& target, const Value& value);
  Result<void> print(const Value& value);
  Result<void> emit(std::string_view text);
  Value make_macro(std::shared_ptr<const MacroDef> macro);
  Result<void> bind_macro(const MacroDef& macro, Scope& scope, CallArgs args);

  // eval.cpp
  Result<Value> eval(const Expr& expr);
  Result<Value> eval_kind(const Expr& expr);
  const Value* find_variable(std::string_view name);
  Result<Value> eval_name(const Expr& expr);
  Result<Value> eval_sequence(const Expr& expr);
  Result<Value> eval_dict(const Expr& expr);
  Result<Value> eval_unary(const Expr& expr);
  Result<Value> eval_logic(const Expr& expr);
  Result<Value> eval_compare(const Expr& expr);
  Result<Value> eval_concat(const Expr& expr);
  Result<Value> eval_choose(const Expr& expr);
  Result<Value> eval_item(const Expr& expr);
  Result<Value> eval_call(const Expr& expr);
  Result<Value> apply_filters(const Expr& chain, Value subject);
  Result<Value> eval_row(const Expr& expr, CallArgs args);
  Result<CallArgs> eval_args(const std::vector<Argument>& args, CallArgs out);
  Result<void> spread_argument(const Argument& argument, CallArgs& out);

  Result<Value> arithmetic(Op op, const Value& a, const Value& b);
  Result<Value> integer_arithmetic(Op op, int64_t a, int64_t b);
  Result<Value> repeat(const Value& sequence, int64_t count);
  Result<Value> add(const Value& a, const Value& b);
  Error operand_error(std::string_view symbol, const Value& a, const Value& b) const;
  Result<void> append_repr(std::string& out, const Value& value, int depth);
  Result<void> append_items(std::string& out, const List& items, int depth);

  const RenderLimits limits_;
  std::function<std::tm()> clock_;
  int line_ = 0;  // of what runs now, for errors
  int depth_ = 0;
  int64_t steps_ = 0;
  size_t value_bytes_ = 0;
  size_t output_bytes_ = 0;
  std::string* out_ = nullptr;
  std::shared_ptr<Scope> scope_;
  std::vector<std::shared_ptr<Object>> kept_;
  std::vector<std::shared_ptr<Scope>> captured_;
};

// Counts one level of nesting; `check` fails beyond the limit.
class Interpreter::Deeper {
 public:
  explicit Deeper(Interpreter& interpreter) : interpreter_(interpreter) { ++interpreter_.depth_; }
  ~Deeper() { --interpreter_.depth_; }
  Deeper(const Deeper&) = delete;
  Result<void> check() const;

 private:
  Interpreter& interpreter_;
};

// str() of a float, as Python prints it: the shortest digits that read back equal.
std::string float_repr(double value);
// json.dumps(value). Errors: a value JSON cannot hold.
struct JsonStyle {
  bool ensure_ascii = false;
  bool sort_keys = false;
  bool has_indent = false;
  std::string indent;
  std::string item_separator = ", ";
  std::string key_separator = ": ";
};
Result<std::string> to_json(Interpreter& interpreter, const Value& value, const JsonStyle& style);
// "format" % values.
Result<std::string> percent_format(Interpreter& interpreter, std::string_view format, const Value& values);
// "format".format(args).
Result<std::string> brace_format(Interpreter& interpreter, std::string_view format, const CallArgs& args);

}  // namespace tokamak::jinja
