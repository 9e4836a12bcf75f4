#include "chat/jinja/lexer.h"

#include <algorithm>
#include <array>

#include "base/utf8.h"
#include "chat/jinja/unicode.h"

namespace tokamak::jinja {

namespace {
constexpr auto kOperators = std::to_array<std::string_view>({
    "//", "**", "==", "!=", ">=", "<=",  // the longer ones first
    "+",  "-",  "/",  "*",  "%",  "~",  "[", "]", "(", ")", "{", "}", ">", "<", "=", ".", ":", "|", ",", ";",
});

std::string normalized_newlines(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r') {
      out += '\n';
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    } else {
      out += source[i];
    }
  }
  if (out.ends_with('\n')) out.pop_back();
  return out;
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

class Lexer {
 public:
  explicit Lexer(std::string source) : source_(std::move(source)) {}

  Result<std::vector<Token>> run() {
    while (at_ < source_.size()) TRY(data_and_tag());
    push(TokenKind::end, {});
    return std::move(tokens_);
  }

 private:
  std::string_view rest() const { return std::string_view(source_).substr(at_); }
  bool looking_at(std::string_view text) const { return rest().starts_with(text); }
  void push(TokenKind kind, std::string text) { tokens_.push_back({kind, line_, std::move(text)}); }
  void advance_to(size_t to) {
    line_ += static_cast<int>(
        std::count(source_.begin() + static_cast<ptrdiff_t>(at_), source_.begin() + static_cast<ptrdiff_t>(to), '\n'));
    at_ = to;
  }
  void advance(size_t n_bytes) { advance_to(at_ + n_bytes); }
  void skip_space() { advance(rest().size() - strip(rest(), Side::left).size()); }
  Error fail(std::string what) const { return template_error(line_, std::move(what)); }

  // Text up to the next tag, then the tag.
  Result<void> data_and_tag() {
    size_t tag = at_;
    for (;; ++tag) {
      tag = source_.find('{', tag);
      if (tag == source_.npos || tag + 1 >= source_.size()) {
        push(TokenKind::data, source_.substr(at_));
        advance_to(source_.size());
        return {};
      }
      const char next = source_[tag + 1];
      if (next == '{' || next == '%' || next == '#') break;
    }
    const char type = source_[tag + 1];
    char sign = tag + 2 < source_.size() ? source_[tag + 2] : ' ';
    if (sign != '-' && sign != '+') sign = ' ';
    push_data(tag, type, sign);
    advance_to(tag + 2 + (sign == ' ' ? 0 : 1));
    if (type == '#') return comment();
    if (type == '%' && starts_raw()) return raw();
    return tag_body(type == '%');
  }

  // The text in front of a tag, cut as the sign of the tag and lstrip_blocks demand.
  void push_data(size_t tag, char type, char sign) {
    std::string_view text = std::string_view(source_).substr(at_, tag - at_);
    if (sign == '-') {
      text = strip(text, Side::right);
    } else if (sign == ' ' && type != '{') {
      const size_t line_begin = text.rfind('\n') + 1;  // npos + 1 == 0
      const bool at_line_start = line_begin > 0 || line_starting_;
      if (at_line_start && strip(text.substr(line_begin), Side::both).empty()) text = text.substr(0, line_begin);
    }
    if (!text.empty()) push(TokenKind::data, std::string(text));
  }

  // After the closing delimiter: "-" eats all white space, a block eats one newline unless "+" is given.
  void after_tag(char sign, bool is_block) {
    if (sign == '-') {
      skip_space();
    } else if (is_block && sign != '+' && looking_at("\n")) {
      advance(1);
    }
    line_starting_ = at_ > 0 && source_[at_ - 1] == '\n';
  }

  Result<void> comment() {
    const size_t close = source_.find("#}", at_);
    if (close == source_.npos) return fail("missing end of comment tag");
    char sign = close > at_ ? source_[close - 1] : ' ';
    if (sign != '-' && sign != '+') sign = ' ';
    advance_to(close + 2);
    after_tag(sign, true);
    return {};
  }

  bool starts_raw() const {
    std::string_view text = strip(rest(), Side::left);
    if (!text.starts_with("raw")) return false;
    text = strip(text.substr(3), Side::left);
    return text.starts_with("%}") || text.starts_with("-%}");
  }

  Result<void> raw() {
    skip_space();
    advance(3);
    skip_space();
    const char open_sign = source_[at_];
    advance(open_sign == '-' ? 3 : 2);
    if (open_sign == '-') skip_space();
    // {% raw %} keeps the newline after it: trim_blocks does not apply there.
    for (size_t tag = source_.find("{%", at_); tag != source_.npos; tag = source_.find("{%", tag + 1)) {
      size_t i = tag + 2;
      char sign = i < source_.size() && (source_[i] == '-' || source_[i] == '+') ? source_[i++] : ' ';
      std::string_view text = strip(std::string_view(source_).substr(i), Side::left);
      if (!text.starts_with("endraw")) continue;
      text = strip(text.substr(6), Side::left);
      const char close_sign = text.empty() ? ' ' : text[0] == '-' || text[0] == '+' ? text[0] : ' ';
      if (close_sign != ' ') text.remove_prefix(1);
      if (!text.starts_with("%}")) continue;
      line_starting_ = source_[at_ - 1] == '\n';
      push_data(tag, '%', sign);
      advance_to(source_.size() - text.size() + 2);
      after_tag(close_sign, true);
      return {};
    }
    return fail("missing end of raw directive");
  }

  Result<void> tag_body(bool is_block) {
    push(is_block ? TokenKind::block_begin : TokenKind::print_begin, {});
    const std::string_view closer = is_block ? "%}" : "}}";
    for (;;) {
      skip_space();
      if (at_ >= source_.size()) return fail("unexpected end of template inside a tag");
      if (brackets_.empty()) {
        const char sign = (looking_at("-") || (is_block && looking_at("+"))) ? source_[at_] : ' ';
        const size_t n_sign = sign == ' ' ? 0 : 1;
        if (rest().substr(n_sign).starts_with(closer)) {
          push(is_block ? TokenKind::block_end : TokenKind::print_end, {});
          advance(n_sign + 2);
          after_tag(sign, is_block);
          return {};
        }
      }
      TRY(token());
    }
  }

  Result<void> token() {
    const char c = source_[at_];
    if (is_digit(c)) return number();
    if (c == '\'' || c == '"') return string(c);
    const Utf8Char first = decode_utf8(source_, at_);
    if (first.code_point == '_' || (is_word(first.code_point) && !is_digit(c))) return name();
    for (const std::string_view op : kOperators) {
      if (!looking_at(op)) continue;
      TRY(balance(op));
      push(TokenKind::op, std::string(op));
      advance(op.size());
      return {};
    }
    return fail("unexpected character " + repr_string(rest().substr(0, first.n_bytes)));
  }

  Result<void> balance(std::string_view op) {
    const char c = op[0];
    if (op.size() > 1) return {};
    if (c == '(' || c == '[' || c == '{') brackets_ += c == '(' ? ')' : c == '[' ? ']' : '}';
    if (c != ')' && c != ']' && c != '}') return {};
    if (brackets_.empty()) return fail(std::string("unexpected '") + c + "'");
    if (brackets_.back() != c) return fail(std::string("unexpected '") + c + "', expected '" + brackets_.back() + "'");
    brackets_.pop_back();
    return {};
  }

  Result<void> name() {
    size_t end = at_;
    while (end < source_.size()) {
      const Utf8Char c = decode_utf8(source_, end);
      if (!is_word(c.code_point)) break;
      end += c.n_bytes;
    }
    push(TokenKind::name, source_.substr(at_, end - at_));
    advance_to(end);
    return {};
  }

  // Digits with single underscores between them, from `at`; returns the end.
  template <class IsDigit>
  size_t digits(size_t at, IsDigit is_one) const {
    while (at < source_.size()) {
      if (is_one(source_[at]))
        ++at;
      else if (source_[at] == '_' && at + 1 < source_.size() && is_one(source_[at + 1]))
        at += 2;
      else
        break;
    }
    return at;
  }

  Result<void> number() {
    const char second = at_ + 1 < source_.size() ? static_cast<char>(source_[at_ + 1] | 0x20) : ' ';
    size_t end = at_;
    TokenKind kind = TokenKind::integer;
    if (source_[at_] == '0' && (second == 'x' || second == 'o' || second == 'b')) {
      end = digits(at_ + 2, [second](char c) {
        const char l = static_cast<char>(c | 0x20);
        return second == 'x' ? is_digit(c) || (l >= 'a' && l <= 'f') : c >= '0' && c <= (second == 'o' ? '7' : '1');
      });
    } else {
      end = digits(at_, is_digit);
      const bool after_dot = at_ > 0 && source_[at_ - 1] == '.';
      if (!after_dot) {
        if (end + 1 < source_.size() && source_[end] == '.' && is_digit(source_[end + 1])) {
          end = digits(end + 1, is_digit);
          kind = TokenKind::floating;
        }
        size_t exponent = end;
        if (exponent < source_.size() && (source_[exponent] | 0x20) == 'e') {
          ++exponent;
          if (exponent < source_.size() && (source_[exponent] == '+' || source_[exponent] == '-')) ++exponent;
          if (exponent < source_.size() && is_digit(source_[exponent])) {
            end = digits(exponent, is_digit);
            kind = TokenKind::floating;
          }
        }
      }
    }
    std::string text = source_.substr(at_, end - at_);
    std::erase(text, '_');
    push(kind, std::move(text));
    advance_to(end);
    return {};
  }

  Result<void> string(char quote) {
    size_t end = at_ + 1;
    while (end < source_.size() && source_[end] != quote) end += source_[end] == '\\' ? 2 : 1;
    if (end >= source_.size()) return fail("string literal is not closed");
    std::string text = TRY(unescape(std::string_view(source_).substr(at_ + 1, end - at_ - 1)));
    push(TokenKind::string, std::move(text));
    advance_to(end + 1);
    return {};
  }

  Result<std::string> unescape(std::string_view text) const {
    static constexpr std::string_view kFrom = "abfnrtv\\'\"";
    static constexpr std::string_view kTo = "\a\b\f\n\r\t\v\\'\"";
    std::string out;
    for (size_t i = 0; i < text.size(); ++i) {
      if (text[i] != '\\') {
        out += text[i];
        continue;
      }
      const char c = text[++i];  // a backslash is never last: the scan above skipped two characters
      if (c == '\n') continue;
      if (const size_t simple = kFrom.find(c); simple != kFrom.npos) {
        out += kTo[simple];
      } else if (c == 'x' || c == 'u' || c == 'U' || (c >= '0' && c <= '7')) {
        TRY(numeric_escape(text, i, out));
      } else if (c == 'N') {
        return fail("\\N{...} escapes are not supported");
      } else {
        out += '\\';  // Python keeps unknown escapes
        out += c;
      }
    }
    return out;
  }

  // text[i] is x, u, U or an octal digit; leaves i on the last character used.
  Result<void> numeric_escape(std::string_view text, size_t& i, std::string& out) const {
    const char c = text[i];
    const bool octal = c >= '0' && c <= '7';
    const size_t want = octal ? 3 : c == 'x' ? 2 : c == 'u' ? 4 : 8;
    size_t at = octal ? i : i + 1;
    size_t n = 0;
    uint64_t code = 0;
    for (; n < want && at < text.size(); ++n, ++at) {
      const char d = static_cast<char>(text[at] | 0x20);
      const int digit = is_digit(text[at]) ? text[at] - '0' : d >= 'a' && d <= 'f' ? d - 'a' + 10 : 99;
      if (digit >= (octal ? 8 : 16)) break;
      code = code * (octal ? 8 : 16) + static_cast<uint64_t>(digit);
    }
    if (!octal && n != want) return fail(std::string("truncated \\") + c + " escape");
    if (code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) return fail("escape is not a Unicode character");
    append_utf8(out, static_cast<char32_t>(code));
    i = at - 1;
    return {};
  }

  std::string source_;
  size_t at_ = 0;
  int line_ = 1;
  bool line_starting_ = true;
  std::string brackets_;  // the closers still owed
  std::vector<Token> tokens_;
};
}  // namespace

Error template_error(int line, std::string what) {
  return Error{.code = ErrorCode::bad_template,
               .what = std::move(what),
               .where = "chat template, line " + std::to_string(line),
               .hint = {}};
}

Result<std::vector<Token>> tokenize(std::string_view source) {
  const size_t n_valid = valid_utf8_prefix(source);
  if (n_valid != source.size())
    return template_error(
        1 + static_cast<int>(std::count(source.begin(), source.begin() + static_cast<ptrdiff_t>(n_valid), '\n')),
        "not valid UTF-8");
  return Lexer(normalized_newlines(source)).run();
}

}  // namespace tokamak::jinja
