// Expressions.
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <span>

#include "chat/jinja/parser_internal.h"

namespace tokamak::jinja {

namespace {
struct BinaryRow {
  std::string_view symbol;
  Op op;
};
constexpr auto kComparisons = std::to_array<BinaryRow>({
    {"==", Op::eq},
    {"!=", Op::ne},
    {"<", Op::lt},
    {"<=", Op::le},
    {">", Op::gt},
    {">=", Op::ge},
});
constexpr auto kSums = std::to_array<BinaryRow>({{"+", Op::add}, {"-", Op::sub}});
constexpr auto kProducts =
    std::to_array<BinaryRow>({{"*", Op::mul}, {"/", Op::div}, {"//", Op::floordiv}, {"%", Op::mod}});
constexpr auto kPowers = std::to_array<BinaryRow>({{"**", Op::pow}});

Op find_op(std::span<const BinaryRow> rows, const Token& token) {
  if (token.kind != TokenKind::op) return Op::none;
  const auto row = std::find_if(rows.begin(), rows.end(), [&](const BinaryRow& r) { return r.symbol == token.text; });
  return row == rows.end() ? Op::none : row->op;
}

// Levels of left-associative operators, loosest first. Concatenation sits between sums and products.
enum Level { kOr, kAnd, kNot, kSum, kConcat, kProduct, kPower, kUnary };
}  // namespace

ExprPtr Parser::make(ExprKind kind, int line) const {
  auto expr = std::make_unique<Expr>();
  expr->kind = kind;
  expr->line = line;
  return expr;
}

Result<ExprPtr> Parser::finish(ExprPtr expr) {
  for (const ExprPtr& kid : expr->kids)
    if (kid) expr->height = std::max(expr->height, kid->height + 1);
  for (const Argument& arg : expr->args) expr->height = std::max(expr->height, arg.value->height + 1);
  if (expr->height > kMaxTreeHeight) return template_error(expr->line, "expression is nested too deeply");
  return expr;
}

Result<void> Parser::check_nesting() const {
  if (nesting_ > kMaxTreeHeight) return fail("nested too deeply");
  return {};
}

void Parser::note_name(std::string_view name) {
  for (MacroDef* macro : macros_) {
    macro->uses_caller |= name == "caller";
    macro->uses_varargs |= name == "varargs";
    macro->uses_kwargs |= name == "kwargs";
  }
}

bool Parser::at_tuple_end(std::string_view end_word) const {
  return now().kind == TokenKind::print_end || now().kind == TokenKind::block_end || at_op(")") ||
         (!end_word.empty() && at_word(end_word));
}

Result<ExprPtr> Parser::tuple_or_expression(bool allow_choice, std::string_view end_word, bool parentheses) {
  const int line = now().line;
  std::vector<ExprPtr> parts;
  bool is_tuple = false;
  for (;;) {
    if (!parts.empty()) TRY(expect_op(","));
    if (at_tuple_end(end_word)) break;
    parts.push_back(TRY(expression(allow_choice)));
    if (!at_op(",")) break;
    is_tuple = true;
  }
  if (!is_tuple) {
    if (!parts.empty()) return std::move(parts[0]);
    if (!parentheses) return fail_unexpected("an expression");
  }
  ExprPtr tuple = make(ExprKind::tuple, line);
  tuple->kids = std::move(parts);
  return finish(std::move(tuple));
}

Result<ExprPtr> Parser::expression(bool allow_choice) {
  const Nested nested(nesting_);
  TRY(check_nesting());
  return allow_choice ? choice() : binary_level(kOr);
}

Result<ExprPtr> Parser::choice() {
  ExprPtr expr = TRY(binary_level(kOr));
  while (at_word("if")) {
    const int line = take().line;
    ++branch_depth_;
    ExprPtr choose = make(ExprKind::choose, line);
    choose->kids.push_back(std::move(expr));
    choose->kids.push_back(TRY(binary_level(kOr)));
    choose->kids.push_back(skip_word("else") ? TRY(expression()) : nullptr);
    --branch_depth_;
    expr = TRY(finish(std::move(choose)));
  }
  return expr;
}

Result<ExprPtr> Parser::binary_level(int level) {
  if (level == kNot) return negation();
  if (level == kConcat) return concatenation();
  if (level == kUnary) return unary(true);
  ExprPtr left = TRY(binary_level(level + 1));
  for (;;) {
    const int line = now().line;
    ExprPtr node;
    if (level == kOr || level == kAnd) {
      if (!at_word(level == kOr ? "or" : "and")) return left;
      node = make(ExprKind::logic, line);
      node->op = level == kOr ? Op::or_ : Op::and_;
    } else {
      const std::span<const BinaryRow> rows = level == kSum       ? std::span<const BinaryRow>(kSums)
                                              : level == kProduct ? std::span<const BinaryRow>(kProducts)
                                                                  : std::span<const BinaryRow>(kPowers);
      const Op op = find_op(rows, now());
      if (op == Op::none) return left;
      node = make(ExprKind::binary, line);
      node->op = op;
    }
    take();
    node->kids.push_back(std::move(left));
    node->kids.push_back(TRY(binary_level(level + 1)));
    left = TRY(finish(std::move(node)));
  }
}

Result<ExprPtr> Parser::negation() {
  if (!at_word("not")) return comparison();
  const Nested nested(nesting_);
  TRY(check_nesting());
  ExprPtr node = make(ExprKind::unary, take().line);
  node->op = Op::not_;
  node->kids.push_back(TRY(negation()));
  return finish(std::move(node));
}

Result<ExprPtr> Parser::comparison() {
  ExprPtr first = TRY(binary_level(kSum));
  ExprPtr node;
  for (;;) {
    const int line = now().line;
    Op op = find_op(kComparisons, now());
    if (op != Op::none) {
      take();
    } else if (skip_word("in")) {
      op = Op::in;
    } else if (at_word("not") && ahead().kind == TokenKind::name && ahead().text == "in") {
      take();
      take();
      op = Op::not_in;
    } else {
      break;
    }
    if (!node) {
      node = make(ExprKind::compare, line);
      node->kids.push_back(std::move(first));
    }
    node->ops.push_back(op);
    node->kids.push_back(TRY(binary_level(kSum)));
  }
  if (!node) return first;
  return finish(std::move(node));
}

Result<ExprPtr> Parser::concatenation() {
  ExprPtr first = TRY(binary_level(kProduct));
  if (!at_op("~")) return first;
  ExprPtr node = make(ExprKind::concat, now().line);
  node->kids.push_back(std::move(first));
  while (skip_op("~")) node->kids.push_back(TRY(binary_level(kProduct)));
  return finish(std::move(node));
}

Result<ExprPtr> Parser::unary(bool with_filters) {
  const Nested nested(nesting_);
  TRY(check_nesting());
  ExprPtr expr;
  if (at_op("-") || at_op("+")) {
    const Token sign = take();
    expr = make(ExprKind::unary, sign.line);
    expr->op = sign.text == "-" ? Op::negate : Op::plus;
    expr->kids.push_back(TRY(unary(false)));
    expr = TRY(finish(std::move(expr)));
  } else {
    expr = TRY(primary());
  }
  expr = TRY(postfix(std::move(expr)));
  if (with_filters) expr = TRY(filters_and_tests(std::move(expr)));
  return expr;
}

Result<ExprPtr> Parser::primary() {
  const Token& token = now();
  switch (token.kind) {
    case TokenKind::name:
      return word_value();
    case TokenKind::integer:
    case TokenKind::floating:
      return number();
    case TokenKind::string: {
      ExprPtr node = make(ExprKind::constant, token.line);
      std::string text;
      while (now().kind == TokenKind::string) text += take().text;
      node->value = Value(std::move(text));
      return node;
    }
    default:
      break;
  }
  if (at_op("[")) return list_display();
  if (at_op("{")) return dict_display();
  if (!skip_op("(")) return fail_unexpected("an expression");
  ExprPtr node = TRY(tuple_or_expression(true, {}, true));
  TRY(expect_op(")"));
  return node;
}

Result<ExprPtr> Parser::word_value() {
  const Token token = take();
  ExprPtr node = make(ExprKind::constant, token.line);
  if (token.text == "true" || token.text == "True") {
    node->value = Value(true);
  } else if (token.text == "false" || token.text == "False") {
    node->value = Value(false);
  } else if (token.text == "none" || token.text == "None") {
    node->value = Value::none();
  } else {
    node->kind = ExprKind::name;
    node->name = token.text;
    note_name(token.text);
  }
  return node;
}

Result<ExprPtr> Parser::number() {
  const Token token = take();
  ExprPtr node = make(ExprKind::constant, token.line);
  const char* const end = token.text.data() + token.text.size();
  if (token.kind == TokenKind::floating) {
    double value = 0;
    const auto parsed = std::from_chars(token.text.data(), end, value);
    if (parsed.ec == std::errc::result_out_of_range)  // Python reads 1e999 as inf, and 1e-999 as 0
      value = token.text.find("e-") == token.text.npos && token.text.find("E-") == token.text.npos ? HUGE_VAL : 0.0;
    node->value = Value(value);
    return node;
  }
  const char letter = token.text.size() > 1 ? static_cast<char>(token.text[1] | 0x20) : ' ';
  const int base = letter == 'x' ? 16 : letter == 'o' ? 8 : letter == 'b' ? 2 : 10;
  int64_t value = 0;
  const auto parsed = std::from_chars(token.text.data() + (base == 10 ? 0 : 2), end, value, base);
  if (parsed.ec != std::errc()) return template_error(token.line, "integer does not fit into 64 bits: " + token.text);
  node->value = Value(value);
  return node;
}

Result<ExprPtr> Parser::list_display() {
  ExprPtr node = make(ExprKind::list, take().line);
  while (!at_op("]")) {
    if (!node->kids.empty()) TRY(expect_op(","));
    if (at_op("]")) break;
    node->kids.push_back(TRY(expression()));
  }
  TRY(expect_op("]"));
  return finish(std::move(node));
}

Result<ExprPtr> Parser::dict_display() {
  ExprPtr node = make(ExprKind::dict, take().line);
  while (!at_op("}")) {
    if (!node->kids.empty()) TRY(expect_op(","));
    if (at_op("}")) break;
    node->kids.push_back(TRY(expression()));
    TRY(expect_op(":"));
    node->kids.push_back(TRY(expression()));
  }
  TRY(expect_op("}"));
  return finish(std::move(node));
}

Result<ExprPtr> Parser::postfix(ExprPtr expr) {
  for (;;) {
    if (at_op(".") || at_op("["))
      expr = TRY(subscript(std::move(expr)));
    else if (at_op("("))
      expr = TRY(call_of(std::move(expr)));
    else
      return expr;
  }
}

Result<ExprPtr> Parser::filters_and_tests(ExprPtr expr) {
  for (;;) {
    if (skip_op("|"))
      expr = TRY(filter_of(std::move(expr)));
    else if (skip_word("is"))
      expr = TRY(test_of(std::move(expr)));
    else if (at_op("("))
      expr = TRY(call_of(std::move(expr)));
    else
      return expr;
  }
}

Result<ExprPtr> Parser::subscript(ExprPtr expr) {
  const Token token = take();
  ExprPtr node = make(token.text == "." ? ExprKind::attribute : ExprKind::item, token.line);
  node->kids.push_back(std::move(expr));
  if (token.text == ".") {
    if (now().kind == TokenKind::integer) {
      node->kind = ExprKind::item;
      node->kids.push_back(TRY(number()));
    } else {
      node->name = TRY(expect_name());
    }
    return finish(std::move(node));
  }
  std::vector<ExprPtr> keys;
  while (!at_op("]")) {
    if (!keys.empty()) TRY(expect_op(","));
    keys.push_back(TRY(slice_or_expression()));
  }
  TRY(expect_op("]"));
  if (keys.size() == 1) {
    node->kids.push_back(std::move(keys[0]));
  } else {
    if (std::any_of(keys.begin(), keys.end(), [](const ExprPtr& k) { return k->kind == ExprKind::slice; }))
      return template_error(token.line, "slices cannot be combined");
    ExprPtr tuple = make(ExprKind::tuple, token.line);
    tuple->kids = std::move(keys);
    node->kids.push_back(TRY(finish(std::move(tuple))));
  }
  return finish(std::move(node));
}

Result<ExprPtr> Parser::slice_or_expression() {
  const int line = now().line;
  ExprPtr start;
  if (!at_op(":")) {
    start = TRY(expression());
    if (!at_op(":")) return start;
  }
  take();
  ExprPtr node = make(ExprKind::slice, line);
  node->kids.push_back(std::move(start));
  const auto at_end = [this] { return at_op("]") || at_op(","); };
  node->kids.push_back(at_op(":") || at_end() ? nullptr : TRY(expression()));
  const bool has_step = skip_op(":") && !at_end();
  node->kids.push_back(has_step ? TRY(expression()) : nullptr);
  return finish(std::move(node));
}

Result<Argument> Parser::call_argument() {
  Argument arg{Argument::Form::positional, {}, nullptr};
  if (skip_op("*")) {
    arg.form = Argument::Form::spread;
  } else if (skip_op("**")) {
    arg.form = Argument::Form::spread_named;
  } else if (now().kind == TokenKind::name && ahead().kind == TokenKind::op && ahead().text == "=") {
    arg.form = Argument::Form::named;
    arg.name = take().text;
    take();
  }
  arg.value = TRY(expression());
  return arg;
}

Result<std::vector<Argument>> Parser::call_arguments() {
  TRY(expect_op("("));
  std::vector<Argument> args;
  while (!at_op(")")) {
    if (!args.empty()) {
      TRY(expect_op(","));
      if (at_op(")")) break;
    }
    Argument arg = TRY(call_argument());
    // The forms come in the order of the enum; a spread may be followed by named arguments only.
    const auto last = args.empty() ? Argument::Form::positional : args.back().form;
    const bool named_after_spread = arg.form == Argument::Form::named && last == Argument::Form::spread;
    const bool spread_after_named = arg.form == Argument::Form::spread && last == Argument::Form::named;
    if ((arg.form < last && !named_after_spread) || (arg.form == last && last >= Argument::Form::spread))
      if (!spread_after_named) return fail("arguments of a call are in the wrong order");
    args.push_back(std::move(arg));
  }
  TRY(expect_op(")"));
  return args;
}

Result<ExprPtr> Parser::call_of(ExprPtr callee) {
  ExprPtr node = make(ExprKind::call, now().line);
  node->kids.push_back(std::move(callee));
  node->args = TRY(call_arguments());
  return finish(std::move(node));
}

Result<std::string> Parser::dotted_name() {
  std::string name = TRY(expect_name());
  while (skip_op(".")) name += "." + TRY(expect_name());
  return name;
}

// Finds the table row and checks the arguments against it. In a branch both wait until the branch runs, as in Jinja.
Result<void> Parser::bind_row(Expr& expr, std::string_view what, int line) {
  expr.row = expr.kind == ExprKind::filter ? find_filter(expr.name) : find_test(expr.name);
  std::string problem;
  if (expr.row == nullptr) {
    problem = "there is no " + std::string(what) + " '" + expr.name + "'";
  } else {
    size_t n_positional = 1;
    bool complete = true;
    std::vector<std::string> names;
    for (const Argument& arg : expr.args) {
      n_positional += arg.form == Argument::Form::positional;
      complete &= arg.form < Argument::Form::spread;
      if (arg.form == Argument::Form::named) names.push_back(arg.name);
    }
    problem = signature_mismatch(expr.row->params, n_positional, names, complete);
    if (!problem.empty()) problem = std::string(what) + " '" + expr.name + "' " + problem;
  }
  if (problem.empty()) return {};
  const Error error = template_error(line, std::move(problem));
  if (branch_depth_ == 0) return error;
  warnings_.push_back(error.message());
  return {};
}

Result<ExprPtr> Parser::filter_of(ExprPtr subject) {
  const int line = now().line;
  ExprPtr node = make(ExprKind::filter, line);
  node->name = TRY(dotted_name());
  node->kids.push_back(std::move(subject));
  if (at_op("(")) node->args = TRY(call_arguments());
  TRY(bind_row(*node, "filter", line));
  return finish(std::move(node));
}

Result<ExprPtr> Parser::test_of(ExprPtr subject) {
  const int line = now().line;
  const bool negated = skip_word("not");
  ExprPtr node = make(ExprKind::test, line);
  node->name = TRY(dotted_name());
  node->kids.push_back(std::move(subject));
  const TokenKind kind = now().kind;
  const bool value_follows = kind == TokenKind::string || kind == TokenKind::integer || kind == TokenKind::floating ||
                             at_op("[") || at_op("{") ||
                             (kind == TokenKind::name && !at_word("else") && !at_word("or") && !at_word("and"));
  if (at_op("(")) {
    node->args = TRY(call_arguments());
  } else if (value_follows) {
    if (at_word("is")) return fail("tests cannot be chained with is");
    ExprPtr value = TRY(primary());
    value = TRY(postfix(std::move(value)));
    node->args.push_back({Argument::Form::positional, {}, std::move(value)});
  }
  TRY(bind_row(*node, "test", line));
  node = TRY(finish(std::move(node)));
  if (!negated) return node;
  ExprPtr inverse = make(ExprKind::unary, line);
  inverse->op = Op::not_;
  inverse->kids.push_back(std::move(node));
  return finish(std::move(inverse));
}

}  // namespace tokamak::jinja
