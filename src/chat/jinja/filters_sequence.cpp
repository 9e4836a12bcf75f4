// Filters on sequences and mappings.
#include <algorithm>
#include <array>

#include "chat/jinja/filters.h"
#include "chat/jinja/unicode.h"

namespace tokamak::jinja {

namespace {
using Rt = Interpreter;

// Python text comes back as lower case unless case matters.
Value fold_case(const Value& value) { return value.is_string() ? Value(lower(value.text())) : value; }

// The path "a.b.0" of an attribute argument; None stands for the item itself.
std::vector<Value> attribute_path(const Value& attribute) {
  if (attribute.is(Kind::none) || attribute.is(Kind::undefined)) return {};
  if (!attribute.is_string()) return {attribute};
  std::vector<Value> path;
  for (std::string& part : split_on(attribute.text(), ".", -1)) {
    const auto index = all_of_class(part, CharClass::digit) ? parse_int(part, 10) : std::nullopt;
    path.push_back(index ? Value(*index) : Value(std::move(part)));
  }
  return path;
}

Result<Value> follow(Rt& rt, Value item, const std::vector<Value>& path, const Value& fallback = Value()) {
  for (const Value& part : path) {
    item = TRY(rt.item_of(item, part));
    if (item.is(Kind::undefined) && !fallback.is(Kind::undefined) && !fallback.is(Kind::none)) item = fallback;
  }
  return item;
}

struct Keyed {
  List key;
  Value item;
};

// Stable sort by lists of keys; the first failing comparison is reported.
Result<void> sort_keyed(Rt& rt, std::vector<Keyed>& items, bool reverse) {
  std::optional<Error> error;
  const auto less = [&](const Keyed& a, const Keyed& b) {
    if (error) return false;
    for (size_t i = 0; i < a.key.size(); ++i) {
      const auto equal = rt.equals(a.key[i], b.key[i]);
      if (equal && *equal) continue;
      auto result = equal ? rt.less(a.key[i], b.key[i]) : equal;
      if (!result) error = std::move(result.error());
      return result && *result;
    }
    return false;
  };
  // Python keeps the order of equal items when it sorts in reverse, too.
  if (reverse)
    std::stable_sort(items.begin(), items.end(), [&](const Keyed& a, const Keyed& b) { return less(b, a); });
  else
    std::stable_sort(items.begin(), items.end(), less);
  if (error) return *error;
  return {};
}

Result<Value> items_of(Rt& rt, std::vector<Keyed> keyed) {
  List out;
  for (Keyed& k : keyed) out.push_back(std::move(k.item));
  return rt.list(std::move(out));
}

Result<Value> filter_length(Rt& rt, Args& args) { return Value(TRY(length_of(rt, args.subject()))); }

Result<Value> filter_first(Rt& rt, Args& args) {
  Cursor cursor = TRY(rt.iterate(args.subject()));
  auto item = cursor.next();
  return item ? *item : Value::undefined("No first item, sequence was empty.");
}

Result<Value> filter_last(Rt& rt, Args& args) {
  const Value& value = args.subject();
  if (value.is(Kind::iterator) || !Cursor::accepts(value))
    return rt.fail("'" + std::string(value.type_name()) + "' object is not reversible");
  List items = TRY(rt.to_list(value));
  return items.empty() ? Value::undefined("No last item, sequence was empty.") : items.back();
}

Result<Value> filter_list(Rt& rt, Args& args) { return rt.list(TRY(rt.to_list(args.subject()))); }

Result<Value> filter_reverse(Rt& rt, Args& args) {
  const Value& value = args.subject();
  if (value.is_string()) {
    std::string out;
    auto chars = characters(value.text());
    for (auto c = chars.rbegin(); c != chars.rend(); ++c) out += *c;
    return rt.text(std::move(out));
  }
  if (!Cursor::accepts(value)) return rt.fail("argument must be iterable");
  List items = TRY(rt.to_list(value));
  std::reverse(items.begin(), items.end());
  return value.is(Kind::iterator) ? rt.list(std::move(items)) : rt.iterator(std::move(items));
}

Result<Value> filter_join(Rt& rt, Args& args) {
  const std::string separator = TRY(rt.str(args.given(1) ? args.at(1) : Value("")));
  const std::vector<Value> path = attribute_path(args.at(2));
  Cursor cursor = TRY(rt.iterate(args.subject()));
  std::string out;
  for (bool first = true;; first = false) {
    const auto item = cursor.next();
    if (!item) return rt.text(std::move(out));
    TRY(rt.step());
    if (!first) out += separator;
    const std::string part = TRY(rt.str(TRY(follow(rt, *item, path))));
    TRY(rt.charge(part.size() + separator.size()));
    out += part;
  }
}

Result<Value> filter_default(Rt&, Args& args) {
  const Value& value = args.subject();
  const bool use_default = value.is(Kind::undefined) || (args.truth(2, false) && !value.truthy());
  if (!use_default) return value;
  return args.given(1) ? args.at(1) : Value("");
}

Result<Value> filter_items(Rt& rt, Args& args) {
  const Value& value = args.subject();
  if (value.is(Kind::undefined)) return rt.iterator({});
  if (!value.is(Kind::dict)) return rt.fail("Can only get item pairs from a mapping.");
  return rt.iterator(TRY(rt.to_list(Value(View{value.shared_dict(), ViewOf::items}))));
}

Result<Value> filter_dictsort(Rt& rt, Args& args) {
  const Value& value = args.subject();
  if (value.is(Kind::undefined)) return rt.fail(std::string(value.undefined_message()));
  if (!value.is(Kind::dict)) return rt.fail("'" + std::string(value.type_name()) + "' object has no attribute 'items'");
  const bool case_sensitive = args.truth(1, false);
  const std::string by = TRY(args.text(2, "key"));
  if (by != "key" && by != "value") return rt.fail("You can only sort by either \"key\" or \"value\"");
  std::vector<Keyed> keyed;
  for (const auto& [key, item] : value.dict().items) {
    const Value& chosen = by == "key" ? key : item;
    keyed.push_back({{case_sensitive ? chosen : fold_case(chosen)}, TRY(rt.tuple({key, item}))});
  }
  TRY(sort_keyed(rt, keyed, args.truth(3, false)));
  return items_of(rt, std::move(keyed));
}

Result<Value> filter_sort(Rt& rt, Args& args) {
  const bool case_sensitive = args.truth(2, false);
  std::vector<std::vector<Value>> paths;
  if (args.given(3) && args.at(3).is_string())
    for (std::string& part : split_on(args.at(3).text(), ",", -1))
      paths.push_back(attribute_path(Value(std::move(part))));
  else
    paths.push_back(attribute_path(args.at(3)));
  std::vector<Keyed> keyed;
  for (Value& item : TRY(rt.to_list(args.subject()))) {
    List key;
    for (const auto& path : paths) {
      Value part = TRY(follow(rt, item, path));
      key.push_back(case_sensitive ? std::move(part) : fold_case(part));
    }
    keyed.push_back({std::move(key), std::move(item)});
  }
  TRY(sort_keyed(rt, keyed, args.truth(1, false)));
  return items_of(rt, std::move(keyed));
}

Result<Value> smallest(Rt& rt, Args& args, bool want_largest) {
  const bool case_sensitive = args.truth(1, false);
  const std::vector<Value> path = attribute_path(args.at(2));
  std::optional<Value> best;
  Value best_key;
  for (Value& item : TRY(rt.to_list(args.subject()))) {
    Value key = TRY(follow(rt, item, path));
    if (!case_sensitive) key = fold_case(key);
    if (best && !TRY(want_largest ? rt.less(best_key, key) : rt.less(key, best_key))) continue;
    best = std::move(item);
    best_key = std::move(key);
  }
  return best ? *best : Value::undefined("No aggregated item, sequence was empty.");
}
Result<Value> filter_min(Rt& rt, Args& args) { return smallest(rt, args, false); }
Result<Value> filter_max(Rt& rt, Args& args) { return smallest(rt, args, true); }

Result<Value> filter_unique(Rt& rt, Args& args) {
  const bool case_sensitive = args.truth(1, false);
  const std::vector<Value> path = attribute_path(args.at(2));
  List out;
  List seen;
  for (Value& item : TRY(rt.to_list(args.subject()))) {
    Value key = TRY(follow(rt, item, path));
    if (!is_hashable(key)) return rt.fail("unhashable type: '" + std::string(key.type_name()) + "'");
    if (!case_sensitive) key = fold_case(key);
    bool known = false;
    for (size_t i = 0; i < seen.size() && !known; ++i) known = TRY(rt.equals(seen[i], key));
    if (known) continue;
    seen.push_back(std::move(key));
    out.push_back(std::move(item));
  }
  return rt.iterator(std::move(out));
}

Result<Value> filter_groupby(Rt& rt, Args& args) {
  const std::vector<Value> path = attribute_path(args.at(1));
  const bool case_sensitive = args.truth(3, false);
  std::vector<Keyed> keyed;
  for (Value& item : TRY(rt.to_list(args.subject()))) {
    Value key = TRY(follow(rt, item, path, args.at(2)));
    keyed.push_back({{case_sensitive ? key : fold_case(key)}, std::move(item)});
  }
  TRY(sort_keyed(rt, keyed, false));
  List groups;
  for (size_t begin = 0; begin < keyed.size();) {
    List members;
    size_t end = begin;
    for (; end < keyed.size() && TRY(rt.equals(keyed[begin].key[0], keyed[end].key[0])); ++end)
      members.push_back(keyed[end].item);
    if (end == begin) ++end;  // a key unequal to itself (NaN)
    Value shown = TRY(follow(rt, keyed[begin].item, path, args.at(2)));
    groups.push_back(TRY(rt.tuple({std::move(shown), TRY(rt.list(std::move(members)))}, true)));
    begin = end;
  }
  return rt.list(std::move(groups));
}

Result<Value> filter_sum(Rt& rt, Args& args) {
  const std::vector<Value> path = attribute_path(args.at(1));
  Value total = args.given(2) ? args.at(2) : Value(int64_t{0});
  if (total.is_string()) return rt.fail("sum() can't sum strings [use ''.join(seq) instead]");
  for (const Value& item : TRY(rt.to_list(args.subject())))
    total = TRY(rt.binary(Op::add, total, TRY(follow(rt, item, path))));
  return total;
}

Result<Value> filter_batch(Rt& rt, Args& args) {
  const int64_t n = TRY(args.integer(1, 0));
  List batches;
  List batch;
  for (Value& item : TRY(rt.to_list(args.subject()))) {
    if (static_cast<int64_t>(batch.size()) == n) batches.push_back(TRY(rt.list(std::exchange(batch, {}))));
    batch.push_back(std::move(item));
  }
  if (!batch.empty()) {
    if (args.given_value(2) && static_cast<int64_t>(batch.size()) < n) {
      TRY(rt.charge_product(static_cast<size_t>(n), sizeof(Value)));
      batch.resize(static_cast<size_t>(n), args.at(2));
    }
    batches.push_back(TRY(rt.list(std::move(batch))));
  }
  return rt.iterator(std::move(batches));
}

Result<Value> filter_slice(Rt& rt, Args& args) {
  const List items = TRY(rt.to_list(args.subject()));
  const int64_t n = TRY(args.integer(1, 0));
  if (n == 0) return rt.fail("integer division or modulo by zero");
  const size_t n_slices = static_cast<size_t>(std::max<int64_t>(n, 0));
  TRY(rt.charge_product(n_slices, 4 * sizeof(Value)));
  List slices;
  size_t at = 0;
  for (size_t i = 0; i < n_slices; ++i) {
    const bool has_extra = i < items.size() % n_slices;
    const size_t end = at + items.size() / n_slices + (has_extra ? 1 : 0);
    List slice(items.begin() + static_cast<ptrdiff_t>(at), items.begin() + static_cast<ptrdiff_t>(end));
    if (args.given_value(2) && !has_extra) slice.push_back(args.at(2));
    slices.push_back(TRY(rt.list(std::move(slice))));
    at = end;
  }
  return rt.iterator(std::move(slices));
}

Result<Value> filter_attr(Rt& rt, Args& args) {
  const std::string name = TRY(args.text(1));
  if (args.subject().is(Kind::undefined)) return rt.fail(std::string(args.subject().undefined_message()));
  auto found = TRY(rt.python_attribute(args.subject(), name));
  return found ? *found : Value::undefined("object has no attribute " + repr_string(name));
}

Result<Value> filter_map(Rt& rt, Args& args) {
  if (!args.subject().truthy()) return rt.iterator({});
  CallArgs& rest = args.rest;
  const bool by_attribute = rest.positional.empty();
  std::vector<Value> path;
  Value fallback;
  std::string name;
  if (by_attribute) {
    if (rest.named.empty()) return rt.fail("map requires a filter argument");
    for (auto& [key, value] : rest.named) {
      if (key == "attribute")
        path = attribute_path(value);
      else if (key == "default")
        fallback = std::move(value);
      else
        return rt.fail("Unexpected keyword argument '" + key + "'");
    }
  } else {
    name = TRY(rt.str(rest.positional[0]));
  }
  List out;
  for (Value& item : TRY(rt.to_list(args.subject()))) {
    if (by_attribute) {
      out.push_back(TRY(follow(rt, std::move(item), path, fallback)));
      continue;
    }
    CallArgs call = rest;
    call.positional[0] = std::move(item);
    out.push_back(TRY(rt.filter(name, std::move(call))));
  }
  return rt.iterator(std::move(out));
}

// select, reject, selectattr and rejectattr. `wanted` is the outcome of the test that keeps an item.
Result<Value> select(Rt& rt, Args& args, bool wanted, bool by_attribute) {
  if (!args.subject().truthy()) return rt.iterator({});
  CallArgs rest = std::move(args.rest);
  std::vector<Value> path;
  if (by_attribute) {
    if (rest.positional.empty()) return rt.fail("Missing parameter for attribute name");
    path = attribute_path(rest.positional[0]);
    rest.positional.erase(rest.positional.begin());
  }
  const std::string test = rest.positional.empty() ? std::string() : TRY(rt.str(rest.positional[0]));
  List out;
  for (Value& item : TRY(rt.to_list(args.subject()))) {
    Value subject = TRY(follow(rt, item, path));
    if (!rest.positional.empty()) {
      CallArgs call = rest;
      call.positional[0] = std::move(subject);
      subject = TRY(rt.test(test, std::move(call)));
    }
    if (subject.truthy() == wanted) out.push_back(std::move(item));
  }
  return rt.iterator(std::move(out));
}
Result<Value> filter_select(Rt& rt, Args& args) { return select(rt, args, true, false); }
Result<Value> filter_reject(Rt& rt, Args& args) { return select(rt, args, false, false); }
Result<Value> filter_selectattr(Rt& rt, Args& args) { return select(rt, args, true, true); }
Result<Value> filter_rejectattr(Rt& rt, Args& args) { return select(rt, args, false, true); }

constexpr auto kTable = std::to_array<BuiltinRow>({
    {"attr", "obj name", filter_attr},
    {"batch", "value linecount fill_with?", filter_batch},
    {"count", "obj", filter_length},
    {"d", "value default_value? boolean?", filter_default},
    {"default", "value default_value? boolean?", filter_default},
    {"dictsort", "value case_sensitive? by? reverse?", filter_dictsort},
    {"first", "seq", filter_first},
    {"groupby", "value attribute default? case_sensitive?", filter_groupby},
    {"items", "value", filter_items},
    {"join", "value d? attribute?", filter_join},
    {"last", "seq", filter_last},
    {"length", "obj", filter_length},
    {"list", "value", filter_list},
    {"map", "value *", filter_map},
    {"max", "value case_sensitive? attribute?", filter_max},
    {"min", "value case_sensitive? attribute?", filter_min},
    {"reject", "value *", filter_reject},
    {"rejectattr", "value *", filter_rejectattr},
    {"reverse", "value", filter_reverse},
    {"select", "value *", filter_select},
    {"selectattr", "value *", filter_selectattr},
    {"slice", "value slices fill_with?", filter_slice},
    {"sort", "value reverse? case_sensitive? attribute?", filter_sort},
    {"sum", "iterable attribute? start?", filter_sum},
    {"unique", "value case_sensitive? attribute?", filter_unique},
});
}  // namespace

Result<int64_t> length_of(Interpreter& interpreter, const Value& value) {
  switch (value.kind()) {
    case Kind::undefined:
      return 0;
    case Kind::string:
      return static_cast<int64_t>(count_chars(value.text()));
    case Kind::list:
    case Kind::tuple:
      return static_cast<int64_t>(value.items().size());
    case Kind::dict:
      return static_cast<int64_t>(value.dict().items.size());
    case Kind::view:
      return static_cast<int64_t>(value.view().dict->items.size());
    case Kind::range:
      return value.range().size();
    default:
      return interpreter.fail("object of type '" + std::string(value.type_name()) + "' has no len()");
  }
}

std::span<const BuiltinRow> sequence_filter_table() { return kTable; }

}  // namespace tokamak::jinja
