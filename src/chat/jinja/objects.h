// Objects with behaviour that templates meet: macros, bound methods, global functions, loops, cyclers, joiners.
#pragma once

#include "chat/jinja/interpreter.h"

namespace tokamak::jinja {

struct MacroObject final : Object {
  MacroObject(std::shared_ptr<const MacroDef> def, std::shared_ptr<Scope> scope)
      : macro(std::move(def)), outer(std::move(scope)) {}
  std::string_view type_name() const override { return "Macro"; }
  bool callable() const override { return true; }
  Result<std::optional<Value>> attribute(Interpreter& interpreter, std::string_view name) override;
  Result<Value> call(Interpreter& interpreter, CallArgs args) override;

  std::shared_ptr<const MacroDef> macro;
  std::shared_ptr<Scope> outer;
};

struct BoundMethod final : Object {
  BoundMethod(const BuiltinRow& row_, Value self_) : Object(self_.depth()), row(&row_), self(std::move(self_)) {}
  std::string_view type_name() const override { return "builtin_function_or_method"; }
  bool callable() const override { return true; }
  Result<Value> call(Interpreter& interpreter, CallArgs args) override;

  const BuiltinRow* row;
  Value self;
};

struct GlobalFunction final : Object {
  explicit GlobalFunction(const BuiltinRow& row_) : row(&row_) {}
  std::string_view type_name() const override { return "function"; }
  bool callable() const override { return true; }
  Result<Value> call(Interpreter& interpreter, CallArgs args) override;

  const BuiltinRow* row;
};

// The variable `loop`. Items are fetched one ahead at most, so a loop filter sees what the body has set.
class LoopObject final : public Object {
 public:
  LoopObject(const Stmt& stmt, std::shared_ptr<Scope> scope, const Value& items, int depth);
  std::string_view type_name() const override { return "LoopContext"; }
  bool callable() const override { return true; }
  void release() override { last_changed_.reset(); }
  Result<std::optional<Value>> attribute(Interpreter& interpreter, std::string_view name) override;
  Result<Value> call(Interpreter& interpreter, CallArgs args) override;

  // The next item, or nothing at the end.
  Result<std::optional<Value>> advance(Interpreter& interpreter);
  Value cycle(const List& values) const;
  Result<bool> changed(Interpreter& interpreter, List values);

 private:
  Result<std::optional<Value>> fetch(Interpreter& interpreter);
  Result<std::optional<Value>> peek(Interpreter& interpreter);
  Result<int64_t> length(Interpreter& interpreter);

  const Stmt& stmt_;
  std::weak_ptr<Scope> scope_;  // weak: the scope of the body holds this object
  Cursor source_;
  std::optional<int64_t> length_;  // once known
  int depth_;
  int64_t index0_ = -1;
  std::optional<Value> before_, current_;
  bool has_peeked_ = false;
  std::optional<Value> peeked_;
  std::vector<Value> fetched_;  // read ahead for loop.length
  size_t next_fetched_ = 0;
  std::optional<List> last_changed_;
};

struct LoopFunction final : Object {  // loop.cycle and loop.changed
  LoopFunction(Value loop_, bool is_cycle_) : Object(loop_.depth()), loop(std::move(loop_)), is_cycle(is_cycle_) {}
  std::string_view type_name() const override { return "method"; }
  bool callable() const override { return true; }
  Result<Value> call(Interpreter& interpreter, CallArgs args) override;

  Value loop;
  bool is_cycle;
};

struct Cycler final : Object {
  // The caller bounds the nesting of `all`, a list or tuple that is not empty.
  explicit Cycler(const Value& all) : Object(all.depth()), values(all.items()) {}
  std::string_view type_name() const override { return "Cycler"; }
  Result<std::optional<Value>> attribute(Interpreter& interpreter, std::string_view name) override;

  List values;  // not empty
  size_t at = 0;
};

struct CyclerFunction final : Object {  // cycler.next and cycler.reset
  CyclerFunction(std::shared_ptr<Cycler> cycler_, bool is_next_)
      : Object(cycler_->depth), cycler(std::move(cycler_)), is_next(is_next_) {}
  std::string_view type_name() const override { return "method"; }
  bool callable() const override { return true; }
  Result<Value> call(Interpreter& interpreter, CallArgs args) override;

  std::shared_ptr<Cycler> cycler;
  bool is_next;
};

struct Joiner final : Object {  // "" the first time, then the separator
  explicit Joiner(std::string separator_) : separator(std::move(separator_)) {}
  std::string_view type_name() const override { return "Joiner"; }
  bool callable() const override { return true; }
  Result<Value> call(Interpreter& interpreter, CallArgs args) override;

  std::string separator;
  bool used = false;
};

}  // namespace tokamak::jinja
