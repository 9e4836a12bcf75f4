// Python's str() and repr(), and json.dumps as the tojson filter of transformers calls it.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/utf8.h"
#include "chat/jinja/interpreter.h"
#include "chat/jinja/objects.h"
#include "chat/jinja/unicode.h"

namespace tokamak::jinja {

std::string float_repr(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  // Shortest digits in scientific form, then Python's choice of notation: exponent below -4 or from 16 up.
  char buffer[64];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::scientific).ptr;
  const std::string_view scientific(buffer, static_cast<size_t>(end - buffer));
  const size_t e = scientific.find('e');
  int exponent = 0;
  const char* exponent_begin = buffer + e + (scientific[e + 1] == '+' ? 2 : 1);
  std::from_chars(exponent_begin, end, exponent);
  if (exponent < -4 || exponent >= 16) {
    // Both write at least two exponent digits.
    return std::string(scientific);
  }
  const auto fixed_end = std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::fixed).ptr;
  std::string fixed(buffer, fixed_end);
  if (fixed.find('.') == fixed.npos) fixed += ".0";
  return fixed;
}

namespace {
constexpr int kMaxWalkDepth = static_cast<int>(kMaxValueDepth) + 20;  // namespaces add levels to those of containers
}

Result<std::string> Interpreter::str(const Value& value) {
  if (value.is_string()) return value.text();
  if (value.is(Kind::undefined)) return std::string();
  return repr(value);
}

Result<std::string> Interpreter::repr(const Value& value) {
  std::string out;
  TRY(append_repr(out, value, 0));
  TRY(charge(out.size()));
  return out;
}

Result<void> Interpreter::append_items(std::string& out, const List& items, int depth) {
  for (size_t i = 0; i < items.size(); ++i) {
    if (i > 0) out += ", ";
    TRY(append_repr(out, items[i], depth));
  }
  return {};
}

namespace {
Result<void> append_pairs(std::string& out, const Dict& dict, const std::function<Result<void>(const Value&)>& append) {
  out += '{';
  for (size_t i = 0; i < dict.items.size(); ++i) {
    if (i > 0) out += ", ";
    TRY(append(dict.items[i].first));
    out += ": ";
    TRY(append(dict.items[i].second));
  }
  out += '}';
  return {};
}
}  // namespace

Result<void> Interpreter::append_repr(std::string& out, const Value& value, int depth) {
  TRY(step());
  if (depth > kMaxWalkDepth) return fail("value is nested too deeply to print");
  if (out.size() > limits_.max_output_bytes) return fail("value is too long to print");
  const auto inner = [&](const Value& v) { return append_repr(out, v, depth + 1); };
  switch (value.kind()) {
    case Kind::undefined:
      out += "Undefined";
      break;
    case Kind::none:
      out += "None";
      break;
    case Kind::boolean:
      out += value.boolean() ? "True" : "False";
      break;
    case Kind::integer:
      out += std::to_string(value.integer());
      break;
    case Kind::floating:
      out += float_repr(value.floating());
      break;
    case Kind::string:
      out += repr_string(value.text());
      break;
    case Kind::list:
      out += '[';
      TRY(append_items(out, value.items(), depth + 1));
      out += ']';
      break;
    case Kind::tuple:
      out += '(';
      TRY(append_items(out, value.items(), depth + 1));
      out += value.items().size() == 1 ? ",)" : ")";
      break;
    case Kind::dict:
      return append_pairs(out, value.dict(), inner);
    case Kind::range:
      out += fmt::format("range({}, {}", value.range().start, value.range().stop);
      out += value.range().step == 1 ? ")" : fmt::format(", {})", value.range().step);
      break;
    case Kind::view:
      out += std::string(value.type_name()) + "([";
      TRY(append_items(out, TRY(to_list(value)), depth + 1));
      out += "])";
      break;
    case Kind::iterator:
      out += "<generator object>";
      break;  // Python adds an address
    case Kind::object: {
      const auto* space = dynamic_cast<const Namespace*>(&value.object());
      if (space == nullptr) {
        out += "<" + std::string(value.type_name()) + ">";
        break;
      }
      Dict fields;
      for (const auto& [name, field] : space->fields) fields.items.emplace_back(Value(name), field);
      out += "<Namespace ";
      TRY(append_pairs(out, fields, inner));
      out += '>';
    }
  }
  return {};
}

namespace {
class JsonWriter {
 public:
  JsonWriter(Interpreter& interpreter, const JsonStyle& style) : interpreter_(interpreter), style_(style) {}

  Result<std::string> run(const Value& value) {
    TRY(write(value));
    return std::move(out_);
  }

 private:
  Result<void> write(const Value& value) {
    TRY(interpreter_.step());
    if (out_.size() > kMaxBytes) return interpreter_.fail("JSON text is too long");
    switch (value.kind()) {
      case Kind::none:
        out_ += "null";
        break;
      case Kind::boolean:
        out_ += value.boolean() ? "true" : "false";
        break;
      case Kind::integer:
        out_ += std::to_string(value.integer());
        break;
      case Kind::floating:
        out_ += number(value.floating());
        break;
      case Kind::string:
        quote(value.text());
        break;
      case Kind::list:
      case Kind::tuple:
        return array(value.items());
      case Kind::dict:
        return object(value.dict());
      default:
        return interpreter_.fail("Object of type " + std::string(value.type_name()) + " is not JSON serializable");
    }
    return {};
  }

  static std::string number(double value) {
    if (std::isnan(value)) return "NaN";
    if (std::isinf(value)) return value < 0 ? "-Infinity" : "Infinity";
    return float_repr(value);
  }

  void new_line() {
    if (!style_.has_indent) return;
    out_ += '\n';
    for (int i = 0; i < level_; ++i) out_ += style_.indent;
  }

  Result<void> array(const List& items) {
    if (items.empty()) {
      out_ += "[]";
      return {};
    }
    out_ += '[';
    ++level_;
    for (size_t i = 0; i < items.size(); ++i) {
      if (i > 0) out_ += style_.item_separator;
      new_line();
      TRY(write(items[i]));
    }
    --level_;
    new_line();
    out_ += ']';
    return {};
  }

  Result<std::string> key_text(const Value& key) {
    switch (key.kind()) {
      case Kind::string:
        return key.text();
      case Kind::none:
        return std::string("null");
      case Kind::boolean:
        return std::string(key.boolean() ? "true" : "false");
      case Kind::integer:
        return std::to_string(key.integer());
      case Kind::floating:
        return number(key.floating());
      default:
        return interpreter_.fail("keys must be str, int, float, bool or None, not " + std::string(key.type_name()));
    }
  }

  Result<void> object(const Dict& dict) {
    if (dict.items.empty()) {
      out_ += "{}";
      return {};
    }
    std::vector<const std::pair<Value, Value>*> items;
    for (const auto& item : dict.items) items.push_back(&item);
    if (style_.sort_keys) TRY(sort_items(items));
    out_ += '{';
    ++level_;
    for (size_t i = 0; i < items.size(); ++i) {
      if (i > 0) out_ += style_.item_separator;
      new_line();
      quote(TRY(key_text(items[i]->first)));
      out_ += style_.key_separator;
      TRY(write(items[i]->second));
    }
    --level_;
    new_line();
    out_ += '}';
    return {};
  }

  Result<void> sort_items(std::vector<const std::pair<Value, Value>*>& items) {
    for (size_t i = 1; i < items.size(); ++i) TRY(interpreter_.less(items[i - 1]->first, items[i]->first));
    std::stable_sort(items.begin(), items.end(), [this](const auto* a, const auto* b) {
      const auto less = interpreter_.less(a->first, b->first);
      return less && *less;
    });
    return {};
  }

  void quote(std::string_view text) {
    static constexpr std::string_view kFrom = "\"\\\n\r\t\f\b";
    static constexpr std::string_view kTo = "\"\\nrtfb";
    out_ += '"';
    for (size_t i = 0; i < text.size();) {
      const Utf8Char c = decode_utf8(text, i);
      const uint32_t code = c.code_point;
      if (const size_t simple = code < 0x80 ? kFrom.find(static_cast<char>(code)) : kFrom.npos; simple != kFrom.npos) {
        out_ += '\\';
        out_ += kTo[simple];
      } else if (code < 0x20 || (style_.ensure_ascii && code >= 0x7F && code < 0x10000)) {
        out_ += fmt::format("\\u{:04x}", code);
      } else if (style_.ensure_ascii && code >= 0x10000) {
        out_ +=
            fmt::format("\\u{:04x}\\u{:04x}", 0xD800 + ((code - 0x10000) >> 10), 0xDC00 + ((code - 0x10000) & 0x3FF));
      } else {
        out_.append(text.substr(i, c.n_bytes));
      }
      i += c.n_bytes;
    }
    out_ += '"';
  }

  static constexpr size_t kMaxBytes = 64u << 20;
  Interpreter& interpreter_;
  const JsonStyle& style_;
  std::string out_;
  int level_ = 0;
};
}  // namespace

Result<std::string> to_json(Interpreter& interpreter, const Value& value, const JsonStyle& style) {
  return JsonWriter(interpreter, style).run(value);
}

}  // namespace tokamak::jinja
