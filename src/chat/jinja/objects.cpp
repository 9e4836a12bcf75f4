#include "chat/jinja/objects.h"

namespace tokamak::jinja {

Result<std::optional<Value>> MacroObject::attribute(Interpreter&, std::string_view name) {
  if (name == "name") return std::optional<Value>(Value(macro->name));
  if (name != "arguments") return std::optional<Value>();
  List names;
  for (const MacroDef::Param& param : macro->params) names.push_back(Value(param.name));
  return std::optional<Value>(Value::tuple(std::move(names)));
}

Result<Value> MacroObject::call(Interpreter& interpreter, CallArgs args) {
  return interpreter.call_macro(macro, outer, std::move(args));
}

Result<Value> BoundMethod::call(Interpreter& interpreter, CallArgs args) {
  args.positional.insert(args.positional.begin(), self);
  return interpreter.run_row(*row, std::move(args));
}

Result<Value> GlobalFunction::call(Interpreter& interpreter, CallArgs args) {
  return interpreter.run_row(*row, std::move(args));
}

LoopObject::LoopObject(const Stmt& stmt, std::shared_ptr<Scope> scope, const Value& items, int depth_in)
    : Object(items.depth() + 1), stmt_(stmt), scope_(scope), source_(items), depth_(depth_in) {
  if (stmt.test || items.is(Kind::iterator)) return;  // the length shows only after running through
  switch (items.kind()) {
    case Kind::list:
    case Kind::tuple:
      length_ = static_cast<int64_t>(items.items().size());
      break;
    case Kind::dict:
      length_ = static_cast<int64_t>(items.dict().items.size());
      break;
    case Kind::range:
      length_ = items.range().size();
      break;
    default:
      break;
  }
}

Result<std::optional<Value>> LoopObject::fetch(Interpreter& interpreter) {
  if (next_fetched_ < fetched_.size()) return std::optional<Value>(fetched_[next_fetched_++]);
  const std::shared_ptr<Scope> scope = scope_.lock();
  while (auto item = source_.next()) {
    if (!stmt_.test) return item;
    if (!scope) return interpreter.fail("the loop has ended");
    if (TRY(interpreter.loop_accepts(stmt_, scope, *item))) return item;
  }
  return std::optional<Value>();
}

Result<std::optional<Value>> LoopObject::peek(Interpreter& interpreter) {
  if (!has_peeked_) peeked_ = TRY(fetch(interpreter));
  has_peeked_ = true;
  return peeked_;
}

Result<std::optional<Value>> LoopObject::advance(Interpreter& interpreter) {
  std::optional<Value> item = TRY(peek(interpreter));
  has_peeked_ = false;
  peeked_.reset();
  ++index0_;
  before_ = std::move(current_);
  current_ = item;
  return item;
}

Result<int64_t> LoopObject::length(Interpreter& interpreter) {
  if (length_) return *length_;
  std::vector<Value> ahead;
  while (auto item = TRY(fetch(interpreter))) {
    TRY(interpreter.step());
    TRY(interpreter.charge(sizeof(Value)));
    ahead.push_back(std::move(*item));
  }
  fetched_ = std::move(ahead);
  next_fetched_ = 0;
  length_ = static_cast<int64_t>(fetched_.size()) + index0_ + 1 + (has_peeked_ && peeked_ ? 1 : 0);
  return *length_;
}

Result<std::optional<Value>> LoopObject::attribute(Interpreter& interpreter, std::string_view name) {
  const auto number = [](int64_t i) { return std::optional<Value>(Value(i)); };
  if (name == "index") return number(index0_ + 1);
  if (name == "index0") return number(index0_);
  if (name == "first") return std::optional<Value>(Value(index0_ == 0));
  if (name == "last") return std::optional<Value>(Value(!TRY(peek(interpreter)).has_value()));
  if (name == "length") return number(TRY(length(interpreter)));
  if (name == "revindex") return number(TRY(length(interpreter)) - index0_);
  if (name == "revindex0") return number(TRY(length(interpreter)) - index0_ - 1);
  if (name == "depth") return number(depth_);
  if (name == "depth0") return number(depth_ - 1);
  if (name == "previtem")
    return std::optional<Value>(before_ && index0_ > 0 ? *before_ : Value::undefined("there is no previous item"));
  if (name == "nextitem") {
    auto next = TRY(peek(interpreter));
    return std::optional<Value>(next ? *next : Value::undefined("there is no next item"));
  }
  if (name == "cycle" || name == "changed")
    return std::optional<Value>(
        Value::object(std::make_shared<LoopFunction>(Value::object(shared_from_this()), name == "cycle")));
  return std::optional<Value>();
}

Result<Value> LoopObject::call(Interpreter& interpreter, CallArgs args) {
  if (!stmt_.recursive) return interpreter.fail("the loop must have the 'recursive' marker to be called recursively");
  if (args.positional.size() != 1 || !args.named.empty()) return interpreter.fail("loop() takes one argument");
  const std::shared_ptr<Scope> scope = scope_.lock();
  if (!scope) return interpreter.fail("the loop has ended");
  return interpreter.run_loop_again(stmt_, scope, args.positional[0], depth_ + 1);
}

Value LoopObject::cycle(const List& values) const { return values[static_cast<size_t>(index0_) % values.size()]; }

Result<bool> LoopObject::changed(Interpreter& interpreter, List values) {
  bool same = last_changed_.has_value() && last_changed_->size() == values.size();
  for (size_t i = 0; same && i < values.size(); ++i) same = TRY(interpreter.equals((*last_changed_)[i], values[i]));
  if (same) return false;
  if (!last_changed_) interpreter.keep(shared_from_this());
  last_changed_ = std::move(values);
  return true;
}

Result<Value> LoopFunction::call(Interpreter& interpreter, CallArgs args) {
  auto& target = static_cast<LoopObject&>(loop.object());  // made by LoopObject::attribute only
  if (!args.named.empty()) return interpreter.fail("loop functions take no keyword arguments");
  if (!is_cycle) return Value(TRY(target.changed(interpreter, std::move(args.positional))));
  if (args.positional.empty()) return interpreter.fail("no items for cycling given");
  return target.cycle(args.positional);
}

Result<std::optional<Value>> Cycler::attribute(Interpreter&, std::string_view name) {
  if (name == "current") return std::optional<Value>(values[at]);
  if (name == "items") return std::optional<Value>(Value::tuple(values));
  if (name != "next" && name != "reset") return std::optional<Value>();
  auto self = std::static_pointer_cast<Cycler>(shared_from_this());
  return std::optional<Value>(Value::object(std::make_shared<CyclerFunction>(std::move(self), name == "next")));
}

Result<Value> CyclerFunction::call(Interpreter& interpreter, CallArgs args) {
  if (!args.positional.empty() || !args.named.empty()) return interpreter.fail("cycler functions take no arguments");
  if (!is_next) {
    cycler->at = 0;
    return Value::none();
  }
  Value value = cycler->values[cycler->at];
  cycler->at = (cycler->at + 1) % cycler->values.size();
  return value;
}

Result<Value> Joiner::call(Interpreter& interpreter, CallArgs args) {
  if (!args.positional.empty() || !args.named.empty()) return interpreter.fail("a joiner takes no arguments");
  if (used) return interpreter.text(separator);
  used = true;
  return Value("");
}

}  // namespace tokamak::jinja
