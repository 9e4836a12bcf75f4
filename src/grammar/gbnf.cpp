// GBNF: rules `name ::= alternatives`, literals, character classes, groups, repetitions, token literals, # comments.
#include <fmt/format.h>

#include <unordered_map>

#include "grammar/build.h"
#include "grammar/grammar.h"
#include "grammar/group_stack.h"
#include "grammar/text_cursor.h"

namespace tokamak {

using namespace grammar;

namespace {

bool is_name_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
}

class GbnfParser {
 public:
  GbnfParser(std::string_view text, const GrammarOptions& options, Rules& rules)
      : in_{text}, options_(options), rules_(rules) {}

  Result<void> parse() {
    skip_space(true);
    if (in_.done()) return fail("the grammar is empty");
    while (!in_.done()) {
      TRY(parse_rule());
      skip_space(true);
    }
    for (const auto& [name, rule] : names_)
      if (!rule.defined)
        return refusal("rule '" + name + "' is used but not defined", place(rule.used_at),
                       "add '" + name + " ::= ...'");
    const auto root = names_.find("root");
    if (root == names_.end()) return fail("there is no rule 'root'");
    rules_.root = root->second.id;
    return {};
  }

 private:
  struct Name {
    RuleId id;
    bool defined = false;
    size_t used_at = 0;
  };

  std::string place(size_t at) const {
    const std::string_view before = in_.text.substr(0, std::min(at, in_.text.size()));
    const auto line = std::count(before.begin(), before.end(), '\n') + 1;
    const size_t start = before.rfind('\n') + 1;  // npos + 1 is 0
    return fmt::format("grammar line {}, column {}", line, at - start + 1);
  }
  Error fail(std::string what) const { return refusal(std::move(what), place(in_.at)); }

  void skip_space(bool newlines) {
    while (!in_.done()) {
      const char c = in_.peek();
      if (c == '#')
        while (!in_.done() && in_.peek() != '\n') ++in_.at;
      else if (c == ' ' || c == '\t' || (newlines && (c == '\n' || c == '\r')))
        ++in_.at;
      else
        return;
    }
  }

  std::string_view take_name() {
    const size_t start = in_.at;
    while (is_name_char(in_.peek())) ++in_.at;
    return in_.text.substr(start, in_.at - start);
  }

  Name& name_of(std::string_view name) {
    const auto [place, added] = names_.try_emplace(std::string(name));
    if (added) {
      place->second.id = rules_.declare(std::string(name));
      place->second.used_at = in_.at;
    }
    return place->second;
  }

  // At the start of `name ::=`?
  bool at_rule() const {
    TextCursor ahead = in_;
    while (is_name_char(ahead.peek())) ++ahead.at;
    if (ahead.at == in_.at) return false;
    while (ahead.peek() == ' ' || ahead.peek() == '\t') ++ahead.at;
    return ahead.take("::=");
  }

  Result<void> parse_rule() {
    const std::string_view text = take_name();
    if (text.empty()) return fail("a rule must start with its name (letters, digits, -)");
    Name& name = name_of(text);
    if (name.defined) return fail("rule '" + std::string(text) + "' is defined twice");
    name.defined = true;
    const RuleId rule = name.id;  // parsing may move the table
    skip_space(false);
    if (!in_.take("::=")) return fail("'::=' must follow the name of a rule");
    GroupStack groups(rules_);
    while (true) {
      skip_space(true);
      if (in_.done() || (groups.depth() == 1 && at_rule())) break;
      TRY(parse_item(groups));
      if (!rules_.budget().ok()) return rules_.budget().error();
    }
    if (groups.depth() > 1) return fail("a '(' is not closed");
    rules_.define(rule, groups.close());
    return {};
  }

  Result<void> parse_item(GroupStack& groups) {
    const char c = in_.peek();
    if (in_.take('|')) {
      groups.bar();
      return {};
    }
    if (in_.take('(')) {
      if (groups.depth() > options_.limits.max_depth)
        return fail(fmt::format("nesting is too deep (more than {} levels)", options_.limits.max_depth));
      groups.open();
      return {};
    }
    if (in_.take(')')) {
      if (groups.depth() == 1) return fail("this ')' closes nothing");
      const ExprId group = groups.close();
      groups.push(group);
      return {};
    }
    if (c == '*' || c == '+' || c == '?' || c == '{') return parse_repeat(groups);
    groups.push(TRY(parse_atom()));
    return {};
  }

  Result<ExprId> parse_atom() {
    const char c = in_.peek();
    if (in_.take('"')) return parse_literal();
    if (in_.take('[')) return parse_class();
    if (in_.take('.')) return rules_.chars(CharSet::all());
    if (c == '<' || (c == '!' && in_.peek(1) == '<')) return parse_token();
    const std::string_view name = take_name();
    if (name.empty()) return fail(fmt::format("'{}' is not expected here", std::string(1, c)));
    return rules_.call(name_of(name).id);
  }

  Result<void> parse_repeat(GroupStack& groups) {
    if (!groups.has_last()) return fail("a repetition must follow something");
    uint32_t min = 0, max = kUnbounded;
    if (in_.take('+'))
      min = 1;
    else if (in_.take('?'))
      max = 1;
    else if (!in_.take('*')) {
      ++in_.at;
      skip_space(false);
      const auto first = in_.take_number();
      if (!first) return fail("a number must follow '{'");
      min = max = *first;
      skip_space(false);
      if (in_.take(',')) {
        skip_space(false);
        max = in_.take_number().value_or(kUnbounded);
        skip_space(false);
      }
      if (!in_.take('}')) return fail("'}' is missing");
      if (min > max) return fail("the repetition's minimum is larger than its maximum");
      if (min > kMaxCount) return fail("the repetition's minimum is too large");
    }
    groups.last() = rules_.repeat(groups.last(), min, max);
    return {};
  }

  Result<char32_t> parse_escape() {
    struct Simple {
      char letter;
      char32_t c;
    };
    static constexpr Simple kSimple[] = {{'n', '\n'}, {'r', '\r'}, {'t', '\t'}, {'\\', '\\'}, {'"', '"'}, {'[', '['},
                                         {']', ']'},  {'-', '-'},  {'^', '^'},  {'\'', '\''}, {'/', '/'}};
    for (const Simple& simple : kSimple)
      if (in_.take(simple.letter)) return simple.c;
    for (const auto& [letter, n] : {std::pair{'x', 2}, {'u', 4}, {'U', 8}}) {
      if (!in_.take(letter)) continue;
      const auto value = in_.take_hex(static_cast<size_t>(n));
      if (!value) return fail(fmt::format("\\{} needs {} hexadecimal digits", letter, n));
      if (!is_scalar(*value)) return fail(fmt::format("U+{:04X} is no character", static_cast<uint32_t>(*value)));
      return *value;
    }
    return fail("unknown escape");
  }

  Result<char32_t> parse_char() {
    if (in_.take('\\')) return parse_escape();
    if (!decode_utf8(in_.text, in_.at).valid) return fail("the grammar is not valid UTF-8");
    return in_.take_char();
  }

  Result<ExprId> parse_literal() {
    std::string text;
    while (!in_.take('"')) {
      if (in_.done()) return fail("a literal is not closed");
      append_utf8(text, TRY(parse_char()));
    }
    return rules_.bytes(text);
  }

  Result<ExprId> parse_class() {
    const bool negated = in_.take('^');
    CharSet set;
    while (!in_.take(']')) {
      if (in_.done()) return fail("a character class is not closed");
      const char32_t first = TRY(parse_char());
      char32_t last = first;
      if (in_.peek() == '-' && in_.peek(1) != ']' && in_.peek(1) != '\0') {
        ++in_.at;
        last = TRY(parse_char());
      }
      if (first > last) return fail("a range of characters runs backwards");
      set.add(first, last);
      if (!rules_.budget().spend(sizeof(CharRange))) return rules_.budget().error();
    }
    if (!negated && set.empty()) return fail("a character class is empty");
    return rules_.chars(negated ? set.complement() : set);
  }

  Result<ExprId> parse_token() {
    const bool negated = in_.take('!');
    const size_t start = in_.at;
    const size_t end = in_.text.find('>', start);
    if (end == std::string_view::npos) return fail("a token literal is not closed by '>'");
    const std::string text(in_.text.substr(start, end + 1 - start));
    in_.at = end + 1;
    if (text.size() > 4 && text[1] == '[' && text[text.size() - 2] == ']') {
      TextCursor digits{std::string_view(text).substr(2, text.size() - 4)};
      const auto id = digits.take_number();
      const bool known = id && digits.done() && *id < INT32_MAX &&
                         (!options_.tokenizer || options_.tokenizer->contains(static_cast<int64_t>(*id)));
      if (!known) return refusal("there is no token " + text, place(start));
      return rules_.token(*id, negated);
    }
    if (!options_.tokenizer) return refusal("token " + text + " cannot be resolved without a model", place(start));
    int32_t id = options_.tokenizer->find(text);
    if (id == kNoToken) {
      const auto ids = options_.tokenizer->encode(text, {.add_special = false, .parse_special = true});
      if (ids.size() == 1) id = ids[0];
    }
    if (id == kNoToken)
      return refusal("the vocabulary has no single token " + text, place(start), "use a literal in quotes");
    return rules_.token(static_cast<uint32_t>(id), negated);
  }

  TextCursor in_;
  const GrammarOptions& options_;
  Rules& rules_;
  std::unordered_map<std::string, Name> names_;
};

}  // namespace

Result<Grammar::Ptr> Grammar::from_gbnf(std::string_view text, const GrammarOptions& options) {
  if (text.size() > options.limits.max_text_bytes)
    return refusal(fmt::format("{} bytes are more than the limit of {}", text.size(), options.limits.max_text_bytes),
                   "grammar");
  Rules rules(options.limits);
  TRY(GbnfParser(text, options, rules).parse());
  return Ptr(std::make_shared<const Grammar>(TRY(build_program(rules)), std::vector<SchemaNote>{}));
}

}  // namespace tokamak
