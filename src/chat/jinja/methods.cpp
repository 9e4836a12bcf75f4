// Methods of Python's builtin types.
#include <algorithm>
#include <array>

#include "chat/jinja/filters.h"
#include "chat/jinja/interpreter.h"
#include "chat/jinja/unicode.h"

namespace tokamak::jinja {

namespace {
using Rt = Interpreter;

const std::string& self(const Args& args) { return args.subject().text(); }

template <std::string (*map)(std::string_view)>
Result<Value> method_case(Rt& rt, Args& args) {
  return rt.text(map(self(args)));
}

template <CharClass what>
Result<Value> method_class(Rt&, Args& args) {
  return Value(all_of_class(self(args), what));
}

template <Side side>
Result<Value> method_strip(Rt& rt, Args& args) {
  if (!args.given_value(1)) return rt.text(std::string(strip(self(args), side)));
  return rt.text(std::string(strip(self(args), side, TRY(args.text(1)))));
}

template <bool from_right>
Result<Value> method_split(Rt& rt, Args& args) {
  const int64_t max_splits = TRY(args.integer(2, -1));
  TRY(rt.charge(self(args).size()));
  if (!args.given_value(1))
    return rt.texts(from_right ? rsplit_space(self(args), max_splits) : split_space(self(args), max_splits));
  const std::string separator = TRY(args.text(1));
  if (separator.empty()) return rt.fail("empty separator");
  TRY(rt.charge_product(count_of(self(args), separator), sizeof(std::string)));
  return rt.texts(from_right ? rsplit_on(self(args), separator, max_splits)
                             : split_on(self(args), separator, max_splits));
}

Result<Value> method_splitlines(Rt& rt, Args& args) {
  TRY(rt.charge(self(args).size()));
  return rt.texts(split_lines(self(args), args.truth(1, false)));
}

template <bool at_end>
Result<Value> method_affix(Rt& rt, Args& args) {
  // Positions as in find; a tuple asks for any of its members.
  List candidates{args.at(1)};
  if (args.at(1).is(Kind::tuple)) candidates = args.at(1).items();
  const int64_t n = static_cast<int64_t>(count_chars(self(args)));
  const auto bound = [&](size_t i, int64_t fallback) -> Result<int64_t> {
    if (!args.given_value(i)) return fallback;
    const int64_t at = TRY(args.integer(i, 0));
    return std::clamp<int64_t>(at < 0 ? at + n : at, 0, n);
  };
  const int64_t begin = TRY(bound(2, 0));
  const int64_t end = TRY(bound(3, n));
  if (begin > end) return Value(false);
  std::string_view text = self(args);
  const size_t first = byte_offset(text, static_cast<size_t>(begin));
  text = text.substr(first, byte_offset(text, static_cast<size_t>(end)) - first);
  for (const Value& candidate : candidates) {
    if (!candidate.is_string())
      return rt.fail("startswith and endswith want a str or a tuple of str, not " + std::string(candidate.type_name()));
    if (at_end ? text.ends_with(candidate.text()) : text.starts_with(candidate.text())) return Value(true);
  }
  return Value(false);
}

enum class Search : uint8_t { find, rfind, index, rindex, count };

template <Search search>
Result<Value> method_search(Rt& rt, Args& args) {
  const std::string part = TRY(args.text(1));
  const std::string& text = self(args);
  const int64_t n = static_cast<int64_t>(count_chars(text));
  int64_t begin = args.given_value(2) ? TRY(args.integer(2, 0)) : 0;
  int64_t end = args.given_value(3) ? TRY(args.integer(3, n)) : n;
  if (begin < 0) begin = std::max<int64_t>(begin + n, 0);
  if (end < 0) end = std::max<int64_t>(end + n, 0);
  end = std::min(end, n);
  size_t hit = std::string::npos;
  size_t first = 0;
  if (begin <= end) {
    first = byte_offset(text, static_cast<size_t>(begin));
    const std::string_view window =
        std::string_view(text).substr(first, byte_offset(text, static_cast<size_t>(end)) - first);
    if (search == Search::count) return Value(static_cast<int64_t>(count_of(window, part)));
    hit = search == Search::find || search == Search::index ? window.find(part) : window.rfind(part);
  } else if (search == Search::count) {
    return Value(int64_t{0});
  }
  if (hit != std::string::npos)
    return Value(static_cast<int64_t>(count_chars(std::string_view(text).substr(0, first + hit))));
  if (search == Search::index || search == Search::rindex) return rt.fail("substring not found");
  return Value(int64_t{-1});
}

Result<Value> method_replace(Rt& rt, Args& args) {
  const std::string from = TRY(args.text(1));
  const std::string to = TRY(args.text(2));
  TRY(rt.charge_product(count_of(self(args), from), to.size()));
  return rt.text(replace(self(args), from, to, TRY(args.integer(3, -1))));
}

Result<Value> method_join(Rt& rt, Args& args) {
  std::string out;
  bool first = true;
  for (const Value& item : TRY(rt.to_list(args.at(1)))) {
    if (!item.is_string())
      return rt.fail("sequence item: expected str instance, " + std::string(item.type_name()) + " found");
    TRY(rt.charge(item.text().size() + self(args).size()));
    if (!first) out += self(args);
    out += item.text();
    first = false;
  }
  return rt.text(std::move(out));
}

Result<Value> method_format(Rt& rt, Args& args) { return rt.text(TRY(brace_format(rt, self(args), args.rest))); }

Result<Value> method_format_map(Rt& rt, Args& args) {
  CallArgs named;
  if (!args.at(1).is(Kind::dict)) return rt.fail("format_map() wants a mapping");
  for (const auto& [key, value] : args.at(1).dict().items)
    if (key.is_string()) named.named.emplace_back(key.text(), value);
  return rt.text(TRY(brace_format(rt, self(args), named)));
}

template <char align>
Result<Value> method_pad(Rt& rt, Args& args) {
  const int64_t width = TRY(args.integer(1, 0));
  const std::string fill = TRY(args.text(2, " "));
  if (count_chars(fill) != 1) return rt.fail("the fill character must be exactly one character long");
  TRY(rt.charge_product(static_cast<size_t>(std::max<int64_t>(width, 0)), fill.size()));
  return rt.text(pad(self(args), width, align, fill, align == '^'));
}

Result<Value> method_zfill(Rt& rt, Args& args) {
  const int64_t width = TRY(args.integer(1, 0));
  TRY(rt.charge(static_cast<size_t>(std::max<int64_t>(width, 0))));
  const bool has_sign = self(args).starts_with('-') || self(args).starts_with('+');
  const std::string sign = has_sign ? self(args).substr(0, 1) : "";
  return rt.text(sign + pad(std::string_view(self(args)).substr(sign.size()), width - static_cast<int64_t>(sign.size()),
                            '>', "0"));
}

template <bool at_end>
Result<Value> method_remove_affix(Rt& rt, Args& args) {
  const std::string affix = TRY(args.text(1));
  std::string_view text = self(args);
  if (at_end ? text.ends_with(affix) : text.starts_with(affix))
    at_end ? text.remove_suffix(affix.size()) : text.remove_prefix(affix.size());
  return rt.text(std::string(text));
}

template <bool from_right>
Result<Value> method_partition(Rt& rt, Args& args) {
  const std::string separator = TRY(args.text(1));
  if (separator.empty()) return rt.fail("empty separator");
  const std::string& text = self(args);
  const size_t hit = from_right ? text.rfind(separator) : text.find(separator);
  TRY(rt.charge(text.size()));
  if (hit == text.npos)
    return from_right ? rt.tuple({Value(""), Value(""), args.subject()})
                      : rt.tuple({args.subject(), Value(""), Value("")});
  return rt.tuple({Value(text.substr(0, hit)), Value(separator), Value(text.substr(hit + separator.size()))});
}

Result<Value> method_expandtabs(Rt& rt, Args& args) {
  const int64_t size = std::clamp<int64_t>(TRY(args.integer(1, 8)), 0, 1024);
  std::string out;
  int64_t column = 0;
  for (const std::string_view c : characters(self(args))) {
    if (c != "\t") {
      out += c;
      column = c == "\n" || c == "\r" ? 0 : column + 1;
      continue;
    }
    const int64_t n = size == 0 ? 0 : size - column % size;
    TRY(rt.charge(static_cast<size_t>(n)));
    out.append(static_cast<size_t>(n), ' ');
    column += n;
  }
  return rt.text(std::move(out));
}

Result<Value> method_get(Rt& rt, Args& args) {
  if (!is_hashable(args.at(1))) return rt.fail("unhashable type: '" + std::string(args.at(1).type_name()) + "'");
  if (const Value* value = args.subject().dict().find(args.at(1))) return *value;
  return args.given(2) ? args.at(2) : Value::none();
}

template <ViewOf what>
Result<Value> method_view(Rt& rt, Args& args) {
  if (args.subject().depth() + 1 >= kMaxValueDepth) return rt.fail("values are nested too deeply");
  return Value(View{args.subject().shared_dict(), what});
}

Result<Value> method_copy(Rt&, Args& args) { return args.subject(); }  // values never change

Result<Value> method_index(Rt& rt, Args& args) {
  const List& items = args.subject().items();
  const int64_t n = static_cast<int64_t>(items.size());
  int64_t begin = TRY(args.integer(2, 0));
  int64_t end = TRY(args.integer(3, n));
  if (begin < 0) begin = std::max<int64_t>(begin + n, 0);
  if (end < 0) end += n;
  for (int64_t i = begin; i < std::min(end, n); ++i)
    if (TRY(rt.equals(items[static_cast<size_t>(i)], args.at(1)))) return Value(i);
  return rt.fail(TRY(rt.repr(args.at(1))) + " is not in list");
}

Result<Value> method_count(Rt& rt, Args& args) {
  int64_t n = 0;
  for (const Value& item : args.subject().items()) n += TRY(rt.equals(item, args.at(1)));
  return Value(n);
}

constexpr auto kTable = std::to_array<MethodRow>({
    {Kind::string, {"capitalize", "self", method_case<capitalize>}},
    {Kind::string, {"center", "self width fillchar?", method_pad<'^'>}},
    {Kind::string, {"count", "self sub start? end?", method_search<Search::count>}},
    {Kind::string, {"endswith", "self suffix start? end?", method_affix<true>}},
    {Kind::string, {"expandtabs", "self tabsize?", method_expandtabs}},
    {Kind::string, {"find", "self sub start? end?", method_search<Search::find>}},
    {Kind::string, {"format", "self *", method_format}},
    {Kind::string, {"format_map", "self mapping", method_format_map}},
    {Kind::string, {"index", "self sub start? end?", method_search<Search::index>}},
    {Kind::string, {"isalnum", "self", method_class<CharClass::alnum>}},
    {Kind::string, {"isalpha", "self", method_class<CharClass::alpha>}},
    {Kind::string, {"isascii", "self", method_class<CharClass::ascii>}},
    {Kind::string, {"isdecimal", "self", method_class<CharClass::decimal>}},
    {Kind::string, {"isdigit", "self", method_class<CharClass::digit>}},
    {Kind::string, {"islower", "self", method_class<CharClass::lower>}},
    {Kind::string, {"isnumeric", "self", method_class<CharClass::numeric>}},
    {Kind::string, {"isprintable", "self", method_class<CharClass::printable>}},
    {Kind::string, {"isspace", "self", method_class<CharClass::space>}},
    {Kind::string, {"istitle", "self", method_class<CharClass::title>}},
    {Kind::string, {"isupper", "self", method_class<CharClass::upper>}},
    {Kind::string, {"join", "self iterable", method_join}},
    {Kind::string, {"ljust", "self width fillchar?", method_pad<'<'>}},
    {Kind::string, {"lower", "self", method_case<lower>}},
    {Kind::string, {"lstrip", "self chars?", method_strip<Side::left>}},
    {Kind::string, {"partition", "self sep", method_partition<false>}},
    {Kind::string, {"removeprefix", "self prefix", method_remove_affix<false>}},
    {Kind::string, {"removesuffix", "self suffix", method_remove_affix<true>}},
    {Kind::string, {"replace", "self old new count?", method_replace}},
    {Kind::string, {"rfind", "self sub start? end?", method_search<Search::rfind>}},
    {Kind::string, {"rindex", "self sub start? end?", method_search<Search::rindex>}},
    {Kind::string, {"rjust", "self width fillchar?", method_pad<'>'>}},
    {Kind::string, {"rpartition", "self sep", method_partition<true>}},
    {Kind::string, {"rsplit", "self sep? maxsplit?", method_split<true>}},
    {Kind::string, {"rstrip", "self chars?", method_strip<Side::right>}},
    {Kind::string, {"split", "self sep? maxsplit?", method_split<false>}},
    {Kind::string, {"splitlines", "self keepends?", method_splitlines}},
    {Kind::string, {"startswith", "self prefix start? end?", method_affix<false>}},
    {Kind::string, {"strip", "self chars?", method_strip<Side::both>}},
    {Kind::string, {"swapcase", "self", method_case<swapcase>}},
    {Kind::string, {"title", "self", method_case<title>}},
    {Kind::string, {"upper", "self", method_case<upper>}},
    {Kind::string, {"zfill", "self width", method_zfill}},
    {Kind::dict, {"copy", "self", method_copy}},
    {Kind::dict, {"get", "self key default?", method_get}},
    {Kind::dict, {"items", "self", method_view<ViewOf::items>}},
    {Kind::dict, {"keys", "self", method_view<ViewOf::keys>}},
    {Kind::dict, {"values", "self", method_view<ViewOf::values>}},
    {Kind::list, {"copy", "self", method_copy}},
    {Kind::list, {"count", "self value", method_count}},
    {Kind::list, {"index", "self value start? stop?", method_index}},
    {Kind::tuple, {"count", "self value", method_count}},
    {Kind::tuple, {"index", "self value start? stop?", method_index}},
});
}  // namespace

std::span<const MethodRow> method_table() { return kTable; }

}  // namespace tokamak::jinja
