// Look-up in the builtin tables, the tests and the global functions.
#include "chat/jinja/builtins.h"

#include <algorithm>
#include <array>

#include "chat/jinja/filters.h"
#include "chat/jinja/interpreter.h"
#include "chat/jinja/objects.h"
#include "chat/jinja/unicode.h"

namespace tokamak::jinja {

namespace {
using Rt = Interpreter;
constexpr int64_t kMaxRange = 100'000;  // as the sandbox of Jinja

// ---- tests ----

template <Kind... kinds>
Result<Value> test_kind(Rt&, Args& args) {
  return Value((args.subject().is(kinds) || ...));
}
Result<Value> test_defined(Rt&, Args& args) { return Value(!args.subject().is(Kind::undefined)); }
Result<Value> test_callable(Rt&, Args& args) {
  const Value& v = args.subject();
  return Value(v.is(Kind::object) ? v.object().callable() : v.is(Kind::undefined));  // Undefined has __call__
}
Result<Value> test_iterable(Rt&, Args& args) { return Value(Cursor::accepts(args.subject())); }
Result<Value> test_number(Rt&, Args& args) { return Value(args.subject().is_number()); }
Result<Value> test_sequence(Rt&, Args& args) {
  const Kind k = args.subject().kind();
  return Value(k == Kind::string || k == Kind::list || k == Kind::tuple || k == Kind::dict || k == Kind::range ||
               k == Kind::undefined);
}
template <bool wanted>
Result<Value> test_truth(Rt&, Args& args) {
  return Value(args.subject().is(Kind::boolean) && args.subject().boolean() == wanted);
}
template <Op op>
Result<Value> test_compare(Rt& rt, Args& args) {
  return Value(TRY(rt.compare(op, args.subject(), args.at(1))));
}
Result<Value> remainder_is(Rt& rt, const Value& value, const Value& divisor, int64_t wanted) {
  return Value(TRY(rt.equals(TRY(rt.binary(Op::mod, value, divisor)), Value(wanted))));
}
Result<Value> test_even(Rt& rt, Args& args) { return remainder_is(rt, args.subject(), Value(int64_t{2}), 0); }
Result<Value> test_odd(Rt& rt, Args& args) { return remainder_is(rt, args.subject(), Value(int64_t{2}), 1); }
Result<Value> test_divisibleby(Rt& rt, Args& args) { return remainder_is(rt, args.subject(), args.at(1), 0); }
Result<Value> test_sameas(Rt&, Args& args) { return Value(args.subject().same_object(args.at(1))); }
Result<Value> test_lower(Rt& rt, Args& args) {
  return Value(all_of_class(TRY(rt.str(args.subject())), CharClass::lower));
}
Result<Value> test_upper(Rt& rt, Args& args) {
  return Value(all_of_class(TRY(rt.str(args.subject())), CharClass::upper));
}
Result<Value> test_filter(Rt&, Args& args) {
  return Value(args.subject().is_string() && find_filter(args.subject().text()) != nullptr);
}
Result<Value> test_test(Rt&, Args& args) {
  return Value(args.subject().is_string() && find_test(args.subject().text()) != nullptr);
}
Result<Value> test_escaped(Rt&, Args&) { return Value(false); }

constexpr auto kTests = std::to_array<BuiltinRow>({
    {"!=", "a b", test_compare<Op::ne>},
    {"<", "a b", test_compare<Op::lt>},
    {"<=", "a b", test_compare<Op::le>},
    {"==", "a b", test_compare<Op::eq>},
    {">", "a b", test_compare<Op::gt>},
    {">=", "a b", test_compare<Op::ge>},
    {"boolean", "value", test_kind<Kind::boolean>},
    {"callable", "obj", test_callable},
    {"defined", "value", test_defined},
    {"divisibleby", "value num", test_divisibleby},
    {"eq", "a b", test_compare<Op::eq>},
    {"equalto", "a b", test_compare<Op::eq>},
    {"escaped", "value", test_escaped},
    {"even", "value", test_even},
    {"false", "value", test_truth<false>},
    {"filter", "value", test_filter},
    {"float", "value", test_kind<Kind::floating>},
    {"ge", "a b", test_compare<Op::ge>},
    {"greaterthan", "a b", test_compare<Op::gt>},
    {"gt", "a b", test_compare<Op::gt>},
    {"in", "value seq", test_compare<Op::in>},
    {"integer", "value", test_kind<Kind::integer>},
    {"iterable", "value", test_iterable},
    {"le", "a b", test_compare<Op::le>},
    {"lessthan", "a b", test_compare<Op::lt>},
    {"lower", "value", test_lower},
    {"lt", "a b", test_compare<Op::lt>},
    {"mapping", "value", test_kind<Kind::dict>},
    {"ne", "a b", test_compare<Op::ne>},
    {"none", "value", test_kind<Kind::none>},
    {"number", "value", test_number},
    {"odd", "value", test_odd},
    {"sameas", "value other", test_sameas},
    {"sequence", "value", test_sequence},
    {"string", "value", test_kind<Kind::string>},
    {"test", "value", test_test},
    {"true", "value", test_truth<true>},
    {"undefined", "value", test_kind<Kind::undefined>},
    {"upper", "value", test_upper},
});

// ---- global functions ----

Result<Value> global_range(Rt& rt, Args& args) {
  Range range{0, TRY(args.integer(0, 0)), TRY(args.integer(2, 1))};
  if (args.given(1)) range = {range.stop, TRY(args.integer(1, 0)), range.step};
  if (range.step == 0) return rt.fail("range() arg 3 must not be zero");
  if (range.size() > kMaxRange)
    return rt.fail("Range too big. The sandbox blocks ranges larger than MAX_RANGE (" + std::to_string(kMaxRange) +
                   ").");
  return Value(range);
}

// dict(mapping or pairs, **named), the arguments of dict() and namespace().
Result<Dict> collect_dict(Rt& rt, const Args& args) {
  Dict out;
  if (args.rest.positional.size() > 1) return rt.fail("dict expected at most 1 argument");
  if (!args.rest.positional.empty()) {
    const Value& source = args.rest.positional[0];
    const Value pairs = source.is(Kind::dict) ? Value(View{source.shared_dict(), ViewOf::items}) : source;
    for (const Value& pair : TRY(rt.to_list(pairs))) {
      List parts = TRY(rt.to_list(pair));
      if (parts.size() != 2) return rt.fail("dictionary update sequence element does not have length 2");
      if (!is_hashable(parts[0])) return rt.fail("unhashable type: '" + std::string(parts[0].type_name()) + "'");
      out.set(std::move(parts[0]), std::move(parts[1]));
    }
  }
  for (const auto& [name, value] : args.rest.named) out.set(Value(name), value);
  return out;
}

Result<Value> global_dict(Rt& rt, Args& args) { return rt.dict(TRY(collect_dict(rt, args))); }

Result<Value> global_namespace(Rt& rt, Args& args) {
  const Dict fields = TRY(collect_dict(rt, args));
  TRY(rt.charge_product(fields.items.size() + 1, 2 * sizeof(Value)));
  auto space = std::make_shared<Namespace>();
  for (const auto& [key, value] : fields.items) {
    const std::string name = TRY(rt.str(key));
    if (name.starts_with('_')) return rt.fail("namespace attributes cannot begin with an underscore");
    space->fields.emplace_back(name, value);
  }
  rt.keep(space);
  return Value::object(std::move(space));
}

Result<Value> global_raise_exception(Rt& rt, Args& args) {
  Error error = rt.fail(TRY(rt.str(args.subject())));
  error.code = ErrorCode::template_refused;
  return error;
}

Result<Value> global_strftime_now(Rt& rt, Args& args) {
  const std::string format = TRY(args.text(0));
  std::string for_libc;
  for (size_t i = 0; i < format.size(); ++i) {
    if (format[i] != '%' || i + 1 >= format.size()) {
      for_libc += format[i];
      continue;
    }
    const char c = format[++i];
    if (c == 'f')
      for_libc += "000000";  // the clock counts seconds
    else if (c != 'z' && c != 'Z')
      for_libc += {'%', c};  // Python's local time has no zone to print
  }
  if (for_libc.empty()) return Value("");
  const std::tm now = rt.now();
  std::string out(for_libc.size() * 32 + 64, '\0');
  TRY(rt.charge(out.size()));
  out.resize(std::strftime(out.data(), out.size(), for_libc.c_str(), &now));
  return rt.text(std::move(out));
}

Result<Value> global_joiner(Rt& rt, Args& args) {
  TRY(rt.charge(sizeof(Joiner)));
  return Value::object(std::make_shared<Joiner>(TRY(rt.str(args.given(0) ? args.at(0) : Value(", ")))));
}

Result<Value> global_cycler(Rt& rt, Args& args) {
  if (args.rest.positional.empty() || !args.rest.named.empty()) return rt.fail("at least one item has to be provided");
  return Value::object(std::make_shared<Cycler>(TRY(rt.list(std::move(args.rest.positional)))));
}

constexpr auto kGlobals = std::to_array<BuiltinRow>({
    {"cycler", "*", global_cycler},
    {"dict", "*", global_dict},
    {"joiner", "sep?", global_joiner},
    {"namespace", "*", global_namespace},
    {"raise_exception", "message", global_raise_exception},
    {"range", "start_or_stop stop? step?", global_range},
    {"strftime_now", "format", global_strftime_now},
});

const BuiltinRow* find_in(std::span<const BuiltinRow> rows, std::string_view name) {
  const auto row = std::lower_bound(rows.begin(), rows.end(), name,
                                    [](const BuiltinRow& r, std::string_view key) { return r.name < key; });
  return row != rows.end() && row->name == name ? &*row : nullptr;
}
}  // namespace

const BuiltinRow* find_filter(std::string_view name) {
  const BuiltinRow* row = find_in(text_filter_table(), name);
  return row != nullptr ? row : find_in(sequence_filter_table(), name);
}
const BuiltinRow* find_test(std::string_view name) { return find_in(kTests, name); }
const BuiltinRow* find_global(std::string_view name) { return find_in(kGlobals, name); }
std::span<const BuiltinRow> test_table() { return kTests; }
std::span<const BuiltinRow> global_table() { return kGlobals; }

const BuiltinRow* find_method(Kind kind, std::string_view name) {
  for (const MethodRow& method : method_table())
    if (method.kind == kind && method.row.name == name) return &method.row;
  return nullptr;
}

bool is_mutating_method(Kind kind, std::string_view name) {
  static constexpr auto kOfDict = std::to_array<std::string_view>({"clear", "pop", "popitem", "setdefault", "update"});
  static constexpr auto kOfList =
      std::to_array<std::string_view>({"append", "clear", "extend", "insert", "pop", "remove", "reverse", "sort"});
  if (kind == Kind::dict) return std::find(kOfDict.begin(), kOfDict.end(), name) != kOfDict.end();
  return kind == Kind::list && std::find(kOfList.begin(), kOfList.end(), name) != kOfList.end();
}

}  // namespace tokamak::jinja
