#include "chat/jinja/parser.h"

#include <algorithm>
#include <array>

#include "chat/jinja/parser_internal.h"

namespace tokamak::jinja {

namespace {
// Constructs of Jinja that need other templates, or extensions that transformers does not load.
constexpr auto kRefusedTags = std::to_array<std::string_view>(
    {"include", "import", "from", "extends", "block", "autoescape", "do", "trans", "debug"});

std::string describe(const Token& token) {
  switch (token.kind) {
    case TokenKind::data:
      return "text";
    case TokenKind::print_begin:
      return "'{{'";
    case TokenKind::print_end:
      return "'}}'";
    case TokenKind::block_begin:
      return "'{%'";
    case TokenKind::block_end:
      return "'%}'";
    case TokenKind::end:
      return "the end of the template";
    case TokenKind::string:
      return "a string";
    default:
      return "'" + token.text + "'";
  }
}
}  // namespace

Error Parser::fail_unexpected(std::string_view wanted) const {
  return fail("expected " + std::string(wanted) + ", found " + describe(now()));
}

Result<void> Parser::expect_op(std::string_view op) {
  if (!skip_op(op)) return fail_unexpected("'" + std::string(op) + "'");
  return {};
}

Result<void> Parser::expect_word(std::string_view word) {
  if (!skip_word(word)) return fail_unexpected("'" + std::string(word) + "'");
  return {};
}

Result<void> Parser::expect(TokenKind kind) {
  if (now().kind != kind) return fail_unexpected(describe(Token{kind, 0, {}}));
  take();
  return {};
}

Result<std::string> Parser::expect_name() {
  if (now().kind != TokenKind::name) return fail_unexpected("a name");
  return take().text;
}

Result<ParsedTemplate> Parser::run() {
  ParsedTemplate parsed;
  parsed.body = TRY(block_until({}));
  parsed.warnings = std::move(warnings_);
  return parsed;
}

Result<Block> Parser::block_until(Words end_words) {
  const Nested nested(nesting_);
  TRY(check_nesting());
  Block block;
  for (;;) {
    const int line = now().line;
    switch (now().kind) {
      case TokenKind::data: {
        Stmt stmt{.kind = StmtKind::text, .line = line};
        stmt.text = take().text;
        block.push_back(std::move(stmt));
        break;
      }
      case TokenKind::print_begin: {
        take();
        Stmt stmt{.kind = StmtKind::print, .line = line};
        stmt.expr = TRY(tuple_or_expression(true, {}));
        TRY(expect(TokenKind::print_end));
        block.push_back(std::move(stmt));
        break;
      }
      case TokenKind::block_begin: {
        take();
        const bool ends = std::any_of(end_words.begin(), end_words.end(), [this](auto w) { return at_word(w); });
        if (ends) return block;
        block.push_back(TRY(statement()));
        TRY(expect(TokenKind::block_end));
        break;
      }
      default:
        if (end_words.size() == 0) return block;
        return fail("the template ends before '" + std::string(*end_words.begin()) + "'");
    }
  }
}

Result<Block> Parser::body(Words end_words) {
  skip_op(":");
  TRY(expect(TokenKind::block_end));
  return block_until(end_words);
}

Result<Stmt> Parser::statement() {
  struct Row {
    std::string_view tag;
    Result<Stmt> (Parser::*parse)();
  };
  static constexpr auto kTags = std::to_array<Row>({
      {"if", &Parser::parse_if},
      {"for", &Parser::parse_for},
      {"set", &Parser::parse_set},
      {"with", &Parser::parse_with},
      {"macro", &Parser::parse_macro},
      {"call", &Parser::parse_call},
      {"filter", &Parser::parse_filter_block},
      {"generation", &Parser::parse_generation},
      {"print", &Parser::parse_print},
      {"break", &Parser::parse_loop_control},
      {"continue", &Parser::parse_loop_control},
  });
  if (now().kind != TokenKind::name) return fail_unexpected("a tag name");
  for (const Row& row : kTags)
    if (now().text == row.tag) return (this->*row.parse)();
  if (std::find(kRefusedTags.begin(), kRefusedTags.end(), now().text) != kRefusedTags.end()) {
    Error error = fail("the tag {% " + now().text + " %} is not supported in chat templates");
    error.code = ErrorCode::unsupported;
    return error;
  }
  return fail("unknown tag '" + now().text + "'");
}

Result<Target> Parser::parse_single_target(bool allow_field) {
  if (skip_op("(")) {
    const Nested nested(nesting_);
    TRY(check_nesting());
    Target target = TRY(parse_target(allow_field, {}));
    TRY(expect_op(")"));
    return target;
  }
  static constexpr auto kConstants =
      std::to_array<std::string_view>({"true", "false", "none", "True", "False", "None"});
  if (std::find(kConstants.begin(), kConstants.end(), now().text) != kConstants.end())
    return fail("cannot assign to '" + now().text + "'");
  Target target;
  target.name = TRY(expect_name());
  if (allow_field && skip_op(".")) target.field = TRY(expect_name());
  return target;
}

Result<Target> Parser::parse_target(bool allow_field, std::string_view end_word) {
  Target tuple;
  tuple.is_tuple = true;
  bool has_comma = false;
  for (;;) {
    if (!tuple.parts.empty()) TRY(expect_op(","));
    if (at_tuple_end(end_word)) break;
    tuple.parts.push_back(TRY(parse_single_target(allow_field)));
    if (!at_op(",")) break;
    has_comma = true;
  }
  if (tuple.parts.empty()) return fail_unexpected("a name");
  if (has_comma) return tuple;
  return std::move(tuple.parts[0]);
}

Result<Stmt> Parser::parse_for() {
  Stmt stmt{.kind = StmtKind::loop, .line = take().line};
  stmt.target = TRY(parse_target(false, "in"));
  TRY(expect_word("in"));
  stmt.expr = TRY(tuple_or_expression(false, "recursive"));
  if (skip_word("if")) stmt.test = TRY(expression());
  stmt.recursive = skip_word("recursive");
  ++loop_depth_;
  stmt.body = TRY(body({"endfor", "else"}));
  --loop_depth_;
  if (take().text == "else") {
    stmt.otherwise = TRY(body({"endfor"}));
    take();
  }
  return stmt;
}

Result<Stmt> Parser::parse_if() {
  Stmt stmt{.kind = StmtKind::branch, .line = now().line};
  ++branch_depth_;
  for (;;) {
    const std::string word = take().text;  // if, elif, else, endif
    if (word == "endif") break;
    Stmt::Arm arm;
    if (word != "else") {
      // The first condition always runs, so an unknown name in it is an error at load.
      const bool first = stmt.arms.empty();
      branch_depth_ -= first;
      arm.test = TRY(tuple_or_expression(false, {}));
      branch_depth_ += first;
      arm.body = TRY(body({"endif", "elif", "else"}));
    } else {
      arm.body = TRY(body({"endif"}));
    }
    stmt.arms.push_back(std::move(arm));
  }
  --branch_depth_;
  return stmt;
}

Result<Stmt> Parser::parse_set() {
  Stmt stmt{.kind = StmtKind::set, .line = take().line};
  stmt.target = TRY(parse_target(true, {}));
  if (skip_op("=")) {
    stmt.expr = TRY(tuple_or_expression(true, {}));
    return stmt;
  }
  stmt.kind = StmtKind::set_block;
  while (skip_op("|")) stmt.expr = TRY(filter_of(std::move(stmt.expr)));
  stmt.body = TRY(body({"endset"}));
  take();
  return stmt;
}

Result<Stmt> Parser::parse_with() {
  Stmt stmt{.kind = StmtKind::with, .line = take().line};
  while (now().kind != TokenKind::block_end) {
    if (!stmt.bindings.empty()) TRY(expect_op(","));
    Target target = TRY(parse_target(false, {}));
    TRY(expect_op("="));
    ExprPtr value = TRY(expression());
    stmt.bindings.emplace_back(std::move(target), std::move(value));
  }
  stmt.body = TRY(body({"endwith"}));
  take();
  return stmt;
}

Result<void> Parser::parse_signature(MacroDef& macro) {
  TRY(expect_op("("));
  while (!at_op(")")) {
    if (!macro.params.empty()) TRY(expect_op(","));
    MacroDef::Param param;
    param.name = TRY(expect_name());
    if (skip_op("="))
      param.fallback = TRY(expression());
    else if (!macro.params.empty() && macro.params.back().fallback)
      return fail("a parameter without a default follows one with a default");
    macro.params.push_back(std::move(param));
  }
  return expect_op(")");
}

Result<std::shared_ptr<const Block>> Parser::macro_body(MacroDef& macro, Words end_words) {
  const int outer_loops = std::exchange(loop_depth_, 0);  // break cannot leave a macro
  macros_.push_back(&macro);
  auto block = std::make_shared<Block>(TRY(body(end_words)));
  macros_.pop_back();
  loop_depth_ = outer_loops;
  take();
  return std::shared_ptr<const Block>(std::move(block));
}

Result<Stmt> Parser::parse_macro() {
  Stmt stmt{.kind = StmtKind::macro, .line = take().line};
  auto macro = std::make_shared<MacroDef>();
  macro->name = TRY(expect_name());
  TRY(parse_signature(*macro));
  macro->body = TRY(macro_body(*macro, {"endmacro"}));
  stmt.macro = std::move(macro);
  return stmt;
}

Result<Stmt> Parser::parse_call() {
  Stmt stmt{.kind = StmtKind::call, .line = take().line};
  auto caller = std::make_shared<MacroDef>();
  if (at_op("(")) TRY(parse_signature(*caller));
  stmt.expr = TRY(expression());
  if (stmt.expr->kind != ExprKind::call) return template_error(stmt.line, "expected a call after {% call %}");
  caller->body = TRY(macro_body(*caller, {"endcall"}));
  stmt.macro = std::move(caller);
  return stmt;
}

Result<Stmt> Parser::parse_filter_block() {
  Stmt stmt{.kind = StmtKind::filter, .line = take().line};
  do {
    stmt.expr = TRY(filter_of(std::move(stmt.expr)));
  } while (skip_op("|"));
  stmt.body = TRY(body({"endfilter"}));
  take();
  return stmt;
}

Result<Stmt> Parser::parse_generation() {
  Stmt stmt{.kind = StmtKind::scope, .line = take().line};
  const int outer_loops = std::exchange(loop_depth_, 0);
  stmt.body = TRY(body({"endgeneration"}));
  loop_depth_ = outer_loops;
  take();
  return stmt;
}

Result<Stmt> Parser::parse_print() {
  Stmt stmt{.kind = StmtKind::print, .line = take().line};
  ExprPtr all = make(ExprKind::concat, stmt.line);
  while (now().kind != TokenKind::block_end) {
    if (!all->kids.empty()) TRY(expect_op(","));
    all->kids.push_back(TRY(expression()));
  }
  stmt.expr = TRY(finish(std::move(all)));
  return stmt;
}

Result<Stmt> Parser::parse_loop_control() {
  if (loop_depth_ == 0) return fail("'" + now().text + "' outside of a loop");
  const Token token = take();
  return Stmt{.kind = token.text == "break" ? StmtKind::break_ : StmtKind::continue_, .line = token.line};
}

Result<ParsedTemplate> parse_template(std::string_view source) { return Parser(TRY(tokenize(source))).run(); }

}  // namespace tokamak::jinja
