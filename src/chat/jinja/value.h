// The values a template computes with: Python's, as far as Jinja templates can see them.
// Values are immutable and share their payload; only objects (namespaces, loops, cyclers) change after creation.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "base/result.h"

namespace tokamak::jinja {

class Interpreter;
class Value;
struct Dict;
struct Object;
class Cursor;

using List = std::vector<Value>;

// Arguments of one call, in the order they were written.
struct CallArgs {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;
};

// Nesting of lists, tuples and dicts stops here, so that walking or freeing a value never exhausts the stack.
inline constexpr uint32_t kMaxValueDepth = 200;

struct None {};
struct Undefined {
  std::shared_ptr<const std::string> why;  // the message of the error that using it raises; may be null
};
struct Sequence {
  List items;
  uint32_t depth = 1;
};
struct ListRef {
  std::shared_ptr<const Sequence> data;
};
struct TupleRef {
  std::shared_ptr<const Sequence> data;
  bool is_group = false;  // an element of the groupby filter: .grouper and .list name its two items
};
struct DictRef {
  std::shared_ptr<const Dict> data;
};
struct Range {
  int64_t start, stop, step;  // step != 0
  int64_t size() const;
};
enum class ViewOf : uint8_t { keys, values, items };
struct View {  // what dict.keys(), dict.values() and dict.items() return
  std::shared_ptr<const Dict> dict;
  ViewOf what;
};
struct IteratorRef {  // what lazy filters return: no length, always true, consumed once
  std::shared_ptr<Cursor> cursor;
  uint32_t depth;
};
struct ObjectRef {
  std::shared_ptr<Object> data;
};

// In the order of the alternatives of Value::Storage.
enum class Kind : uint8_t {
  undefined,
  none,
  boolean,
  integer,
  floating,
  string,
  list,
  tuple,
  dict,
  range,
  view,
  iterator,
  object,
};

class Value {
 public:
  using Storage = std::variant<Undefined, None, bool, int64_t, double, std::shared_ptr<const std::string>, ListRef,
                               TupleRef, DictRef, Range, View, IteratorRef, ObjectRef>;

  Value() = default;  // undefined, without a message
  explicit Value(bool b) : storage_(b) {}
  explicit Value(int64_t i) : storage_(i) {}
  explicit Value(double d) : storage_(d) {}
  explicit Value(std::string text) : storage_(std::make_shared<const std::string>(std::move(text))) {}
  explicit Value(std::string_view text) : Value(std::string(text)) {}
  explicit Value(const char* text) : Value(std::string(text)) {}
  explicit Value(Range r) : storage_(r) {}
  explicit Value(View v) : storage_(std::move(v)) {}
  static Value none() { return Value(Storage(None{})); }
  static Value undefined(std::string why);
  // The caller keeps the nesting below kMaxValueDepth (Interpreter::list and friends check it).
  static Value list(List items);
  static Value tuple(List items, bool is_group = false);
  static Value dict(Dict dict);
  static Value iterator(List items);
  static Value object(std::shared_ptr<Object> object) { return Value(Storage(ObjectRef{std::move(object)})); }

  Kind kind() const { return static_cast<Kind>(storage_.index()); }
  bool is(Kind k) const { return kind() == k; }
  bool is_string() const { return is(Kind::string); }

  // The payload of a known kind.
  bool boolean() const { return std::get<bool>(storage_); }
  int64_t integer() const { return std::get<int64_t>(storage_); }
  double floating() const { return std::get<double>(storage_); }
  const std::string& text() const { return *std::get<std::shared_ptr<const std::string>>(storage_); }
  const List& items() const;  // of a list or tuple
  const Dict& dict() const { return *std::get<DictRef>(storage_).data; }
  std::shared_ptr<const Dict> shared_dict() const { return std::get<DictRef>(storage_).data; }
  const Range& range() const { return std::get<Range>(storage_); }
  const View& view() const { return std::get<View>(storage_); }
  Cursor& cursor() const { return *std::get<IteratorRef>(storage_).cursor; }
  Object& object() const { return *std::get<ObjectRef>(storage_).data; }
  std::string_view undefined_message() const;
  bool is_group() const;

  bool is_int_like() const { return is(Kind::integer) || is(Kind::boolean); }  // Python: bool is an int
  bool is_number() const { return is_int_like() || is(Kind::floating); }
  int64_t as_int() const { return is(Kind::boolean) ? boolean() : integer(); }
  double as_double() const { return is(Kind::floating) ? floating() : static_cast<double>(as_int()); }

  bool truthy() const;
  uint32_t depth() const;                      // nesting of containers: 0 for scalars and objects
  std::string_view type_name() const;          // Python's name of the type
  bool same_object(const Value& other) const;  // Python's `is`, for kinds where it is well defined

 private:
  explicit Value(Storage storage) : storage_(std::move(storage)) {}
  Storage storage_;
};

// Insertion-ordered mapping. Keys are strings, numbers, booleans, None or shallow tuples of these.
struct Dict {
  std::vector<std::pair<Value, Value>> items;
  uint32_t depth = 1;

  const Value* find(const Value& key) const;
  const Value* find(std::string_view key) const;
  void set(Value key, Value value);  // replaces in place, as Python does

 private:
  void index_keys() const;
  mutable std::unordered_map<std::string_view, size_t> index_;  // string keys, once the dict is large
  void add_to_index(size_t position);
};

bool is_hashable(const Value& key);
bool same_key(const Value& a, const Value& b);

// Steps over anything iterable. Holds the value, so the source may be dropped meanwhile.
class Cursor {
 public:
  explicit Cursor(Value source) : source_(std::move(source)) {}
  static bool accepts(const Value& v);
  std::optional<Value> next();

 private:
  Value source_;
  size_t at_ = 0;  // item index; byte offset in a string
};

// Things with behaviour: functions, bound methods, macros, loops, namespaces.
struct Object : std::enable_shared_from_this<Object> {
  explicit Object(uint32_t depth_ = 0) : depth(depth_) {}
  virtual ~Object() = default;
  virtual std::string_view type_name() const = 0;
  // Nothing when there is no such attribute.
  virtual Result<std::optional<Value>> attribute(Interpreter& interpreter, std::string_view name);
  virtual bool callable() const { return false; }
  virtual Result<Value> call(Interpreter& interpreter, CallArgs args);
  // Drops references to other values. The interpreter calls it at the end on objects that may lie on cycles.
  virtual void release() {}

  const uint32_t depth;  // nesting of the values fixed at creation; counts as nesting of a container
};

// ns.name = value is allowed on these only.
struct Namespace final : Object {
  std::vector<std::pair<std::string, Value>> fields;
  std::string_view type_name() const override { return "TemplateNamespace"; }
  Result<std::optional<Value>> attribute(Interpreter& interpreter, std::string_view name) override;
  void set(std::string_view name, Value value);
  void release() override { fields.clear(); }
};

}  // namespace tokamak::jinja
