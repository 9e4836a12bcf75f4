// Pieces of the filters that span their two files.
#pragma once

#include "chat/jinja/builtins.h"
#include "chat/jinja/interpreter.h"

namespace tokamak::jinja {

std::span<const BuiltinRow> text_filter_table();
std::span<const BuiltinRow> sequence_filter_table();

// len(value).
Result<int64_t> length_of(Interpreter& interpreter, const Value& value);
// int(text, base) and float(text), nothing when Python raises ValueError.
std::optional<int64_t> parse_int(std::string_view text, int64_t base);
std::optional<double> parse_float(std::string_view text);

// tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False), as transformers defines it.
Result<Value> filter_tojson(Interpreter& interpreter, Args& args);

}  // namespace tokamak::jinja
