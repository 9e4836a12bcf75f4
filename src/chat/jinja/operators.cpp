// Operators, comparisons, look-ups and slices, with Python's rules.
#include <algorithm>
#include <cmath>

#include "chat/jinja/interpreter.h"
#include "chat/jinja/objects.h"
#include "chat/jinja/unicode.h"

namespace tokamak::jinja {

namespace {
std::string_view symbol_of(Op op) {
  switch (op) {
    case Op::add:
      return "+";
    case Op::sub:
      return "-";
    case Op::mul:
      return "*";
    case Op::div:
      return "/";
    case Op::floordiv:
      return "//";
    case Op::mod:
      return "%";
    case Op::pow:
      return "**";
    case Op::lt:
      return "<";
    case Op::le:
      return "<=";
    case Op::gt:
      return ">";
    case Op::ge:
      return ">=";
    default:
      return "?";
  }
}

int64_t floor_div(int64_t a, int64_t b) {
  const int64_t q = a / b;
  return (a % b != 0 && (a < 0) != (b < 0)) ? q - 1 : q;
}

double floor_mod(double a, double b) {
  const double r = std::fmod(a, b);
  if (r != 0) return (r < 0) != (b < 0) ? r + b : r;
  return std::copysign(0.0, b);
}

// Python's comparison of an int with a float is exact; within 2^53 a conversion is too.
int compare_numbers(const Value& a, const Value& b) {
  if (a.is_int_like() && b.is_int_like()) return a.as_int() < b.as_int() ? -1 : a.as_int() > b.as_int();
  const long double x =
      a.is(Kind::floating) ? static_cast<long double>(a.floating()) : static_cast<long double>(a.as_int());
  const long double y =
      b.is(Kind::floating) ? static_cast<long double>(b.floating()) : static_cast<long double>(b.as_int());
  if (x < y) return -1;
  return x > y ? 1 : x == y ? 0 : 2;  // 2: not ordered (NaN)
}

bool is_sequence(const Value& v) { return v.is(Kind::list) || v.is(Kind::tuple); }
}  // namespace

Error Interpreter::operand_error(std::string_view symbol, const Value& a, const Value& b) const {
  if (a.is(Kind::undefined)) return fail(std::string(a.undefined_message()));
  if (b.is(Kind::undefined)) return fail(std::string(b.undefined_message()));
  return fail("unsupported operand type(s) for " + std::string(symbol) + ": '" + std::string(a.type_name()) +
              "' and '" + std::string(b.type_name()) + "'");
}

Result<Value> Interpreter::binary(Op op, const Value& a, const Value& b) {
  if (op == Op::mod && a.is_string()) return text(TRY(percent_format(*this, a.text(), b)));
  if (a.is_number() && b.is_number()) return arithmetic(op, a, b);
  if (op == Op::add) return add(a, b);
  if (op == Op::mul) {
    const auto repeatable = [](const Value& v) { return v.is_string() || is_sequence(v); };
    if (repeatable(a) && b.is_int_like()) return repeat(a, b.as_int());
    if (repeatable(b) && a.is_int_like()) return repeat(b, a.as_int());
  }
  return operand_error(symbol_of(op), a, b);
}

Result<Value> Interpreter::add(const Value& a, const Value& b) {
  if (a.is_string() && b.is_string()) {
    TRY(charge(a.text().size() + b.text().size()));
    return Value(a.text() + b.text());
  }
  if (is_sequence(a) && a.kind() == b.kind()) {
    TRY(charge_product(a.items().size() + b.items().size(), sizeof(Value)));
    List all = a.items();
    all.insert(all.end(), b.items().begin(), b.items().end());
    return a.is(Kind::list) ? list(std::move(all)) : tuple(std::move(all));
  }
  if (a.is_string() && !b.is(Kind::undefined))
    return fail("can only concatenate str (not \"" + std::string(b.type_name()) + "\") to str");
  return operand_error("+", a, b);
}

Result<Value> Interpreter::repeat(const Value& sequence, int64_t count) {
  const size_t n = static_cast<size_t>(std::max<int64_t>(count, 0));
  if (sequence.is_string()) {
    TRY(charge_product(n, sequence.text().size()));
    std::string out;
    for (size_t i = 0; i < n && !sequence.text().empty(); ++i) out += sequence.text();
    return Value(std::move(out));
  }
  TRY(charge_product(n, sequence.items().size() * sizeof(Value)));
  List out;
  for (size_t i = 0; i < n && !sequence.items().empty(); ++i)
    out.insert(out.end(), sequence.items().begin(), sequence.items().end());
  return sequence.is(Kind::list) ? list(std::move(out)) : tuple(std::move(out));
}

Result<Value> Interpreter::arithmetic(Op op, const Value& a, const Value& b) {
  const bool integers = a.is_int_like() && b.is_int_like();
  if (integers && op != Op::div && !(op == Op::pow && b.as_int() < 0))
    return integer_arithmetic(op, a.as_int(), b.as_int());
  const double x = a.as_double();
  const double y = b.as_double();
  if (y == 0 && (op == Op::div || op == Op::floordiv || op == Op::mod))
    return fail(op == Op::div && integers ? "division by zero"
                : op == Op::mod           ? "float modulo"
                                          : "float division by zero");
  switch (op) {
    case Op::add:
      return Value(x + y);
    case Op::sub:
      return Value(x - y);
    case Op::mul:
      return Value(x * y);
    case Op::div:
      return Value(x / y);
    case Op::floordiv:
      return Value(std::floor((x - floor_mod(x, y)) / y + 0.5));  // the quotient is integral already
    case Op::mod:
      return Value(floor_mod(x, y));
    default:
      break;
  }
  if (x == 0 && y < 0) return fail("0.0 cannot be raised to a negative power");
  const double power = std::pow(x, y);
  if (std::isnan(power) && !std::isnan(x) && !std::isnan(y)) return fail("complex numbers are not supported");
  if (std::isinf(power) && std::isfinite(x) && std::isfinite(y)) return fail("(34, 'Numerical result out of range')");
  return Value(power);
}

Result<Value> Interpreter::integer_arithmetic(Op op, int64_t a, int64_t b) {
  int64_t out = 0;
  bool overflow = false;
  switch (op) {
    case Op::add:
      overflow = __builtin_add_overflow(a, b, &out);
      break;
    case Op::sub:
      overflow = __builtin_sub_overflow(a, b, &out);
      break;
    case Op::mul:
      overflow = __builtin_mul_overflow(a, b, &out);
      break;
    case Op::floordiv:
    case Op::mod:
      if (b == 0) return fail("integer division or modulo by zero");
      if (b == -1) {  // a / -1 may not fit
        if (op == Op::mod) return Value(int64_t{0});
        overflow = __builtin_sub_overflow(int64_t{0}, a, &out);
        break;
      }
      out = op == Op::floordiv ? floor_div(a, b) : a - floor_div(a, b) * b;
      break;
    default:  // pow, b >= 0
      out = 1;
      for (; b > 0 && !overflow; b >>= 1) {
        if (b & 1) overflow = __builtin_mul_overflow(out, a, &out);
        if (b > 1 && !overflow) overflow = __builtin_mul_overflow(a, a, &a);
      }
  }
  if (overflow) return fail("integer does not fit into 64 bits");
  return Value(out);
}

Result<Value> Interpreter::negate(const Value& a) {
  if (a.is(Kind::undefined)) return fail(std::string(a.undefined_message()));
  if (a.is(Kind::floating)) return Value(-a.floating());
  if (!a.is_int_like()) return fail("bad operand type for unary -: '" + std::string(a.type_name()) + "'");
  return integer_arithmetic(Op::sub, 0, a.as_int());
}

Result<bool> Interpreter::equals(const Value& a, const Value& b) {
  note_read(a);
  TRY(step());
  if (a.is_number() && b.is_number()) return compare_numbers(a, b) == 0;
  if (a.kind() != b.kind()) return false;
  if (a.is(Kind::undefined)) return true;
  if (is_sequence(a)) {
    if (a.items().size() != b.items().size()) return false;
    for (size_t i = 0; i < a.items().size(); ++i)
      if (!a.items()[i].same_object(b.items()[i]) && !TRY(equals(a.items()[i], b.items()[i]))) return false;
    return true;
  }
  if (a.is(Kind::dict)) {
    if (a.dict().items.size() != b.dict().items.size()) return false;
    for (const auto& [key, value] : a.dict().items) {
      const Value* other = b.dict().find(key);
      if (other == nullptr || (!value.same_object(*other) && !TRY(equals(value, *other)))) return false;
    }
    return true;
  }
  if (a.is(Kind::range)) {
    const int64_t n = a.range().size();
    if (n != b.range().size()) return false;
    return n == 0 || (a.range().start == b.range().start && (n == 1 || a.range().step == b.range().step));
  }
  if (a.is(Kind::view) && a.view().what == b.view().what && a.view().what != ViewOf::values)
    return equals(Value::list(TRY(to_list(a))), Value::list(TRY(to_list(b))));
  return a.same_object(b);
}

Result<bool> Interpreter::less(const Value& a, const Value& b) {
  note_read(a);
  TRY(step());
  if (a.is_number() && b.is_number()) return compare_numbers(a, b) == -1;
  if (a.is_string() && b.is_string()) return a.text() < b.text();  // UTF-8 order is code point order
  if (is_sequence(a) && a.kind() == b.kind()) {
    const size_t n = std::min(a.items().size(), b.items().size());
    for (size_t i = 0; i < n; ++i)
      if (!TRY(equals(a.items()[i], b.items()[i]))) return less(a.items()[i], b.items()[i]);
    return a.items().size() < b.items().size();
  }
  if (a.is(Kind::undefined)) return fail(std::string(a.undefined_message()));
  if (b.is(Kind::undefined)) return fail(std::string(b.undefined_message()));
  return fail("'<' not supported between instances of '" + std::string(a.type_name()) + "' and '" +
              std::string(b.type_name()) + "'");
}

Result<bool> Interpreter::compare(Op op, const Value& a, const Value& b) {
  switch (op) {
    case Op::eq:
      return equals(a, b);
    case Op::ne:
      return !TRY(equals(a, b));
    case Op::in:
      return contains(b, a);
    case Op::not_in:
      return !TRY(contains(b, a));
    default:
      break;
  }
  if (a.is_number() && b.is_number()) {
    const int order = compare_numbers(a, b);
    if (order == 2) return false;
    return op == Op::lt ? order < 0 : op == Op::le ? order <= 0 : op == Op::gt ? order > 0 : order >= 0;
  }
  switch (op) {
    case Op::lt:
      return less(a, b);
    case Op::gt:
      return less(b, a);
    case Op::le:
      return TRY(less(a, b)) || TRY(equals(a, b));
    default:
      return TRY(less(b, a)) || TRY(equals(a, b));
  }
}

Result<bool> Interpreter::contains(const Value& container, const Value& item) {
  note_read(container);
  if (container.is_string()) {
    if (!item.is_string())
      return fail("'in <string>' requires string as left operand, not " + std::string(item.type_name()));
    return container.text().find(item.text()) != std::string::npos;
  }
  const bool keyed = container.is(Kind::dict) || (container.is(Kind::view) && container.view().what == ViewOf::keys);
  if (keyed) {
    if (!is_hashable(item)) return fail("unhashable type: '" + std::string(item.type_name()) + "'");
    const Dict& dict = container.is(Kind::dict) ? container.dict() : *container.view().dict;
    return dict.find(item) != nullptr;
  }
  if (!Cursor::accepts(container))
    return fail("argument of type '" + std::string(container.type_name()) + "' is not iterable");
  Cursor cursor(container);
  while (auto candidate = cursor.next())
    if (candidate->same_object(item) || TRY(equals(*candidate, item))) return true;
  return false;
}

namespace {
std::string owner_name(const Value& value) {
  return value.is(Kind::none) ? "None" : std::string(value.type_name()) + " object";
}

Value missing_attribute(const Value& value, std::string_view name) {
  return Value::undefined("'" + owner_name(value) + "' has no attribute " + repr_string(name));
}

Value unsafe_attribute(const Value& value, std::string_view name) {
  return Value::undefined("access to attribute " + repr_string(name) + " of '" + std::string(value.type_name()) +
                          "' object is unsafe.");
}
}  // namespace

// What Python's getattr finds on a builtin type, as the sandbox lets it through.
Result<std::optional<Value>> Interpreter::python_attribute(const Value& value, std::string_view name) {
  if (value.is(Kind::object)) return value.object().attribute(*this, name);
  if (is_mutating_method(value.kind(), name)) return std::optional<Value>(unsafe_attribute(value, name));
  if (const BuiltinRow* row = find_method(value.kind(), name))
    return std::optional<Value>(Value::object(std::make_shared<BoundMethod>(*row, value)));
  if (value.is_group() && (name == "grouper" || name == "list"))
    return std::optional<Value>(value.items()[name == "list" ? 1 : 0]);
  return std::optional<Value>();
}

Result<Value> Interpreter::attribute_of(const Value& value, std::string_view name) {
  if (value.is(Kind::undefined)) return fail(std::string(value.undefined_message()));
  if (auto found = TRY(python_attribute(value, name))) return *found;
  if (value.is(Kind::dict))
    if (const Value* item = value.dict().find(name)) return *item;
  return missing_attribute(value, name);
}

Result<Value> Interpreter::item_of(const Value& value, const Value& key) {
  note_read(value);
  switch (value.kind()) {
    case Kind::undefined:
      return fail(std::string(value.undefined_message()));
    case Kind::dict:
      if (!is_hashable(key)) break;
      if (const Value* item = value.dict().find(key)) return *item;
      break;
    case Kind::string:
    case Kind::list:
    case Kind::tuple:
    case Kind::range: {
      if (!key.is_int_like()) break;
      const int64_t n = value.is_string()       ? static_cast<int64_t>(count_chars(value.text()))
                        : value.is(Kind::range) ? value.range().size()
                                                : static_cast<int64_t>(value.items().size());
      const int64_t i = key.as_int() < 0 ? key.as_int() + n : key.as_int();
      if (i < 0 || i >= n) break;
      if (value.is(Kind::range)) return Value(value.range().start + i * value.range().step);
      if (!value.is_string()) return value.items()[static_cast<size_t>(i)];
      const size_t begin = byte_offset(value.text(), static_cast<size_t>(i));
      const std::string_view rest = std::string_view(value.text()).substr(begin);
      return text(std::string(rest.substr(0, byte_offset(rest, 1))));
    }
    default:
      break;
  }
  if (!key.is_string()) return Value::undefined(owner_name(value) + " has no element " + TRY(repr(key)));
  if (auto found = TRY(python_attribute(value, key.text()))) return *found;
  return missing_attribute(value, key.text());
}

namespace {
// Python's slice.indices(n): positions start, start + step, ... before stop.
struct SliceRange {
  int64_t start, stop, step;
};

int64_t clamp_bound(const Value& bound, int64_t n, int64_t fallback, int64_t low, int64_t high) {
  if (bound.is(Kind::none)) return fallback;
  int64_t i = bound.as_int();
  if (i < 0) i += n;
  return std::clamp(i, low, high);
}

SliceRange slice_range(const Value& start, const Value& stop, int64_t step, int64_t n) {
  if (step > 0) return {clamp_bound(start, n, 0, 0, n), clamp_bound(stop, n, n, 0, n), step};
  return {clamp_bound(start, n, n - 1, -1, n - 1), clamp_bound(stop, n, -1, -1, n - 1), step};
}

template <class Take>
void for_slice(const SliceRange& s, Take take) {
  if (s.step > 0) {
    for (int64_t i = s.start; i<s.stop; i = s.step> s.stop - i ? s.stop : i + s.step) take(static_cast<size_t>(i));
  } else {
    for (int64_t i = s.start; i > s.stop; i = s.step < s.stop - i ? s.stop : i + s.step) take(static_cast<size_t>(i));
  }
}
}  // namespace

Result<Value> Interpreter::slice_of(const Value& value, const Value& start, const Value& stop, const Value& step) {
  if (value.is(Kind::undefined)) return fail(std::string(value.undefined_message()));
  for (const Value* bound : {&start, &stop, &step})
    if (!bound->is(Kind::none) && !bound->is_int_like()) return fail("slice indices must be integers or None");
  const int64_t stride = step.is(Kind::none) ? 1 : step.as_int();
  if (stride == 0) return fail("slice step cannot be zero");
  if (value.is_string()) {
    const std::string& source = value.text();
    TRY(charge(source.size()));
    const auto chars = characters(source);
    std::string out;
    for_slice(slice_range(start, stop, stride, static_cast<int64_t>(chars.size())), [&](size_t i) { out += chars[i]; });
    return text(std::move(out));
  }
  if (!is_sequence(value) && !value.is(Kind::range))
    return fail("'" + std::string(value.type_name()) + "' object is not subscriptable");
  const List items = is_sequence(value) ? value.items() : TRY(to_list(value));
  List out;
  for_slice(slice_range(start, stop, stride, static_cast<int64_t>(items.size())),
            [&](size_t i) { out.push_back(items[i]); });
  TRY(charge_product(items.size(), sizeof(Value)));
  return value.is(Kind::tuple) ? tuple(std::move(out)) : list(std::move(out));
}

}  // namespace tokamak::jinja
