// Expressions.
#include <algorithm>

#include "chat/jinja/interpreter.h"
#include "chat/jinja/objects.h"

namespace tokamak::jinja {

namespace {
constexpr size_t kScannedPerStep = 16;  // variables looked at for the price of one step
}

Result<void> Interpreter::step() {
  if (++steps_ > limits_.max_steps)
    return fail("template runs for more than " + std::to_string(limits_.max_steps) + " steps");
  return {};
}

Result<void> Interpreter::charge(size_t n_bytes) {
  if (n_bytes > limits_.max_value_bytes - std::min(value_bytes_, limits_.max_value_bytes))
    return fail("template needs more than " + std::to_string(limits_.max_value_bytes) + " bytes for its values");
  value_bytes_ += n_bytes;
  return {};
}

Result<void> Interpreter::charge_product(size_t count, size_t each) {
  if (count != 0 && each > SIZE_MAX / count) return charge(SIZE_MAX);
  return charge(count * each);
}

Result<Value> Interpreter::text(std::string text) {
  TRY(charge(text.size() + sizeof(Value)));
  return Value(std::move(text));
}

namespace {
uint32_t deepest(const List& items) {
  uint32_t depth = 0;
  for (const Value& item : items) depth = std::max(depth, item.depth());
  return depth;
}
}  // namespace

Result<Value> Interpreter::list(List items) {
  TRY(charge_product(items.size() + 1, sizeof(Value)));
  if (deepest(items) >= kMaxValueDepth) return fail("values are nested too deeply");
  return Value::list(std::move(items));
}

Result<Value> Interpreter::tuple(List items, bool is_group) {
  TRY(charge_product(items.size() + 1, sizeof(Value)));
  if (deepest(items) >= kMaxValueDepth) return fail("values are nested too deeply");
  return Value::tuple(std::move(items), is_group);
}

Result<Value> Interpreter::iterator(List items) {
  TRY(charge_product(items.size() + 1, sizeof(Value)));
  if (deepest(items) >= kMaxValueDepth) return fail("values are nested too deeply");
  return Value::iterator(std::move(items));
}

Result<Value> Interpreter::dict(Dict dict) {
  TRY(charge_product(dict.items.size() + 1, 2 * sizeof(Value)));
  for (const auto& [key, value] : dict.items)
    if (std::max(key.depth(), value.depth()) >= kMaxValueDepth) return fail("values are nested too deeply");
  return Value::dict(std::move(dict));
}

Result<Value> Interpreter::texts(std::vector<std::string> parts) {
  List items;
  items.reserve(parts.size());
  for (std::string& part : parts) items.push_back(TRY(text(std::move(part))));
  return list(std::move(items));
}

Result<Cursor> Interpreter::iterate(const Value& value) const {
  if (!Cursor::accepts(value)) return fail("'" + std::string(value.type_name()) + "' object is not iterable");
  return Cursor(value);
}

Result<List> Interpreter::to_list(const Value& value) {
  Cursor cursor = TRY(iterate(value));
  List items;
  while (auto item = cursor.next()) {
    TRY(step());
    TRY(charge(sizeof(Value)));
    items.push_back(std::move(*item));
  }
  return items;
}

Result<Value> Interpreter::eval(const Expr& expr) {
  const Deeper deeper(*this);
  TRY(deeper.check());
  TRY(step());
  line_ = expr.line;
  return eval_kind(expr);
}

Result<Value> Interpreter::eval_kind(const Expr& expr) {
  switch (expr.kind) {
    case ExprKind::constant:
      return expr.value;
    case ExprKind::name:
      return eval_name(expr);
    case ExprKind::list:
    case ExprKind::tuple:
      return eval_sequence(expr);
    case ExprKind::dict:
      return eval_dict(expr);
    case ExprKind::unary:
      return eval_unary(expr);
    case ExprKind::binary: {
      const Value a = TRY(eval(*expr.kids[0]));
      return binary(expr.op, a, TRY(eval(*expr.kids[1])));
    }
    case ExprKind::logic:
      return eval_logic(expr);
    case ExprKind::compare:
      return eval_compare(expr);
    case ExprKind::concat:
      return eval_concat(expr);
    case ExprKind::choose:
      return eval_choose(expr);
    case ExprKind::attribute:
      return attribute_of(TRY(eval(*expr.kids[0])), expr.name);
    case ExprKind::item:
      return eval_item(expr);
    case ExprKind::call:
      return eval_call(expr);
    case ExprKind::filter:
    case ExprKind::test:
      return eval_row(expr, CallArgs{{TRY(eval(*expr.kids[0]))}, {}});
    case ExprKind::slice:
      break;  // only inside item
  }
  return fail("slice outside of an index");
}

const Value* Interpreter::find_variable(std::string_view name) {
  size_t n_scanned = 0;
  const Value* value = scope_->find(name, n_scanned);
  steps_ += static_cast<int64_t>(n_scanned / kScannedPerStep);
  return value;
}

Result<Value> Interpreter::eval_name(const Expr& expr) {
  if (const Value* value = find_variable(expr.name)) return *value;
  if (const BuiltinRow* row = find_global(expr.name)) return Value::object(std::make_shared<GlobalFunction>(*row));
  return Value::undefined("'" + expr.name + "' is undefined");
}

Result<Value> Interpreter::eval_sequence(const Expr& expr) {
  List items;
  items.reserve(expr.kids.size());
  for (const ExprPtr& kid : expr.kids) items.push_back(TRY(eval(*kid)));
  return expr.kind == ExprKind::list ? list(std::move(items)) : tuple(std::move(items));
}

Result<Value> Interpreter::eval_dict(const Expr& expr) {
  Dict items;
  for (size_t i = 0; i < expr.kids.size(); i += 2) {
    Value key = TRY(eval(*expr.kids[i]));
    if (!is_hashable(key)) return fail("unhashable type: '" + std::string(key.type_name()) + "'");
    items.set(std::move(key), TRY(eval(*expr.kids[i + 1])));
  }
  return dict(std::move(items));
}

Result<Value> Interpreter::eval_unary(const Expr& expr) {
  const Value value = TRY(eval(*expr.kids[0]));
  if (expr.op == Op::not_) return Value(!value.truthy());
  if (expr.op == Op::negate) return negate(value);
  if (value.is(Kind::undefined)) return fail(std::string(value.undefined_message()));
  if (!value.is_number()) return fail("bad operand type for unary +: '" + std::string(value.type_name()) + "'");
  return value.is(Kind::boolean) ? Value(value.as_int()) : value;
}

Result<Value> Interpreter::eval_logic(const Expr& expr) {
  Value left = TRY(eval(*expr.kids[0]));
  if (left.truthy() == (expr.op == Op::or_)) return left;
  return eval(*expr.kids[1]);
}

Result<Value> Interpreter::eval_compare(const Expr& expr) {
  Value left = TRY(eval(*expr.kids[0]));
  for (size_t i = 0; i < expr.ops.size(); ++i) {
    Value right = TRY(eval(*expr.kids[i + 1]));
    if (!TRY(compare(expr.ops[i], left, right))) return Value(false);
    left = std::move(right);
  }
  return Value(true);
}

Result<Value> Interpreter::eval_concat(const Expr& expr) {
  std::string out;
  for (const ExprPtr& kid : expr.kids) {
    const Value part = TRY(eval(*kid));
    if (part.is_string())
      out += part.text();
    else
      out += TRY(str(part));
    if (out.size() > limits_.max_value_bytes) return fail("string is too long");
  }
  return text(std::move(out));
}

Result<Value> Interpreter::eval_choose(const Expr& expr) {
  if (TRY(eval(*expr.kids[1])).truthy()) return eval(*expr.kids[0]);
  if (expr.kids[2]) return eval(*expr.kids[2]);
  return Value::undefined("the inline if-expression on line " + std::to_string(expr.line) +
                          " evaluated to false and no else section was defined.");
}

Result<Value> Interpreter::eval_item(const Expr& expr) {
  const Value value = TRY(eval(*expr.kids[0]));
  const Expr& key = *expr.kids[1];
  if (key.kind != ExprKind::slice) return item_of(value, TRY(eval(key)));
  Value bounds[3];
  for (size_t i = 0; i < 3; ++i) bounds[i] = key.kids[i] ? TRY(eval(*key.kids[i])) : Value::none();
  return slice_of(value, bounds[0], bounds[1], bounds[2]);
}

Result<void> Interpreter::spread_argument(const Argument& argument, CallArgs& out) {
  const Value value = TRY(eval(*argument.value));
  if (argument.form == Argument::Form::spread) {
    for (Value& item : TRY(to_list(value))) out.positional.push_back(std::move(item));
    return {};
  }
  if (!value.is(Kind::dict)) return fail("argument after ** must be a mapping, not " + std::string(value.type_name()));
  for (const auto& [key, item] : value.dict().items) {
    if (!key.is_string()) return fail("keywords must be strings");
    out.named.emplace_back(key.text(), item);
  }
  return {};
}

Result<CallArgs> Interpreter::eval_args(const std::vector<Argument>& args, CallArgs out) {
  for (const Argument& argument : args) {
    switch (argument.form) {
      case Argument::Form::positional:
        out.positional.push_back(TRY(eval(*argument.value)));
        break;
      case Argument::Form::named:
        out.named.emplace_back(argument.name, TRY(eval(*argument.value)));
        break;
      default:
        TRY(spread_argument(argument, out));
    }
  }
  return out;
}

Result<Value> Interpreter::eval_call(const Expr& expr) {
  const Value callee = TRY(eval(*expr.kids[0]));
  CallArgs args = TRY(eval_args(expr.args, {}));
  line_ = expr.line;
  return call(callee, std::move(args));
}

// The filters of a filter block or block set, applied to the rendered body.
Result<Value> Interpreter::apply_filters(const Expr& chain, Value subject) {
  if (chain.kids[0]) subject = TRY(apply_filters(*chain.kids[0], std::move(subject)));
  return eval_row(chain, CallArgs{{std::move(subject)}, {}});
}

// args already holds the subject.
Result<Value> Interpreter::eval_row(const Expr& expr, CallArgs args) {
  args = TRY(eval_args(expr.args, std::move(args)));
  line_ = expr.line;
  if (expr.row == nullptr)
    return fail("there is no " + std::string(expr.kind == ExprKind::filter ? "filter" : "test") + " '" + expr.name +
                "'");
  return run_row(*expr.row, std::move(args));
}

Result<Value> Interpreter::run_row(const BuiltinRow& row, CallArgs args) {
  for (const Value& arg : args.positional) note_read(arg);
  TRY(step());
  Args bound = TRY(Args::bind(*this, row, std::move(args)));
  return row.run(*this, bound);
}

Result<Value> Interpreter::call(const Value& callee, CallArgs args) {
  const Deeper deeper(*this);
  TRY(deeper.check());
  TRY(step());
  if (callee.is(Kind::undefined)) return fail(std::string(callee.undefined_message()));
  if (!callee.is(Kind::object) || !callee.object().callable())
    return fail("'" + std::string(callee.type_name()) + "' object is not callable");
  return callee.object().call(*this, std::move(args));
}

Result<Value> Interpreter::filter(std::string_view name, CallArgs args) {
  const BuiltinRow* row = find_filter(name);
  if (row == nullptr) return fail("there is no filter '" + std::string(name) + "'");
  const Deeper deeper(*this);
  TRY(deeper.check());
  return run_row(*row, std::move(args));
}

Result<Value> Interpreter::test(std::string_view name, CallArgs args) {
  const BuiltinRow* row = find_test(name);
  if (row == nullptr) return fail("there is no test '" + std::string(name) + "'");
  const Deeper deeper(*this);
  TRY(deeper.check());
  return run_row(*row, std::move(args));
}

}  // namespace tokamak::jinja
