// Python's two ways to format: "%05d" % value and "{:>8}".format(value).
// Source: Python 3.11 library reference, "printf-style String Formatting" and "Format Specification Mini-Language".
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/utf8.h"
#include "chat/jinja/interpreter.h"
#include "chat/jinja/unicode.h"

namespace tokamak::jinja {

namespace {
constexpr int64_t kMaxWidth = 1 << 20;

struct Spec {
  std::string fill = " ";
  char align = 0;  // < > ^ =
  char sign = '-';
  bool alternate = false;
  bool zero = false;
  int64_t width = 0;
  char group = 0;  // , or _
  int64_t precision = -1;
  char type = 0;
};

std::string group_digits(std::string digits, char separator, size_t every) {
  const size_t end = std::min(digits.find_first_of(".e"), digits.size());
  for (size_t at = end; at > every; at -= every) digits.insert(at - every, 1, separator);
  return digits;
}

// Digits of |value|; type one of d x X o b.
std::string integer_digits(int64_t value, char type) {
  const uint64_t magnitude = value < 0 ? 0 - static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
  switch (type) {
    case 'x':
      return fmt::format("{:x}", magnitude);
    case 'X':
      return fmt::format("{:X}", magnitude);
    case 'o':
      return fmt::format("{:o}", magnitude);
    case 'b':
      return fmt::format("{:b}", magnitude);
    default:
      return fmt::format("{}", magnitude);
  }
}

std::string float_digits(double magnitude, char type, int64_t precision, bool alternate) {
  if (std::isnan(magnitude) || std::isinf(magnitude)) {
    const std::string text = std::isnan(magnitude) ? "nan" : "inf";
    return type == 'F' || type == 'E' || type == 'G' ? upper(text) : text;
  }
  const int digits = static_cast<int>(std::clamp<int64_t>(precision < 0 ? 6 : precision, 0, 1000));
  switch (type) {
    case 'e':
      return alternate ? fmt::format("{:#.{}e}", magnitude, digits) : fmt::format("{:.{}e}", magnitude, digits);
    case 'E':
      return alternate ? fmt::format("{:#.{}E}", magnitude, digits) : fmt::format("{:.{}E}", magnitude, digits);
    case 'g':
      return alternate ? fmt::format("{:#.{}g}", magnitude, digits) : fmt::format("{:.{}g}", magnitude, digits);
    case 'G':
      return alternate ? fmt::format("{:#.{}G}", magnitude, digits) : fmt::format("{:.{}G}", magnitude, digits);
    default:
      return alternate ? fmt::format("{:#.{}f}", magnitude, digits) : fmt::format("{:.{}f}", magnitude, digits);
  }
}

std::string sign_text(bool negative, char sign) {
  if (negative) return "-";
  return sign == '+' ? "+" : sign == ' ' ? " " : "";
}

// Prefix (sign, 0x) and digits, padded to the width; '=' puts the fill between them.
std::string padded_number(const std::string& prefix, const std::string& digits, const Spec& spec) {
  const char align = spec.align != 0 ? spec.align : spec.zero ? '=' : '>';
  const std::string fill = spec.zero && spec.align == 0 ? "0" : spec.fill;
  const int64_t n_prefix = static_cast<int64_t>(prefix.size());
  if (align == '=') return prefix + pad(digits, spec.width - n_prefix, '>', fill);
  return pad(prefix + digits, spec.width, align, fill);
}

Result<int64_t> read_number(Interpreter& interpreter, std::string_view text, size_t& at) {
  int64_t value = 0;
  while (at < text.size() && text[at] >= '0' && text[at] <= '9') {
    value = value * 10 + (text[at++] - '0');
    if (value > kMaxWidth) return interpreter.fail("width or precision is too large");
  }
  return value;
}

// ---- printf style ----

class PercentFormatter {
 public:
  PercentFormatter(Interpreter& interpreter, std::string_view format, const Value& values)
      : interpreter_(interpreter), format_(format), values_(values) {}

  Result<std::string> run() {
    std::string out;
    for (size_t at = 0; at < format_.size();) {
      if (format_[at] != '%') {
        out += format_[at++];
        continue;
      }
      ++at;
      out += TRY(directive(at));
      if (out.size() > kMaxBytes) return interpreter_.fail("formatted text is too long");
    }
    const bool unused =
        values_.is(Kind::tuple) ? next_ < values_.items().size() : next_ == 0 && !used_mapping_ && !is_mapping_like();
    if (unused) return interpreter_.fail("not all arguments converted during string formatting");
    return out;
  }

 private:
  static constexpr size_t kMaxBytes = 64u << 20;
  bool is_mapping_like() const { return values_.is(Kind::dict) || values_.is(Kind::list); }

  Result<Value> next_value() {
    if (values_.is(Kind::tuple)) {
      if (next_ >= values_.items().size()) return interpreter_.fail("not enough arguments for format string");
      return values_.items()[next_++];
    }
    if (next_++ > 0) return interpreter_.fail("not enough arguments for format string");
    return values_;
  }

  Result<int64_t> star_or_number(size_t& at) {
    if (at < format_.size() && format_[at] == '*') {
      ++at;
      const Value value = TRY(next_value());
      if (!value.is_int_like()) return interpreter_.fail("* wants int");
      if (value.as_int() > kMaxWidth || value.as_int() < -kMaxWidth)
        return interpreter_.fail("width or precision is too large");
      return value.as_int();
    }
    return read_number(interpreter_, format_, at);
  }

  Result<std::string> directive(size_t& at) {
    std::optional<Value> named;
    if (at < format_.size() && format_[at] == '(') named = TRY(mapping_value(at));
    Spec spec;
    bool left = false;
    for (; at < format_.size() && std::string_view("-+ 0#").find(format_[at]) != std::string_view::npos; ++at) {
      const char flag = format_[at];
      left |= flag == '-';
      spec.zero |= flag == '0';
      spec.alternate |= flag == '#';
      if (flag == '+' || (flag == ' ' && spec.sign != '+')) spec.sign = flag;
    }
    spec.width = TRY(star_or_number(at));
    if (spec.width < 0) {
      left = true;
      spec.width = -spec.width;
    }
    if (at < format_.size() && format_[at] == '.') {
      ++at;
      spec.precision = std::max<int64_t>(TRY(star_or_number(at)), 0);
    }
    while (at < format_.size() && (format_[at] == 'l' || format_[at] == 'h' || format_[at] == 'L')) ++at;
    if (at >= format_.size()) return interpreter_.fail("incomplete format");
    spec.type = format_[at++];
    if (spec.type == '%') return std::string("%");
    const Value value = named ? *named : TRY(next_value());
    if (left) {
      spec.align = '<';
      spec.zero = false;
    }
    return convert(spec, value);
  }

  Result<Value> mapping_value(size_t& at) {
    const size_t close = format_.find(')', at);
    if (close == format_.npos) return interpreter_.fail("incomplete format key");
    const std::string_view key = format_.substr(at + 1, close - at - 1);
    at = close + 1;
    if (!values_.is(Kind::dict)) return interpreter_.fail("format requires a mapping");
    used_mapping_ = true;
    const Value* value = values_.dict().find(key);
    if (value == nullptr) return interpreter_.fail(repr_string(key));
    return *value;
  }

  Result<std::string> convert(const Spec& spec, const Value& value) {
    switch (spec.type) {
      case 's':
      case 'r':
      case 'a': {
        std::string text = TRY(spec.type == 's' ? interpreter_.str(value) : interpreter_.repr(value));
        if (spec.precision >= 0) text.resize(byte_offset(text, static_cast<size_t>(spec.precision)));
        return pad(text, spec.width, spec.align == '<' ? '<' : '>', " ");
      }
      case 'c':
        return character(spec, value);
      case 'd':
      case 'i':
      case 'u':
      case 'x':
      case 'X':
      case 'o':
        return integer(spec, value);
      case 'e':
      case 'E':
      case 'f':
      case 'F':
      case 'g':
      case 'G':
        return floating(spec, value);
      default:
        return interpreter_.fail(std::string("unsupported format character '") + spec.type + "'");
    }
  }

  Result<std::string> character(const Spec& spec, const Value& value) {
    std::string text;
    if (value.is_string() && count_chars(value.text()) == 1) {
      text = value.text();
    } else if (value.is_int_like() && value.as_int() >= 0 && value.as_int() < 0x110000 &&
               (value.as_int() < 0xD800 || value.as_int() > 0xDFFF)) {
      append_utf8(text, static_cast<char32_t>(value.as_int()));
    } else {
      return interpreter_.fail("%c requires int or char");
    }
    return pad(text, spec.width, spec.align == '<' ? '<' : '>', " ");
  }

  Error number_error(const Spec& spec, const Value& value, std::string_view wanted) const {
    if (value.is(Kind::undefined)) return interpreter_.fail(std::string(value.undefined_message()));
    return interpreter_.fail(std::string("%") + spec.type + " format: " + std::string(wanted) + " is required, not " +
                             std::string(value.type_name()));
  }

  Result<std::string> integer(const Spec& spec, const Value& value) {
    int64_t number = 0;
    if (value.is_int_like()) {
      number = value.as_int();
    } else if (value.is(Kind::floating) && std::abs(value.floating()) < 0x1p63 &&
               (spec.type == 'd' || spec.type == 'i' || spec.type == 'u')) {
      number = static_cast<int64_t>(value.floating());
    } else {
      return number_error(spec, value,
                          spec.type == 'd' || spec.type == 'i' || spec.type == 'u' ? "a real number" : "an integer");
    }
    std::string digits = integer_digits(number, spec.type);
    if (spec.precision > static_cast<int64_t>(digits.size())) digits = pad(digits, spec.precision, '>', "0");
    std::string prefix = sign_text(number < 0, spec.sign);
    if (spec.alternate && spec.type != 'd' && spec.type != 'i' && spec.type != 'u')
      prefix += std::string("0") + spec.type;
    return padded_number(prefix, digits, spec);
  }

  Result<std::string> floating(const Spec& spec, const Value& value) {
    if (!value.is_number()) return number_error(spec, value, "a real number");
    const double number = value.as_double();
    Spec finite = spec;
    if (!std::isfinite(number)) finite.zero = false;
    return padded_number(sign_text(std::signbit(number) && !std::isnan(number), spec.sign),
                         float_digits(std::fabs(number), spec.type, spec.precision, spec.alternate), finite);
  }

  Interpreter& interpreter_;
  std::string_view format_;
  const Value& values_;
  size_t next_ = 0;
  bool used_mapping_ = false;
};

// ---- str.format ----

class BraceFormatter {
 public:
  BraceFormatter(Interpreter& interpreter, const CallArgs& args) : interpreter_(interpreter), args_(args) {}

  Result<std::string> run(std::string_view format, int depth) {
    if (depth > 2) return interpreter_.fail("max string recursion exceeded");
    std::string out;
    for (size_t at = 0; at < format.size();) {
      const char c = format[at];
      const bool doubled = at + 1 < format.size() && format[at + 1] == c;
      if ((c == '{' || c == '}') && doubled) {
        out += c;
        at += 2;
      } else if (c == '}') {
        return interpreter_.fail("Single '}' encountered in format string");
      } else if (c == '{') {
        out += TRY(field(format, at, depth));
        if (out.size() > kMaxBytes) return interpreter_.fail("formatted text is too long");
      } else {
        out += c;
        ++at;
      }
    }
    return out;
  }

 private:
  static constexpr size_t kMaxBytes = 64u << 20;

  // format[at] is '{'; leaves at behind the matching '}'.
  Result<std::string> field(std::string_view format, size_t& at, int depth) {
    size_t end = at + 1;
    for (int open = 1; end < format.size(); ++end) {
      open += format[end] == '{' ? 1 : format[end] == '}' ? -1 : 0;
      if (open == 0) break;
    }
    if (end >= format.size()) return interpreter_.fail("expected '}' before end of string");
    const std::string_view inside = format.substr(at + 1, end - at - 1);
    at = end + 1;
    const size_t name_end = std::min(inside.find_first_of("!:"), inside.size());
    Value value = TRY(look_up(inside.substr(0, name_end)));
    std::string_view rest = inside.substr(name_end);
    if (rest.starts_with('!')) {
      if (rest.size() < 2) return interpreter_.fail("end of string while looking for conversion specifier");
      if (rest[1] == 'r' || rest[1] == 'a')
        value = Value(TRY(interpreter_.repr(value)));
      else if (rest[1] == 's')
        value = Value(TRY(interpreter_.str(value)));
      else
        return interpreter_.fail("unknown conversion specifier");
      rest.remove_prefix(2);
    }
    if (!rest.empty() && rest[0] != ':') return interpreter_.fail("expected ':' after conversion specifier");
    const std::string spec = rest.empty() ? std::string() : TRY(run(rest.substr(1), depth + 1));
    return apply(value, spec);
  }

  Result<Value> look_up(std::string_view name) {
    const size_t first_end = std::min(name.find_first_of(".["), name.size());
    Value value = TRY(first_value(name.substr(0, first_end)));
    name.remove_prefix(first_end);
    while (!name.empty()) {
      if (name[0] == '.') {
        const size_t end = std::min(name.find_first_of(".[", 1), name.size());
        value = TRY(interpreter_.attribute_of(value, name.substr(1, end - 1)));
        name.remove_prefix(end);
        continue;
      }
      const size_t close = name.find(']');
      if (name[0] != '[' || close == name.npos) return interpreter_.fail("missing ']' in format string");
      const std::string_view key = name.substr(1, close - 1);
      int64_t index = 0;
      const bool is_index = std::from_chars(key.data(), key.data() + key.size(), index).ptr == key.data() + key.size();
      value = TRY(interpreter_.item_of(value, is_index && !key.empty() ? Value(index) : Value(key)));
      name.remove_prefix(close + 1);
    }
    return value;
  }

  Result<Value> first_value(std::string_view name) {
    int64_t index = 0;
    const bool is_index = !name.empty() && std::from_chars(name.data(), name.data() + name.size(), index).ptr ==
                                               name.data() + name.size();
    if (name.empty() || is_index) {
      if (name.empty() ? next_ < 0 : next_ > 0)
        return interpreter_.fail("cannot switch between manual and automatic field numbering");
      const int64_t i = name.empty() ? next_++ : index;
      if (is_index) next_ = -1;
      if (i < 0 || i >= static_cast<int64_t>(args_.positional.size()))
        return interpreter_.fail("Replacement index " + std::to_string(i) + " out of range for positional args tuple");
      return args_.positional[static_cast<size_t>(i)];
    }
    for (const auto& [key, value] : args_.named)
      if (key == name) return value;
    return interpreter_.fail(repr_string(name));
  }

  Result<Spec> parse_spec(std::string_view text) {
    Spec spec;
    size_t at = 0;
    if (!text.empty()) {
      const size_t n_fill = decode_utf8(text, 0).n_bytes;
      if (n_fill < text.size() && is_align(text[n_fill])) {
        spec.fill = text.substr(0, n_fill);
        spec.align = text[n_fill];
        at = n_fill + 1;
      } else if (is_align(text[0])) {
        spec.align = text[0];
        at = 1;
      }
    }
    const auto here = [&] { return at < text.size() ? text[at] : '\0'; };
    if (here() == '+' || here() == '-' || here() == ' ') spec.sign = text[at++];
    if (here() == '#') spec.alternate = ++at > 0;
    if (here() == '0') spec.zero = ++at > 0;
    spec.width = TRY(read_number(interpreter_, text, at));
    if (here() == ',' || here() == '_') spec.group = text[at++];
    if (here() == '.') {
      const size_t digits_at = ++at;
      spec.precision = TRY(read_number(interpreter_, text, at));
      if (at == digits_at) return interpreter_.fail("Format specifier missing precision");
    }
    if (at < text.size()) spec.type = text[at++];
    if (at < text.size()) return interpreter_.fail("Invalid format specifier");
    return spec;
  }

  static bool is_align(char c) { return c == '<' || c == '>' || c == '^' || c == '='; }

  Result<std::string> apply(const Value& value, std::string_view text) {
    if (text.empty()) return interpreter_.str(value);
    Spec spec = TRY(parse_spec(text));
    const bool number_type = spec.type != 0 && spec.type != 's';
    if (value.is_number() && !(value.is(Kind::boolean) && spec.type == 0)) {
      if (spec.type == 's') return unknown_code(spec, value);
      const bool as_float = value.is(Kind::floating) ||
                            (spec.type != 0 && std::string_view("eEfFgG%").find(spec.type) != std::string_view::npos);
      return as_float ? floating(spec, value) : integer(spec, value);
    }
    if (!value.is_string() && !value.is(Kind::boolean))
      return interpreter_.fail("unsupported format string passed to " + std::string(value.type_name()) + ".__format__");
    if (number_type || spec.align == '=') return unknown_code(spec, value);
    std::string shown = TRY(interpreter_.str(value));
    if (spec.precision >= 0) shown.resize(byte_offset(shown, static_cast<size_t>(spec.precision)));
    const char align = spec.align != 0 ? spec.align : value.is(Kind::boolean) ? '>' : '<';
    return pad(shown, spec.width, align, spec.zero && spec.align == 0 ? "0" : spec.fill);
  }

  Error unknown_code(const Spec& spec, const Value& value) const {
    return interpreter_.fail(std::string("Unknown format code '") + (spec.type != 0 ? spec.type : '=') +
                             "' for object of type '" + std::string(value.type_name()) + "'");
  }

  Result<std::string> integer(const Spec& spec, const Value& value) {
    const char type = spec.type == 0 || spec.type == 'n' ? 'd' : spec.type;
    if (type == 'c') {
      std::string text;
      if (value.as_int() < 0 || value.as_int() > 0x10FFFF) return interpreter_.fail("%c arg not in range(0x110000)");
      append_utf8(text, static_cast<char32_t>(value.as_int()));
      return pad(text, spec.width, spec.align != 0 ? spec.align : '<', spec.fill);
    }
    if (std::string_view("dxXob").find(type) == std::string_view::npos) return unknown_code(spec, value);
    if (spec.precision >= 0) return interpreter_.fail("Precision not allowed in integer format specifier");
    std::string digits = integer_digits(value.as_int(), type);
    if (spec.group != 0) digits = group_digits(std::move(digits), spec.group, type == 'd' ? 3 : 4);
    std::string prefix = sign_text(value.as_int() < 0, spec.sign);
    if (spec.alternate && type != 'd') prefix += std::string("0") + type;
    return padded_number(prefix, digits, spec);
  }

  Result<std::string> floating(const Spec& spec, const Value& value) {
    const double number = value.as_double();
    const double magnitude = std::fabs(number);
    std::string digits;
    if (spec.type == 0 && spec.precision < 0) {
      digits = float_repr(magnitude);
    } else if (spec.type == 0) {  // like g, but with at least one digit behind the point
      digits = float_digits(magnitude, 'g', std::max<int64_t>(spec.precision, 1), spec.alternate);
      if (digits.find_first_of(".en") == digits.npos) digits += ".0";
    } else if (spec.type == '%') {
      digits = float_digits(magnitude * 100, 'f', spec.precision, spec.alternate) + "%";
    } else if (std::string_view("eEfFgGn").find(spec.type) != std::string_view::npos) {
      digits = float_digits(magnitude, spec.type == 'n' ? 'g' : spec.type, spec.precision, spec.alternate);
    } else {
      return unknown_code(spec, value);
    }
    if (spec.group != 0) digits = group_digits(std::move(digits), spec.group, 3);
    return padded_number(sign_text(std::signbit(number), spec.sign), digits, spec);
  }

  Interpreter& interpreter_;
  const CallArgs& args_;
  int64_t next_ = 0;  // -1 once a field was numbered by hand
};
}  // namespace

Result<std::string> percent_format(Interpreter& interpreter, std::string_view format, const Value& values) {
  return PercentFormatter(interpreter, format, values).run();
}

Result<std::string> brace_format(Interpreter& interpreter, std::string_view format, const CallArgs& args) {
  return BraceFormatter(interpreter, args).run(format, 1);
}

}  // namespace tokamak::jinja
