#include "grammar/regex.h"

#include <fmt/format.h>

#include "grammar/build.h"
#include "grammar/grammar.h"
#include "grammar/group_stack.h"
#include "grammar/text_cursor.h"

namespace tokamak {

using namespace grammar;

namespace {

struct ClassRow {
  char letter;
  CharSet set;
};

// \d \w \s and their opposites. White space is ECMAScript's without U+FEFF, which other engines do not count.
const CharSet* class_of(char letter) {
  static const CharSet kDigit{{'0', '9'}}, kWord{{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
  static const CharSet kSpace{{9, 13},          {' ', ' '},       {0xA0, 0xA0},     {0x1680, 0x1680}, {0x2000, 0x200A},
                              {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F}, {0x3000, 0x3000}};
  // Not space by anybody's count.
  static const CharSet kNotSpace = [] {
    CharSet all = kSpace;
    for (const CharRange& r : {CharRange{0x1C, 0x1F}, {0x85, 0x85}, {0xFEFF, 0xFEFF}}) all.add(r.first, r.last);
    return all.complement();
  }();
  static const ClassRow kRows[] = {{'d', kDigit}, {'D', kDigit.complement()},
                                   {'w', kWord},  {'W', kWord.complement()},
                                   {'s', kSpace}, {'S', kNotSpace}};
  for (const ClassRow& row : kRows)
    if (row.letter == letter) return &row.set;
  return nullptr;
}

class RegexParser {
 public:
  RegexParser(Rules& rules, std::string_view pattern, bool json, std::string_view place)
      : rules_(rules), in_{pattern}, json_(json), place_(place), groups_(rules) {}

  Result<ExprId> parse() {
    while (!in_.done()) {
      TRY(parse_item());
      if (!rules_.budget().ok()) return rules_.budget().error();
    }
    if (groups_.depth() > 1) return fail("a '(' is not closed");
    return groups_.close();
  }

 private:
  Error fail(std::string what) const {
    return refusal(std::move(what), fmt::format("{}, offset {} of the pattern", place_, in_.at));
  }

  ExprId chars(const CharSet& set) { return rules_.chars(set, json_); }

  Result<void> parse_item() {
    if (in_.take('|')) {
      groups_.bar();
    } else if (in_.take('(')) {
      return open_group();
    } else if (in_.take(')')) {
      if (groups_.depth() == 1) return fail("this ')' closes nothing");
      const ExprId group = groups_.close();
      groups_.push(group);
    } else if (in_.peek() == '*' || in_.peek() == '+' || in_.peek() == '?' || in_.peek() == '{') {
      return parse_repeat();
    } else {
      groups_.push(TRY(parse_atom()));
    }
    return {};
  }

  Result<void> open_group() {
    if (groups_.depth() > rules_.budget().limits().max_depth)
      return fail(fmt::format("nesting is too deep (more than {} levels)", rules_.budget().limits().max_depth));
    if (in_.take("?=") || in_.take("?!") || in_.take("?<=") || in_.take("?<!"))
      return fail("look-ahead and look-behind are not supported");
    if (in_.take("?<")) {
      const size_t end = in_.text.find('>', in_.at);
      if (end == std::string_view::npos) return fail("the name of a group is not closed by '>'");
      in_.at = end + 1;
    } else if (in_.take('?') && !in_.take(':')) {
      return fail("this kind of group is not supported");
    }
    groups_.open();
    return {};
  }

  Result<void> parse_repeat() {
    if (!groups_.has_last()) return fail("a repetition must follow something");
    const ExprKind kind = rules_.expr(groups_.last()).kind;
    if (kind == ExprKind::begin || kind == ExprKind::end) return fail("an anchor cannot be repeated");
    uint32_t min = 0, max = kUnbounded;
    if (in_.take('+'))
      min = 1;
    else if (in_.take('?'))
      max = 1;
    else if (!in_.take('*')) {
      ++in_.at;
      const auto first = in_.take_number();
      if (!first) return fail("a number must follow '{' (write \\{ for the character)");
      min = max = *first;
      if (in_.take(',')) max = in_.take_number().value_or(kUnbounded);
      if (!in_.take('}')) return fail("'}' is missing");
      if (min > max) return fail("the repetition's minimum is larger than its maximum");
      if (min > kMaxCount) return fail("the repetition's minimum is too large");
    }
    if (in_.take('+')) return fail("possessive repetitions are not supported");
    (void)in_.take('?');  // lazy or greedy: the same texts
    groups_.last() = rules_.repeat(groups_.last(), min, max);
    return {};
  }

  Result<ExprId> parse_atom() {
    if (in_.take('^')) return rules_.anchor(ExprKind::begin);
    if (in_.take('$')) return rules_.anchor(ExprKind::end);
    if (in_.take('.')) return chars(CharSet{{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}}.complement());
    if (in_.take('[')) return parse_class();
    if (in_.take('\\')) {
      if (in_.done()) return fail("the pattern ends in a backslash");
      const char c = in_.peek();
      if (c == 'b' || c == 'B') return fail("word boundaries (\\b, \\B) are not supported");
      if (c >= '1' && c <= '9') return fail("back-references are not supported");
      if (c == 'k') return fail("back-references (\\k) are not supported");
      CharSet set;
      TRY(parse_escape(set));
      return chars(set);
    }
    if (!decode_utf8(in_.text, in_.at).valid) return fail("the pattern is not valid UTF-8");
    const char32_t c = in_.take_char();
    return chars(CharSet{{c, c}});
  }

  // Behind a backslash, inside a class or outside.
  Result<void> parse_escape(CharSet& set) {
    const char c = in_.peek();
    if (const CharSet* known = class_of(c)) {
      ++in_.at;
      set.add(*known);
      return {};
    }
    if (c == 'p' || c == 'P') return fail("Unicode property classes (\\p) are not supported");
    const char32_t one = TRY(parse_escaped_char());
    set.add(one, one);
    return {};
  }

  Result<char32_t> parse_escaped_char() {
    struct Simple {
      char letter;
      char32_t c;
    };
    static constexpr Simple kSimple[] = {{'n', '\n'}, {'r', '\r'}, {'t', '\t'}, {'f', '\f'}, {'v', '\v'}};
    for (const Simple& simple : kSimple)
      if (in_.take(simple.letter)) return simple.c;
    if (in_.take('x')) return hex_char(2);
    if (in_.take('u')) return unicode_char();
    const char c = in_.peek();
    if (c == '0' && !(in_.peek(1) >= '0' && in_.peek(1) <= '9')) {
      ++in_.at;
      return U'\0';
    }
    if (in_.take('c')) {
      const char letter = in_.peek();
      if (!((letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z')))
        return fail("a letter must follow \\c");
      ++in_.at;
      return static_cast<char32_t>(letter & 31);
    }
    static constexpr std::string_view kPunctuation = "^$\\.*+?()[]{}|/-\"'`,:;!#%&=<>@ ";
    if (c != '\0' && kPunctuation.find(c) != std::string_view::npos) {
      ++in_.at;
      return static_cast<char32_t>(c);
    }
    return fail(fmt::format("unknown escape '\\{}'", std::string(in_.text.substr(in_.at, 1))));
  }

  Result<char32_t> hex_char(size_t n) {
    const auto value = in_.take_hex(n);
    if (!value) return fail(fmt::format("{} hexadecimal digits must follow", n));
    if (!is_scalar(*value)) return fail(fmt::format("U+{:04X} is no character", static_cast<uint32_t>(*value)));
    return *value;
  }

  // \uXXXX, \u{X...}, or two surrogates.
  Result<char32_t> unicode_char() {
    if (in_.take('{')) {
      const size_t end = in_.text.find('}', in_.at);
      if (end == std::string_view::npos || end == in_.at || end - in_.at > 6) return fail("\\u{ needs 1 to 6 digits");
      const char32_t c = TRY(hex_char(end - in_.at));
      ++in_.at;
      return c;
    }
    TextCursor ahead = in_;
    const auto high = ahead.take_hex(4);
    if (high && *high >= 0xD800 && *high <= 0xDBFF && ahead.take("\\u"))
      if (const auto low = ahead.take_hex(4); low && *low >= 0xDC00 && *low <= 0xDFFF) {
        in_ = ahead;
        return 0x10000 + ((*high - 0xD800) << 10) + (*low - 0xDC00);
      }
    return hex_char(4);
  }

  Result<ExprId> parse_class() {
    const bool negated = in_.take('^');
    CharSet set;
    while (!in_.take(']')) {
      if (in_.done()) return fail("a character class is not closed");
      CharSet one;
      TRY(parse_class_atom(one));
      const bool is_range = in_.peek() == '-' && in_.peek(1) != ']' && in_.peek(1) != '\0';
      if (is_range) {
        ++in_.at;
        CharSet last;
        TRY(parse_class_atom(last));
        if (!is_one(one) || !is_one(last)) return fail("a range of characters cannot end in a class");
        const char32_t first = one.ranges()[0].first, end = last.ranges()[0].first;
        if (first > end) return fail("a range of characters runs backwards");
        one.add(first, end);
      }
      set.add(one);
      if (!rules_.budget().spend(sizeof(CharRange))) return rules_.budget().error();
    }
    const ExprId id = chars(negated ? set.complement() : set);
    return id;
  }

  static bool is_one(const CharSet& set) {
    return set.ranges().size() == 1 && set.ranges()[0].first == set.ranges()[0].last;
  }

  Result<void> parse_class_atom(CharSet& set) {
    if (in_.take('\\')) {
      if (in_.take('b')) {
        set.add('\b', '\b');
        return {};
      }
      return parse_escape(set);
    }
    if (!decode_utf8(in_.text, in_.at).valid) return fail("the pattern is not valid UTF-8");
    const char32_t c = in_.take_char();
    set.add(c, c);
    return {};
  }

  Rules& rules_;
  TextCursor in_;
  bool json_;
  std::string_view place_;
  GroupStack groups_;
};

// Takes anchors off the ends; nesting is bounded by the depth of expressions.
class Anchors {
 public:
  Anchors(Rules& rules, bool contains, bool json) : rules_(rules), contains_(contains), json_(json) {}

  // `first` and `last`: the expression stands at that end of the pattern. Any text is added where no anchor stands.
  Result<ExprId> resolve(ExprId id, bool first, bool last) {
    const Expr e = rules_.expr(id);
    if (e.kind == ExprKind::choice) {
      const auto children = rules_.children(e);
      std::vector<ExprId> parts(children.begin(), children.end());
      for (ExprId& part : parts) part = TRY(resolve(part, first, last));
      return rules_.choice(parts);
    }
    if (e.kind == ExprKind::sequence) return resolve_sequence(e, first, last);
    if (e.kind == ExprKind::begin || e.kind == ExprKind::end) return resolve_anchor(e.kind, first, last);
    if (e.kind == ExprKind::repeat && has_anchor(e.index)) return misplaced();
    return padded(id, first, last);
  }

 private:
  Result<ExprId> resolve_anchor(ExprKind kind, bool first, bool last) {
    if (kind == ExprKind::begin ? !first : !last) return misplaced();
    return padded(rules_.empty(), first && kind != ExprKind::begin, last && kind != ExprKind::end);
  }

  Result<ExprId> resolve_sequence(const Expr& e, bool first, bool last) {
    const auto children = rules_.children(e);
    std::vector<ExprId> parts(children.begin(), children.end());
    size_t begin = 0, end = parts.size();
    bool open_first = first, open_last = last;
    for (; begin < end && rules_.expr(parts[begin]).kind == ExprKind::begin; ++begin) {
      if (!first) return misplaced();
      open_first = false;
    }
    for (; begin < end && rules_.expr(parts[end - 1]).kind == ExprKind::end; --end) {
      if (!last) return misplaced();
      open_last = false;
    }
    if (begin == end) return padded(rules_.empty(), open_first, open_last);
    for (size_t i = begin; i < end; ++i)
      parts[i] = TRY(resolve(parts[i], i == begin && open_first, i + 1 == end && open_last));
    return rules_.sequence(std::span(parts).subspan(begin, end - begin));
  }

  bool has_anchor(ExprId id) const {
    const Expr& e = rules_.expr(id);
    if (e.kind == ExprKind::begin || e.kind == ExprKind::end) return true;
    if (e.kind == ExprKind::repeat) return has_anchor(e.index);
    if (e.kind != ExprKind::sequence && e.kind != ExprKind::choice) return false;
    for (const ExprId child : rules_.children(e))
      if (has_anchor(child)) return true;
    return false;
  }

  ExprId padded(ExprId id, bool first, bool last) {
    if (!contains_ || (!first && !last)) return id;
    const ExprId any = rules_.repeat(rules_.chars(CharSet::all(), json_), 0, kUnbounded);
    const ExprId none = rules_.empty();
    return rules_.sequence({first ? any : none, id, last ? any : none});
  }

  Error misplaced() const {
    return refusal("an anchor (^ or $) in the middle of a pattern is not supported", "pattern");
  }

  Rules& rules_;
  bool contains_, json_;
};

}  // namespace

namespace grammar {

Result<ExprId> parse_regex(Rules& rules, std::string_view pattern, bool contains, bool json, std::string_view place) {
  const ExprId parsed = TRY(RegexParser(rules, pattern, json, place).parse());
  auto resolved = Anchors(rules, contains, json).resolve(parsed, true, true);
  if (!resolved) resolved.error().where = std::string(place);
  return resolved;
}

}  // namespace grammar

Result<Grammar::Ptr> Grammar::from_regex(std::string_view pattern, const GrammarOptions& options) {
  if (pattern.size() > options.limits.max_text_bytes)
    return refusal(fmt::format("{} bytes are more than the limit of {}", pattern.size(), options.limits.max_text_bytes),
                   "regex");
  Rules rules(options.limits);
  rules.root = rules.declare("root");
  rules.define(rules.root, TRY(parse_regex(rules, pattern, false, false, "regex")));
  return Ptr(std::make_shared<const Grammar>(TRY(build_program(rules)), std::vector<SchemaNote>{}));
}

}  // namespace tokamak
