// The parser's state, shared by its two files (statements, expressions).
#pragma once

#include <initializer_list>

#include "chat/jinja/lexer.h"
#include "chat/jinja/parser.h"

namespace tokamak::jinja {

class Parser {
 public:
  explicit Parser(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}
  Result<ParsedTemplate> run();

 private:
  using Words = std::initializer_list<std::string_view>;

  // parser_tokens
  const Token& now() const { return tokens_[at_]; }
  const Token& ahead() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
  Token take() { return tokens_[at_ + 1 < tokens_.size() ? at_++ : at_]; }
  bool at_op(std::string_view op) const { return now().kind == TokenKind::op && now().text == op; }
  bool at_word(std::string_view word) const { return now().kind == TokenKind::name && now().text == word; }
  bool skip_op(std::string_view op) { return at_op(op) && (take(), true); }
  bool skip_word(std::string_view word) { return at_word(word) && (take(), true); }
  Result<void> expect_op(std::string_view op);
  Result<void> expect_word(std::string_view word);
  Result<void> expect(TokenKind kind);
  Result<std::string> expect_name();
  Error fail(std::string what) const { return template_error(now().line, std::move(what)); }
  Error fail_unexpected(std::string_view wanted) const;

  // statements
  Result<Block> block_until(Words end_words);  // stops on the end word
  Result<Block> body(Words end_words);         // after the tag's own words: `%}`, then the block
  Result<Stmt> statement();
  Result<Stmt> parse_for();
  Result<Stmt> parse_if();
  Result<Stmt> parse_set();
  Result<Stmt> parse_with();
  Result<Stmt> parse_macro();
  Result<Stmt> parse_call();
  Result<Stmt> parse_filter_block();
  Result<Stmt> parse_generation();
  Result<Stmt> parse_print();
  Result<Stmt> parse_loop_control();
  Result<void> parse_signature(MacroDef& macro);
  Result<std::shared_ptr<const Block>> macro_body(MacroDef& macro, Words end_words);
  Result<Target> parse_target(bool allow_field, std::string_view end_word);
  Result<Target> parse_single_target(bool allow_field);

  // expressions
  Result<ExprPtr> expression(bool allow_choice = true);
  Result<ExprPtr> tuple_or_expression(bool allow_choice, std::string_view end_word, bool parentheses = false);
  Result<ExprPtr> choice();
  Result<ExprPtr> binary_level(int level);
  Result<ExprPtr> negation();
  Result<ExprPtr> comparison();
  Result<ExprPtr> concatenation();
  Result<ExprPtr> unary(bool with_filters);
  Result<ExprPtr> primary();
  Result<ExprPtr> word_value();
  Result<ExprPtr> number();
  Result<ExprPtr> list_display();
  Result<ExprPtr> dict_display();
  Result<ExprPtr> postfix(ExprPtr expr);
  Result<ExprPtr> filters_and_tests(ExprPtr expr);
  Result<ExprPtr> subscript(ExprPtr expr);
  Result<ExprPtr> slice_or_expression();
  Result<ExprPtr> call_of(ExprPtr callee);
  Result<ExprPtr> filter_of(ExprPtr subject);  // one filter; the name is next
  Result<ExprPtr> test_of(ExprPtr subject);
  Result<std::vector<Argument>> call_arguments();
  Result<Argument> call_argument();
  Result<std::string> dotted_name();
  Result<void> bind_row(Expr& expr, std::string_view what, int line);
  Result<ExprPtr> finish(ExprPtr expr);  // computes and checks the height
  ExprPtr make(ExprKind kind, int line) const;
  bool at_tuple_end(std::string_view end_word) const;
  void note_name(std::string_view name);

  // Counts open recursive calls of the parser.
  struct Nested {
    explicit Nested(int& depth) : depth_(depth) { ++depth_; }
    ~Nested() { --depth_; }
    Nested(const Nested&) = delete;
    int& depth_;
  };
  Result<void> check_nesting() const;

  std::vector<Token> tokens_;
  size_t at_ = 0;
  int nesting_ = 0;
  int branch_depth_ = 0;  // inside if blocks or inline ifs
  int loop_depth_ = 0;    // for blocks that break and continue can reach
  std::vector<MacroDef*> macros_;
  std::vector<std::string> warnings_;
};

}  // namespace tokamak::jinja
