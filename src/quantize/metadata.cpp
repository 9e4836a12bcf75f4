#include "quantize/metadata.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <memory>
#include <set>
#include <variant>

#include "gguf/split.h"
#include "quantize/file_types.h"

namespace tokamak {

namespace {
constexpr std::string_view kFileTypeKey = "general.file_type", kVersionKey = "general.quantization_version",
                           kImatrixPrefix = "quantize.imatrix.";

using Override = std::variant<int64_t, double, bool, std::string>;

struct KvOverride {
  std::string key;
  Override value;
};

template <class T>
bool parse_whole(std::string_view text, T& out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc() && end == text.data() + text.size();
}

Result<KvOverride> parse_override(const std::string& text) {
  const auto fail = [&](std::string what) {
    return Error{.code = ErrorCode::bad_argument,
                 .what = std::move(what),
                 .where = fmt::format("--override-kv {}", text),
                 .hint = "for example --override-kv llama.context_length=int:4096"};
  };
  const size_t equals = text.find('='), colon = text.find(':', equals == std::string::npos ? 0 : equals);
  if (equals == 0 || equals == std::string::npos || colon == std::string::npos) return fail("must be KEY=TYPE:VALUE");
  const std::string_view type = std::string_view(text).substr(equals + 1, colon - equals - 1);
  const std::string_view value = std::string_view(text).substr(colon + 1);
  KvOverride out{.key = text.substr(0, equals)};
  int64_t integer = 0;
  double number = 0;
  if (out.key == kAlignmentKey || out.key.starts_with("split."))
    return fail("this key describes the file's own layout");
  if (type == "int") {
    if (!parse_whole(value, integer)) return fail("the value is not a whole number");
    out.value = integer;
  } else if (type == "float") {
    if (!parse_whole(value, number)) return fail("the value is not a number");
    out.value = number;
  } else if (type == "bool") {
    if (value != "true" && value != "false") return fail("the value is neither true nor false");
    out.value = value == "true";
  } else if (type == "str") {
    out.value = std::string(value);
  } else {
    return fail("the type is none of int, float, bool and str");
  }
  return out;
}

// An integer keeps the type of the entry it replaces when it fits in there.
void add_integer(GgufWriter& writer, const std::string& key, int64_t value, const GgufValue* old) {
  const GgufType type = old && !old->is_array() ? old->element_type() : GgufType::i64;
  if (type == GgufType::u32 && std::in_range<uint32_t>(value)) return writer.add(key, static_cast<uint32_t>(value));
  if (type == GgufType::i32 && std::in_range<int32_t>(value)) return writer.add(key, static_cast<int32_t>(value));
  if (type == GgufType::u64 && value >= 0) return writer.add(key, static_cast<uint64_t>(value));
  if (type == GgufType::u16 && std::in_range<uint16_t>(value)) return writer.add(key, static_cast<uint16_t>(value));
  if (type == GgufType::u8 && std::in_range<uint8_t>(value)) return writer.add(key, static_cast<uint8_t>(value));
  if (!old && std::in_range<uint32_t>(value)) return writer.add(key, static_cast<uint32_t>(value));
  writer.add(key, value);
}

void add_override(GgufWriter& writer, const KvOverride& entry, const GgufValue* old) {
  if (const auto* integer = std::get_if<int64_t>(&entry.value)) return add_integer(writer, entry.key, *integer, old);
  if (const auto* flag = std::get_if<bool>(&entry.value)) return writer.add(entry.key, *flag);
  if (const auto* text = std::get_if<std::string>(&entry.value)) return writer.add(entry.key, std::string_view(*text));
  const double number = std::get<double>(entry.value);
  if (old && old->element_type() == GgufType::f64) return writer.add(entry.key, number);
  writer.add(entry.key, static_cast<float>(number));
}

template <class T>
void add_kept(GgufWriter& writer, const GgufValue& value, const std::set<int64_t>& pruned) {
  const auto kept = std::make_unique<T[]>(value.size());
  size_t n_kept = 0;
  for (size_t i = 0; i < value.size(); ++i)
    if (!pruned.contains(static_cast<int64_t>(i)))
      std::memcpy(&kept[n_kept++], value.raw().data() + i * sizeof(T), sizeof(T));
  writer.add_array(value.key(), std::span<const T>(kept.get(), n_kept));
}

// An array of numbers, one per layer, without those of the pruned layers.
void add_without_layers(GgufWriter& writer, const GgufValue& value, const std::set<int64_t>& pruned) {
  switch (value.element_type()) {
    case GgufType::u8:
      return add_kept<uint8_t>(writer, value, pruned);
    case GgufType::i8:
      return add_kept<int8_t>(writer, value, pruned);
    case GgufType::u16:
      return add_kept<uint16_t>(writer, value, pruned);
    case GgufType::i16:
      return add_kept<int16_t>(writer, value, pruned);
    case GgufType::u32:
      return add_kept<uint32_t>(writer, value, pruned);
    case GgufType::i32:
      return add_kept<int32_t>(writer, value, pruned);
    case GgufType::u64:
      return add_kept<uint64_t>(writer, value, pruned);
    case GgufType::i64:
      return add_kept<int64_t>(writer, value, pruned);
    case GgufType::f32:
      return add_kept<float>(writer, value, pruned);
    case GgufType::f64:
      return add_kept<double>(writer, value, pruned);
    case GgufType::boolean:
      return add_kept<bool>(writer, value, pruned);
    case GgufType::string:
    case GgufType::array:
      break;
  }
}

// {arch}.rope.* arrays are no lists of layers: rope.dimension_sections has four entries in any model.
bool is_per_layer(const GgufValue& value, const std::string& arch, uint64_t n_layer) {
  return value.is_array() && value.size() == n_layer && value.element_type() != GgufType::string &&
         value.key().starts_with(arch + ".") && !value.key().starts_with(arch + ".rope.");
}

bool is_replaced(std::string_view key, const QuantizeOptions& options, const std::vector<KvOverride>& overrides) {
  if (key == kSplitNoKey || key == kSplitCountKey || key == kSplitTensorsKey) return true;
  if (options.file_type && (key == kFileTypeKey || key == kVersionKey)) return true;
  if (options.imatrix && key.starts_with(kImatrixPrefix)) return true;
  return std::ranges::any_of(overrides, [key](const KvOverride& entry) { return entry.key == key; });
}

void add_imatrix(GgufWriter& writer, const ImatrixFile& imatrix) {
  const std::string prefix(kImatrixPrefix);
  writer.add(prefix + "file", std::string_view(imatrix.path));
  if (!imatrix.datasets.empty()) writer.add(prefix + "dataset", std::string_view(imatrix.datasets.front()));
  writer.add(prefix + "entries_count", static_cast<uint32_t>(imatrix.entries.size()));
  if (imatrix.n_chunks > 0) writer.add(prefix + "chunks_count", imatrix.n_chunks);
}
}  // namespace

Result<void> add_metadata(GgufWriter& writer, const GgufFile& file, const QuantizeOptions& options,
                          const std::vector<std::string>& override_kv) {
  std::vector<KvOverride> overrides;
  for (const std::string& text : override_kv) overrides.push_back(TRY(parse_override(text)));
  const std::string arch(TRY(file.get_string_or("general.architecture", "")));
  const std::string layers_key = arch + ".block_count";
  const std::set<int64_t> pruned(options.prune_layers.begin(), options.prune_layers.end());
  const uint64_t n_layer = pruned.empty() ? 0 : TRY(file.get_u64(layers_key, 1, 1u << 16));
  for (const GgufValue& value : file.values()) {
    if (is_replaced(value.key(), options, overrides)) continue;
    if (!pruned.empty() && value.key() == layers_key)
      writer.add(layers_key, static_cast<uint32_t>(n_layer - pruned.size()));
    else if (!pruned.empty() && is_per_layer(value, arch, n_layer))
      add_without_layers(writer, value, pruned);
    else
      writer.add(value);
  }
  if (options.file_type) {
    const auto says = [&](std::string_view key) {
      return std::ranges::any_of(overrides, [key](const KvOverride& entry) { return entry.key == key; });
    };
    if (!says(kVersionKey)) writer.add(kVersionKey, kQuantizationVersion);
    if (!says(kFileTypeKey)) writer.add(kFileTypeKey, file_type_id(*options.file_type));
  }
  if (options.imatrix) add_imatrix(writer, *options.imatrix);
  for (const KvOverride& entry : overrides) add_override(writer, entry, file.find(entry.key));
  return {};
}

}  // namespace tokamak
