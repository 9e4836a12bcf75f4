// Filters on text and numbers.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/utf8.h"
#include "chat/jinja/filters.h"
#include "chat/jinja/unicode.h"

namespace tokamak::jinja {

namespace {
using Rt = Interpreter;

// soft_str(value): what text filters apply to any value.
Result<std::string> soft_text(Rt& rt, const Args& args) { return rt.str(args.subject()); }

Result<Value> filter_upper(Rt& rt, Args& args) { return rt.text(upper(TRY(soft_text(rt, args)))); }
Result<Value> filter_lower(Rt& rt, Args& args) { return rt.text(lower(TRY(soft_text(rt, args)))); }
Result<Value> filter_capitalize(Rt& rt, Args& args) { return rt.text(capitalize(TRY(soft_text(rt, args)))); }
Result<Value> filter_string(Rt& rt, Args& args) { return rt.text(TRY(soft_text(rt, args))); }

// Capitals after blanks and opening brackets, unlike str.title.
Result<Value> filter_title(Rt& rt, Args& args) {
  const std::string source = TRY(soft_text(rt, args));
  std::string out;
  bool at_start = true;
  for (const std::string_view c : characters(source)) {
    const char32_t code = decode_utf8(c, 0).code_point;
    const bool separator = is_space(code) || std::string_view("-({[<").find(c) != std::string_view::npos;
    out += separator ? std::string(c) : at_start ? upper(c) : lower(c);
    at_start = separator;
  }
  return rt.text(std::move(out));
}

Result<Value> filter_trim(Rt& rt, Args& args) {
  const std::string source = TRY(soft_text(rt, args));
  if (!args.given_value(1)) return rt.text(std::string(strip(source, Side::both)));
  return rt.text(std::string(strip(source, Side::both, TRY(args.text(1)))));
}

Result<Value> filter_replace(Rt& rt, Args& args) {
  const std::string source = TRY(soft_text(rt, args));
  const std::string from = TRY(rt.str(args.at(1)));
  const std::string to = TRY(rt.str(args.at(2)));
  const int64_t count = args.given_value(3) ? TRY(args.integer(3, -1)) : -1;
  TRY(rt.charge_product(count_of(source, from), to.size()));
  return rt.text(replace(source, from, to, count));
}

Result<Value> filter_center(Rt& rt, Args& args) {
  const std::string source = TRY(soft_text(rt, args));
  const int64_t width = TRY(args.integer(1, 80));
  TRY(rt.charge(static_cast<size_t>(std::max<int64_t>(width, 0))));
  return rt.text(pad(source, width, '^', " ", true));
}

Result<Value> filter_indent(Rt& rt, Args& args) {
  const std::string source = TRY(args.text(0));
  std::string indent;
  if (args.given(1) && args.at(1).is_string()) {
    indent = args.at(1).text();
  } else {
    const int64_t width = TRY(args.integer(1, 4));
    TRY(rt.charge(static_cast<size_t>(std::max<int64_t>(width, 0))));
    indent.assign(static_cast<size_t>(std::max<int64_t>(width, 0)), ' ');
  }
  const bool indent_first = args.truth(2, false);
  const bool indent_blank = args.truth(3, false);
  const std::vector<std::string> lines = split_lines(source + "\n", false);
  TRY(rt.charge_product(lines.size(), indent.size()));
  std::string out = indent_first ? indent : "";
  for (size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) {
      out += '\n';
      if (indent_blank || !lines[i].empty()) out += indent;
    }
    out += lines[i];
  }
  return rt.text(std::move(out));
}

Result<Value> filter_truncate(Rt& rt, Args& args) {
  const std::string source = TRY(args.text(0));
  const int64_t length = TRY(args.integer(1, 255));
  const bool kill_words = args.truth(2, false);
  const std::string end = TRY(args.text(3, "..."));
  const int64_t leeway = args.given_value(4) ? TRY(args.integer(4, 5)) : 5;
  const int64_t n_end = static_cast<int64_t>(count_chars(end));
  if (length < n_end) return rt.fail(fmt::format("expected length >= {}, got {}", n_end, length));
  if (leeway < 0) return rt.fail(fmt::format("expected leeway >= 0, got {}", leeway));
  const int64_t n_chars = static_cast<int64_t>(count_chars(source));
  if (n_chars - length <= leeway) return args.subject();
  std::string kept = source.substr(0, byte_offset(source, static_cast<size_t>(length - n_end)));
  if (!kill_words) kept = kept.substr(0, std::min(kept.rfind(' '), kept.size()));
  return rt.text(kept + end);
}

Result<Value> filter_wordcount(Rt& rt, Args& args) {
  const std::string source = TRY(soft_text(rt, args));
  int64_t n_words = 0;
  bool inside = false;
  for (size_t i = 0; i < source.size();) {
    const Utf8Char c = decode_utf8(source, i);
    const bool word = is_word(c.code_point);
    n_words += word && !inside;
    inside = word;
    i += c.n_bytes;
  }
  return Value(n_words);
}

Result<Value> filter_format(Rt& rt, Args& args) {
  const std::string format = TRY(soft_text(rt, args));
  if (!args.rest.positional.empty() && !args.rest.named.empty())
    return rt.fail("can't handle positional and keyword arguments at the same time");
  if (args.rest.named.empty())
    return rt.text(TRY(percent_format(rt, format, TRY(rt.tuple(std::move(args.rest.positional))))));
  Dict named;
  for (auto& [name, value] : args.rest.named) named.set(Value(name), std::move(value));
  return rt.text(TRY(percent_format(rt, format, TRY(rt.dict(std::move(named))))));
}

Result<Value> filter_escape(Rt& rt, Args& args) {
  std::string out;
  for (const char c : TRY(soft_text(rt, args))) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '\'':
        out += "&#39;";
        break;
      case '"':
        out += "&#34;";
        break;
      default:
        out += c;
    }
  }
  return rt.text(std::move(out));
}

std::string url_quote(std::string_view text, bool for_query) {
  std::string out;
  for (const char c : text) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
                       c == '.' || c == '-' || c == '~' || (c == '/' && !for_query);
    if (plain)
      out += c;
    else if (c == ' ' && for_query)
      out += '+';
    else
      out += fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return out;
}

Result<Value> filter_urlencode(Rt& rt, Args& args) {
  const Value& value = args.subject();
  if (value.is_string() || !Cursor::accepts(value)) return rt.text(url_quote(TRY(rt.str(value)), false));
  std::string out;
  const Value pairs = value.is(Kind::dict) ? Value(View{value.shared_dict(), ViewOf::items}) : value;
  for (const Value& pair : TRY(rt.to_list(pairs))) {
    const List parts = TRY(rt.to_list(pair));
    if (parts.size() != 2) return rt.fail("urlencode wants pairs");
    if (!out.empty()) out += '&';
    out += url_quote(TRY(rt.str(parts[0])), true) + "=" + url_quote(TRY(rt.str(parts[1])), true);
  }
  return rt.text(std::move(out));
}

Result<Value> filter_int(Rt& rt, Args& args) {
  const Value& value = args.subject();
  const Value fallback = args.given(1) ? args.at(1) : Value(int64_t{0});
  std::optional<double> number;
  if (value.is(Kind::undefined)) return rt.fail(std::string(value.undefined_message()));
  if (value.is_int_like()) return Value(value.as_int());
  if (value.is_string()) {
    if (const auto parsed = parse_int(value.text(), TRY(args.integer(2, 10)))) return Value(*parsed);
    number = parse_float(value.text());
  } else if (value.is(Kind::floating)) {
    number = value.floating();
  }
  if (!number || !std::isfinite(*number)) return fallback;
  if (std::fabs(*number) >= 0x1p63) return rt.fail("integer does not fit into 64 bits");
  return Value(static_cast<int64_t>(*number));
}

Result<Value> filter_float(Rt& rt, Args& args) {
  const Value& value = args.subject();
  if (value.is(Kind::undefined)) return rt.fail(std::string(value.undefined_message()));
  if (value.is_number()) return Value(value.as_double());
  if (value.is_string())
    if (const auto parsed = parse_float(value.text())) return Value(*parsed);
  return args.given(1) ? args.at(1) : Value(0.0);
}

Result<Value> filter_abs(Rt& rt, Args& args) {
  const Value& value = args.subject();
  if (value.is(Kind::undefined)) return rt.fail(std::string(value.undefined_message()));
  if (!value.is_number()) return rt.fail("bad operand type for abs(): '" + std::string(value.type_name()) + "'");
  if (value.is(Kind::floating)) return Value(std::fabs(value.floating()));
  return value.as_int() < 0 ? rt.negate(value) : Result<Value>(Value(value.as_int()));
}

// round() to `precision` digits, exact ties to even.
double round_common(double value, int64_t precision) {
  if (!std::isfinite(value) || precision > 300) return value;
  if (precision >= 0) return parse_float(fmt::format("{:.{}f}", value, static_cast<int>(precision))).value_or(value);
  if (precision < -300) return 0.0;
  const double unit = std::pow(10.0, static_cast<double>(-precision));
  return std::nearbyint(value / unit) * unit;
}

Result<Value> filter_round(Rt& rt, Args& args) {
  const Value& value = args.subject();
  const int64_t precision = TRY(args.integer(1, 0));
  const std::string method = TRY(args.text(2, "common"));
  if (value.is(Kind::undefined)) return rt.fail(std::string(value.undefined_message()));
  if (!value.is_number()) return rt.fail("type " + std::string(value.type_name()) + " doesn't define __round__ method");
  if (method == "common") {
    if (value.is_int_like() && precision >= 0) return Value(value.as_int());
    const double rounded = round_common(value.as_double(), precision);
    return value.is_int_like() ? Value(static_cast<int64_t>(rounded)) : Value(rounded);
  }
  if (method != "ceil" && method != "floor") return rt.fail("method must be common, ceil or floor");
  const double unit = std::pow(10.0, static_cast<double>(precision));
  const double scaled = value.as_double() * unit;
  return Value((method == "ceil" ? std::ceil(scaled) : std::floor(scaled)) / unit);
}

Result<Value> filter_filesizeformat(Rt& rt, Args& args) {
  static constexpr std::string_view kPrefixes = "kMGTPEZY";
  const Value& value = args.subject();
  const auto number = value.is_number()   ? std::optional(value.as_double())
                      : value.is_string() ? parse_float(value.text())
                                          : std::nullopt;
  if (!number) return rt.fail("filesizeformat wants a number");
  const bool binary = args.truth(1, false);
  const double base = binary ? 1024 : 1000;
  if (*number == 1) return Value("1 Byte");
  if (*number < base) return rt.text(fmt::format("{} Bytes", static_cast<int64_t>(std::max(*number, -0x1p62))));
  double unit = base * base;
  size_t i = 0;
  for (; i + 1 < kPrefixes.size() && *number >= unit; ++i) unit *= base;
  std::string name(1, binary && kPrefixes[i] == 'k' ? 'K' : kPrefixes[i]);
  return rt.text(fmt::format("{:.1f} {}{}", base * *number / unit, name, binary ? "iB" : "B"));
}

constexpr auto kTable = std::to_array<BuiltinRow>({
    {"abs", "value", filter_abs},
    {"capitalize", "s", filter_capitalize},
    {"center", "value width?", filter_center},
    {"e", "s", filter_escape},
    {"escape", "s", filter_escape},
    {"filesizeformat", "value binary?", filter_filesizeformat},
    {"float", "value default?", filter_float},
    {"forceescape", "value", filter_escape},
    {"format", "value *", filter_format},
    {"indent", "s width? first? blank?", filter_indent},
    {"int", "value default? base?", filter_int},
    {"lower", "s", filter_lower},
    {"replace", "s old new count?", filter_replace},
    {"round", "value precision? method?", filter_round},
    {"safe", "value", filter_string},
    {"string", "object", filter_string},
    {"title", "s", filter_title},
    {"tojson", "x ensure_ascii? indent? separators? sort_keys?", filter_tojson},
    {"trim", "value chars?", filter_trim},
    {"truncate", "s length? killwords? end? leeway?", filter_truncate},
    {"upper", "s", filter_upper},
    {"urlencode", "value", filter_urlencode},
    {"wordcount", "s", filter_wordcount},
});
}  // namespace

Result<Value> filter_tojson(Rt& rt, Args& args) {
  JsonStyle style;
  style.ensure_ascii = args.truth(1, false);
  style.sort_keys = args.truth(4, false);
  if (args.given_value(2)) {
    style.has_indent = true;
    style.item_separator = ",";
    if (args.at(2).is_string()) {
      style.indent = args.at(2).text();
    } else {
      const int64_t width = std::max<int64_t>(TRY(args.integer(2, 0)), 0);
      TRY(rt.charge(static_cast<size_t>(width)));
      style.indent.assign(static_cast<size_t>(width), ' ');
    }
  }
  if (args.given_value(3)) {
    const List separators = TRY(rt.to_list(args.at(3)));
    if (separators.size() != 2 || !separators[0].is_string() || !separators[1].is_string())
      return rt.fail("tojson: separators must be a pair of strings");
    style.item_separator = separators[0].text();
    style.key_separator = separators[1].text();
  }
  return rt.text(TRY(to_json(rt, args.subject(), style)));
}

std::span<const BuiltinRow> text_filter_table() { return kTable; }

}  // namespace tokamak::jinja
