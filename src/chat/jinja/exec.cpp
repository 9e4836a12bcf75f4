// Statements.
#include <algorithm>

#include "chat/jinja/interpreter.h"
#include "chat/jinja/lexer.h"
#include "chat/jinja/objects.h"

namespace tokamak::jinja {

namespace {
constexpr size_t kScopeBytes = 256;  // charged for each scope that a macro keeps alive
}

const Value* Scope::find(std::string_view name, size_t& n_scanned) const {
  for (const Scope* scope = this; scope != nullptr; scope = scope->outer.get()) {
    n_scanned += scope->variables.size() + 1;
    for (const auto& [key, value] : scope->variables)
      if (key == name) return &value;
  }
  return nullptr;
}

void Scope::set(std::string_view name, Value value) {
  for (auto& [key, present] : variables) {
    if (key != name) continue;
    present = std::move(value);
    return;
  }
  variables.emplace_back(name, std::move(value));
}

Interpreter::Interpreter(const RenderLimits& limits, std::function<std::tm()> clock)
    : limits_(limits), clock_(std::move(clock)) {}

Interpreter::~Interpreter() {
  // Namespaces and captured scopes may refer to each other in cycles.
  // Everything on a cycle is still held here, so nothing is freed recursively.
  for (const auto& object : kept_) object->release();
  for (const auto& scope : captured_) {
    scope->variables.clear();
    scope->outer.reset();
  }
}

Result<void> Interpreter::Deeper::check() const {
  if (interpreter_.depth_ > interpreter_.limits_.max_depth)
    return interpreter_.fail("maximum recursion depth exceeded");
  return {};
}

Error Interpreter::fail(std::string what) const { return template_error(line_, std::move(what)); }

Result<std::string> Interpreter::render(const Block& body, Variables variables) {
  std::string out;
  out_ = &out;
  scope_ = std::make_shared<Scope>(nullptr);
  scope_->variables = std::move(variables);
  TRY(run(body));
  out_ = nullptr;
  return out;
}

Result<void> Interpreter::emit(std::string_view text) {
  if (text.size() > limits_.max_output_bytes - std::min(out_->size(), limits_.max_output_bytes))
    return fail("output is longer than " + std::to_string(limits_.max_output_bytes) + " bytes");
  output_bytes_ += text.size();
  if (output_bytes_ > limits_.max_value_bytes) return fail("template uses too much memory");
  out_->append(text);
  return {};
}

Result<void> Interpreter::print(const Value& value) {
  if (value.is_string()) return emit(value.text());
  return emit(TRY(str(value)));
}

Result<Interpreter::Flow> Interpreter::run(const Block& block) {
  const Deeper deeper(*this);
  TRY(deeper.check());
  for (const Stmt& stmt : block) {
    const Flow flow = TRY(run(stmt));
    if (flow != Flow::next) return flow;
  }
  return Flow::next;
}

Result<Interpreter::Flow> Interpreter::run(const Stmt& stmt) {
  line_ = stmt.line;
  TRY(step());
  Flow flow = Flow::next;
  switch (stmt.kind) {
    case StmtKind::text:
      TRY(emit(stmt.text));
      break;
    case StmtKind::print:
      TRY(print(TRY(eval(*stmt.expr))));
      break;
    case StmtKind::branch:
      return run_branch(stmt);
    case StmtKind::loop:
      return run_loop(stmt, TRY(eval(*stmt.expr)), 1);
    case StmtKind::set:
      TRY(assign(stmt.target, TRY(eval(*stmt.expr))));
      break;
    case StmtKind::set_block:
      TRY(run_set_block(stmt, flow));
      break;
    case StmtKind::with:
      return run_with(stmt);
    case StmtKind::macro:
      scope_->set(stmt.macro->name, make_macro(stmt.macro));
      break;
    case StmtKind::call:
      TRY(run_call_block(stmt));
      break;
    case StmtKind::filter:
      return run_filter_block(stmt);
    case StmtKind::scope:
      return run_in_scope(stmt.body, std::make_shared<Scope>(scope_));
    case StmtKind::break_:
      return Flow::break_;
    case StmtKind::continue_:
      return Flow::continue_;
  }
  return flow;
}

Result<Interpreter::Flow> Interpreter::run_branch(const Stmt& stmt) {
  for (const Stmt::Arm& arm : stmt.arms)
    if (!arm.test || TRY(eval(*arm.test)).truthy()) return run(arm.body);
  return Flow::next;
}

Result<Interpreter::Flow> Interpreter::run_in_scope(const Block& block, std::shared_ptr<Scope> scope) {
  std::swap(scope_, scope);
  auto flow = run(block);
  std::swap(scope_, scope);
  return flow;
}

Result<std::string> Interpreter::capture(const Block& block, std::shared_ptr<Scope> scope, Flow& flow) {
  std::string text;
  std::string* const outer = std::exchange(out_, &text);
  auto result = run_in_scope(block, std::move(scope));
  out_ = outer;
  flow = TRY(std::move(result));
  return text;
}

Result<Interpreter::Flow> Interpreter::run_loop(const Stmt& stmt, const Value& items, int depth) {
  line_ = stmt.line;
  if (!Cursor::accepts(items)) return fail("'" + std::string(items.type_name()) + "' object is not iterable");
  if (items.depth() >= kMaxValueDepth) return fail("values are nested too deeply");
  const auto loop = std::make_shared<LoopObject>(stmt, scope_, items, depth);
  bool any = false;
  for (;;) {
    const auto item = TRY(loop->advance(*this));
    if (!item) break;
    any = true;
    TRY(step());
    if (TRY(run_loop_body(stmt, loop, *item)) == Flow::break_) return Flow::next;
  }
  if (any) return Flow::next;
  return run_in_scope(stmt.otherwise, std::make_shared<Scope>(scope_));
}

Result<Interpreter::Flow> Interpreter::run_loop_body(const Stmt& stmt, const std::shared_ptr<Object>& loop,
                                                     const Value& item) {
  auto scope = std::make_shared<Scope>(scope_);
  scope->set("loop", Value::object(loop));
  const std::shared_ptr<Scope> outer = std::exchange(scope_, std::move(scope));
  auto result = [&]() -> Result<Flow> {
    TRY(assign(stmt.target, item));
    return run(stmt.body);
  }();
  scope_ = outer;
  return result;
}

Result<bool> Interpreter::loop_accepts(const Stmt& loop, const std::shared_ptr<Scope>& scope, const Value& item) {
  if (!loop.test) return true;
  const std::shared_ptr<Scope> outer = std::exchange(scope_, std::make_shared<Scope>(scope));
  auto result = [&]() -> Result<bool> {
    TRY(step());
    TRY(assign(loop.target, item));
    return TRY(eval(*loop.test)).truthy();
  }();
  scope_ = outer;
  return result;
}

Result<Value> Interpreter::run_loop_again(const Stmt& loop, const std::shared_ptr<Scope>& scope, const Value& items,
                                          int depth) {
  const Deeper deeper(*this);
  TRY(deeper.check());
  std::string buffer;
  std::string* const outer_out = std::exchange(out_, &buffer);
  const std::shared_ptr<Scope> outer_scope = std::exchange(scope_, scope);
  auto result = run_loop(loop, items, depth);
  out_ = outer_out;
  scope_ = outer_scope;
  TRY(std::move(result));
  return text(std::move(buffer));
}

Result<void> Interpreter::run_set_block(const Stmt& stmt, Flow& flow) {
  std::string body = TRY(capture(stmt.body, std::make_shared<Scope>(scope_), flow));
  if (flow != Flow::next) return {};
  Value value = TRY(text(std::move(body)));
  if (stmt.expr) value = TRY(apply_filters(*stmt.expr, std::move(value)));
  return assign(stmt.target, value);
}

Result<Interpreter::Flow> Interpreter::run_filter_block(const Stmt& stmt) {
  Flow flow = Flow::next;
  std::string body = TRY(capture(stmt.body, std::make_shared<Scope>(scope_), flow));
  if (flow != Flow::next) return flow;
  Value value = TRY(text(std::move(body)));
  TRY(print(TRY(apply_filters(*stmt.expr, std::move(value)))));
  return flow;
}

Result<Interpreter::Flow> Interpreter::run_with(const Stmt& stmt) {
  auto scope = std::make_shared<Scope>(scope_);
  for (const auto& [target, expr] : stmt.bindings) {
    const Value value = TRY(eval(*expr));  // sees the variables outside
    std::swap(scope_, scope);
    auto assigned = assign(target, value);
    std::swap(scope_, scope);
    TRY(std::move(assigned));
  }
  return run_in_scope(stmt.body, std::move(scope));
}

Result<void> Interpreter::assign(const Target& target, const Value& value) {
  if (target.is_tuple) {
    if (!Cursor::accepts(value))
      return fail("cannot unpack non-iterable " + std::string(value.type_name()) + " object");
    const List parts = TRY(to_list(value));
    const size_t want = target.parts.size();
    if (parts.size() < want)
      return fail("not enough values to unpack (expected " + std::to_string(want) + ", got " +
                  std::to_string(parts.size()) + ")");
    if (parts.size() > want) return fail("too many values to unpack (expected " + std::to_string(want) + ")");
    for (size_t i = 0; i < want; ++i) TRY(assign(target.parts[i], parts[i]));
    return {};
  }
  if (target.field.empty()) {
    scope_->set(target.name, value);
    return {};
  }
  const Value* holder = find_variable(target.name);
  auto* space = holder != nullptr && holder->is(Kind::object) ? dynamic_cast<Namespace*>(&holder->object()) : nullptr;
  if (space == nullptr) return fail("cannot assign attribute on non-namespace object '" + target.name + "'");
  if (target.field.starts_with('_')) return fail("namespace attributes cannot begin with an underscore");
  TRY(charge(sizeof(Value) + target.field.size()));
  space->set(target.field, value);
  return {};
}

Value Interpreter::make_macro(std::shared_ptr<const MacroDef> macro) {
  if (!scope_->is_captured) {
    scope_->is_captured = true;
    captured_.push_back(scope_);
  }
  value_bytes_ += kScopeBytes;
  return Value::object(std::make_shared<MacroObject>(std::move(macro), scope_));
}

Result<void> Interpreter::run_call_block(const Stmt& stmt) {
  const Expr& call_expr = *stmt.expr;
  const Value callee = TRY(eval(*call_expr.kids[0]));
  CallArgs args = TRY(eval_args(call_expr.args, {}));
  args.named.emplace_back("caller", make_macro(stmt.macro));
  return print(TRY(call(callee, std::move(args))));
}

Result<void> Interpreter::bind_macro(const MacroDef& macro, Scope& scope, CallArgs args) {
  const auto take_named = [&](std::string_view name) -> std::optional<Value> {
    const auto hit = std::find_if(args.named.begin(), args.named.end(), [&](const auto& a) { return a.first == name; });
    if (hit == args.named.end()) return std::nullopt;
    std::optional<Value> value = std::move(hit->second);
    args.named.erase(hit);
    return value;
  };
  const std::string who = macro.name.empty() ? "caller" : "macro '" + macro.name + "'";
  bool has_caller_param = false;
  for (size_t i = 0; i < macro.params.size(); ++i) {
    const MacroDef::Param& param = macro.params[i];
    has_caller_param |= param.name == "caller";
    std::optional<Value> value;
    if (i < args.positional.size())
      value = args.positional[i];
    else
      value = take_named(param.name);
    if (!value && param.fallback) value = TRY(eval(*param.fallback));
    scope.set(param.name,
              value ? std::move(*value) : Value::undefined("parameter '" + param.name + "' was not provided"));
  }
  if (macro.uses_caller && !has_caller_param) {
    auto caller = take_named("caller");
    scope.set("caller", caller ? std::move(*caller) : Value::undefined("No caller defined"));
  }
  if (macro.uses_kwargs) {
    Dict rest;
    for (auto& [name, value] : args.named) rest.set(Value(name), std::move(value));
    scope.set("kwargs", TRY(dict(std::move(rest))));
  } else if (!args.named.empty()) {
    return fail(who + " takes no keyword argument '" + args.named[0].first + "'");
  }
  const size_t n_extra = args.positional.size() - std::min(args.positional.size(), macro.params.size());
  if (macro.uses_varargs)
    scope.set("varargs",
              TRY(tuple(List(args.positional.end() - static_cast<ptrdiff_t>(n_extra), args.positional.end()))));
  else if (n_extra > 0)
    return fail(who + " takes not more than " + std::to_string(macro.params.size()) + " argument(s)");
  return {};
}

Result<Value> Interpreter::call_macro(const std::shared_ptr<const MacroDef>& macro, const std::shared_ptr<Scope>& scope,
                                      CallArgs args) {
  const Deeper deeper(*this);
  TRY(deeper.check());
  const int call_line = line_;
  auto inner = std::make_shared<Scope>(scope);
  if (inner->depth > limits_.max_depth) return fail("maximum recursion depth exceeded");
  const std::shared_ptr<Scope> outer = std::exchange(scope_, inner);
  auto bound = bind_macro(*macro, *inner, std::move(args));
  Flow flow = Flow::next;
  Result<std::string> body = bound ? capture(*macro->body, inner, flow) : Result<std::string>(bound.error());
  scope_ = outer;
  std::string rendered = TRY(std::move(body));
  line_ = call_line;
  return text(std::move(rendered));
}

}  // namespace tokamak::jinja
