#include "chat/jinja/value.h"

#include <algorithm>
#include <array>

#include "base/utf8.h"

namespace tokamak::jinja {

namespace {
constexpr size_t kIndexFrom = 16;     // dicts this large get a hash index
constexpr uint32_t kMaxKeyDepth = 4;  // nesting of tuples used as keys

constexpr auto kTypeNames = std::to_array<std::string_view>({
    "Undefined",
    "NoneType",
    "bool",
    "int",
    "float",
    "str",
    "list",
    "tuple",
    "dict",
    "range",
    "dict_view",
    "generator",
    "object",
});
static_assert(kTypeNames.size() == std::variant_size_v<Value::Storage>);
static_assert(kTypeNames.size() == static_cast<size_t>(Kind::object) + 1);

std::shared_ptr<const Sequence> make_sequence(List items) {
  uint32_t depth = 0;
  for (const Value& item : items) depth = std::max(depth, item.depth());
  return std::make_shared<const Sequence>(Sequence{std::move(items), depth + 1});
}
}  // namespace

int64_t Range::size() const {
  // Unsigned differences: start and stop may be at opposite ends of int64.
  if (step > 0 ? start >= stop : start <= stop) return 0;
  const uint64_t span = step > 0 ? static_cast<uint64_t>(stop) - static_cast<uint64_t>(start)
                                 : static_cast<uint64_t>(start) - static_cast<uint64_t>(stop);
  const uint64_t stride = step > 0 ? static_cast<uint64_t>(step) : 0 - static_cast<uint64_t>(step);
  return static_cast<int64_t>(std::min<uint64_t>((span - 1) / stride + 1, INT64_MAX));
}

Value Value::undefined(std::string why) {
  return Value(Storage(Undefined{std::make_shared<const std::string>(std::move(why))}));
}
Value Value::list(List items) { return Value(Storage(ListRef{make_sequence(std::move(items))})); }
Value Value::tuple(List items, bool is_group) {
  return Value(Storage(TupleRef{make_sequence(std::move(items)), is_group}));
}
Value Value::dict(Dict dict) {
  for (const auto& [key, value] : dict.items) dict.depth = std::max({dict.depth, key.depth() + 1, value.depth() + 1});
  return Value(Storage(DictRef{std::make_shared<const Dict>(std::move(dict))}));
}
Value Value::iterator(List items) {
  const Value source = list(std::move(items));
  return Value(Storage(IteratorRef{std::make_shared<Cursor>(source), source.depth()}));
}

const List& Value::items() const {
  if (const auto* list = std::get_if<ListRef>(&storage_)) return list->data->items;
  return std::get<TupleRef>(storage_).data->items;
}

std::string_view Value::undefined_message() const {
  const auto& why = std::get<Undefined>(storage_).why;
  return why ? std::string_view(*why) : std::string_view("value is undefined");
}

bool Value::is_group() const {
  const auto* tuple = std::get_if<TupleRef>(&storage_);
  return tuple != nullptr && tuple->is_group;
}

bool Value::truthy() const {
  switch (kind()) {
    case Kind::undefined:
    case Kind::none:
      return false;
    case Kind::boolean:
      return boolean();
    case Kind::integer:
      return integer() != 0;
    case Kind::floating:
      return floating() != 0;
    case Kind::string:
      return !text().empty();
    case Kind::list:
    case Kind::tuple:
      return !items().empty();
    case Kind::dict:
      return !dict().items.empty();
    case Kind::range:
      return range().size() != 0;
    case Kind::view:
      return !view().dict->items.empty();
    case Kind::iterator:
    case Kind::object:
      return true;
  }
  return false;
}

uint32_t Value::depth() const {
  if (const auto* list = std::get_if<ListRef>(&storage_)) return list->data->depth;
  if (const auto* tuple = std::get_if<TupleRef>(&storage_)) return tuple->data->depth;
  if (const auto* dict = std::get_if<DictRef>(&storage_)) return dict->data->depth;
  if (const auto* view = std::get_if<View>(&storage_)) return view->dict->depth + 1;
  if (const auto* iterator = std::get_if<IteratorRef>(&storage_)) return iterator->depth;
  if (is(Kind::object)) return object().depth;
  return 0;
}

std::string_view Value::type_name() const {
  if (is(Kind::object)) return object().type_name();
  if (is(Kind::view))
    return view().what == ViewOf::keys ? "dict_keys" : view().what == ViewOf::values ? "dict_values" : "dict_items";
  return kTypeNames[storage_.index()];
}

bool Value::same_object(const Value& other) const {
  if (kind() != other.kind()) return false;
  switch (kind()) {
    case Kind::undefined:
      return std::get<Undefined>(storage_).why == std::get<Undefined>(other.storage_).why;
    case Kind::none:
      return true;
    case Kind::boolean:
      return boolean() == other.boolean();
    case Kind::integer:
      return integer() == other.integer();  // small integers are shared in Python
    case Kind::floating:
      return false;
    case Kind::string:
      return text() == other.text();  // literals are interned in Python
    case Kind::list:
      return std::get<ListRef>(storage_).data == std::get<ListRef>(other.storage_).data;
    case Kind::tuple:
      return std::get<TupleRef>(storage_).data == std::get<TupleRef>(other.storage_).data;
    case Kind::dict:
      return shared_dict() == other.shared_dict();
    case Kind::iterator:
      return &cursor() == &other.cursor();
    case Kind::object:
      return &object() == &other.object();
    case Kind::range:
    case Kind::view:
      return false;
  }
  return false;
}

bool is_hashable(const Value& key) {
  if (key.is(Kind::list) || key.is(Kind::dict)) return false;
  if (!key.is(Kind::tuple)) return true;
  if (key.depth() > kMaxKeyDepth) return false;
  return std::all_of(key.items().begin(), key.items().end(), is_hashable);
}

bool same_key(const Value& a, const Value& b) {
  if (a.is_number() && b.is_number())
    return a.is_int_like() && b.is_int_like() ? a.as_int() == b.as_int() : a.as_double() == b.as_double();
  if (a.kind() != b.kind()) return false;
  if (a.is(Kind::undefined)) return true;
  if (a.is(Kind::tuple))
    return std::equal(a.items().begin(), a.items().end(), b.items().begin(), b.items().end(), same_key);
  return a.same_object(b);
}

void Dict::add_to_index(size_t position) {
  const Value& key = items[position].first;
  if (key.is_string()) index_.emplace(key.text(), position);
}

void Dict::index_keys() const {
  for (size_t i = 0; i < items.size(); ++i)
    if (items[i].first.is_string()) index_.emplace(items[i].first.text(), i);
}

const Value* Dict::find(std::string_view key) const {
  if (!index_.empty()) {
    const auto hit = index_.find(key);
    return hit == index_.end() ? nullptr : &items[hit->second].second;
  }
  for (const auto& [k, v] : items)
    if (k.is_string() && k.text() == key) return &v;
  return nullptr;
}

const Value* Dict::find(const Value& key) const {
  if (key.is_string()) return find(key.text());
  for (const auto& [k, v] : items)
    if (same_key(k, key)) return &v;
  return nullptr;
}

void Dict::set(Value key, Value value) {
  if (const Value* present = find(key)) {
    const_cast<Value&>(*present) = std::move(value);  // items is ours and not const
    return;
  }
  items.emplace_back(std::move(key), std::move(value));
  if (items.size() == kIndexFrom) index_keys();
  if (items.size() > kIndexFrom) add_to_index(items.size() - 1);
}

bool Cursor::accepts(const Value& v) {
  switch (v.kind()) {
    case Kind::none:
    case Kind::boolean:
    case Kind::integer:
    case Kind::floating:
    case Kind::object:
      return false;
    default:
      return true;
  }
}

std::optional<Value> Cursor::next() {
  const size_t i = at_++;
  switch (source_.kind()) {
    case Kind::string: {
      const std::string& text = source_.text();
      if (i >= text.size()) break;
      const size_t n_bytes = decode_utf8(text, i).n_bytes;
      at_ = i + n_bytes;
      return Value(text.substr(i, n_bytes));
    }
    case Kind::list:
    case Kind::tuple:
      if (i < source_.items().size()) return source_.items()[i];
      break;
    case Kind::dict:
      if (i < source_.dict().items.size()) return source_.dict().items[i].first;
      break;
    case Kind::view: {
      const View& view = source_.view();
      if (i >= view.dict->items.size()) break;
      const auto& [key, value] = view.dict->items[i];
      if (view.what == ViewOf::items) return Value::tuple({key, value});
      return view.what == ViewOf::keys ? key : value;
    }
    case Kind::range:
      if (i < static_cast<size_t>(source_.range().size()))
        return Value(source_.range().start + static_cast<int64_t>(i) * source_.range().step);
      break;
    case Kind::iterator:
      return source_.cursor().next();
    default:
      break;
  }
  at_ = i;
  return std::nullopt;
}

Result<std::optional<Value>> Object::attribute(Interpreter&, std::string_view) { return std::optional<Value>(); }

Result<Value> Object::call(Interpreter&, CallArgs) {
  return Error{.code = ErrorCode::bad_template, .what = "'" + std::string(type_name()) + "' object is not callable"};
}

Result<std::optional<Value>> Namespace::attribute(Interpreter&, std::string_view name) {
  for (const auto& [field, value] : fields)
    if (field == name) return std::optional<Value>(value);
  return std::optional<Value>();
}

void Namespace::set(std::string_view name, Value value) {
  for (auto& [field, present] : fields) {
    if (field != name) continue;
    present = std::move(value);
    return;
  }
  fields.emplace_back(name, std::move(value));
}

}  // namespace tokamak::jinja
