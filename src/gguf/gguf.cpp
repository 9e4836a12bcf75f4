#include "gguf/gguf.h"

#include <fmt/format.h>

#include <optional>

#include "gguf/split.h"

namespace tokamak {

namespace {

std::string_view name_of(const GgufTensor& tensor) { return tensor.name; }
std::string_view key_of(const GgufValue& value) { return value.key(); }

// The item called `name`, or null.
template <class Item, class Name>
const Item* find_sorted(const std::vector<Item>& items, const std::vector<uint32_t>& order, std::string_view name,
                        Name name_of_item) {
  const auto it = std::ranges::lower_bound(order, name, {}, [&](uint32_t i) { return name_of_item(items[i]); });
  return it != order.end() && name_of_item(items[*it]) == name ? &items[*it] : nullptr;
}

// A path for messages: its end when it is very long.
std::string display_path(const std::filesystem::path& path) {
  constexpr size_t kMaxBytes = 200;
  const std::string text = path.string();
  return text.size() <= kMaxBytes ? text : "..." + text.substr(text.size() - kMaxBytes);
}

}  // namespace

Result<GgufFile> GgufFile::parse(std::span<const std::byte> bytes, std::string name) {
  GgufFile file;
  file.add_part({}, bytes.size(), TRY(validate_gguf(bytes, std::move(name))));
  TRY(file.index_names());
  return file;
}

Result<GgufFile> GgufFile::open(const std::filesystem::path& path, const OpenOptions& options) {
  const auto report = [&](double fraction) {
    if (options.progress) options.progress(fraction);
  };
  report(0);
  GgufFile file;
  MappedFile given_file = TRY(MappedFile::open(path));
  GgufPart given = TRY(validate_gguf(given_file.bytes(), display_path(path)));
  const SplitKeys keys = options.find_split_parts ? TRY(read_split_keys(given)) : SplitKeys{};
  if (keys.n_parts == 1) {
    const uint64_t n_bytes = given_file.bytes().size();
    file.add_part(std::move(given_file), n_bytes, std::move(given));
  } else {
    const std::string prefix = TRY(split_prefix(path, keys, *given.name));
    SplitCheck check(keys.n_parts);
    for (uint32_t part_idx = 0; part_idx < keys.n_parts; ++part_idx) {
      const std::filesystem::path part_path = split_part_path(prefix, part_idx, keys.n_parts);
      MappedFile part_file = TRY(open_split_part(part_path, part_idx, keys.n_parts));
      GgufPart part = TRY(validate_gguf(part_file.bytes(), display_path(part_path), part_idx));
      TRY(check.add(part, part_idx));
      const uint64_t n_bytes = part_file.bytes().size();
      file.add_part(std::move(part_file), n_bytes, std::move(part));
      report((part_idx + 1.0) / keys.n_parts);
    }
    TRY(check.finish());
  }
  TRY(file.index_names());
  report(1);
  return file;
}

void GgufFile::add_part(MappedFile file, uint64_t n_bytes, GgufPart part) {
  if (parts_.empty()) values_ = std::move(part.values);
  tensors_.insert(tensors_.end(), std::make_move_iterator(part.tensors.begin()),
                  std::make_move_iterator(part.tensors.end()));
  parts_.push_back(Part{std::move(file), part.name, n_bytes, part.version, part.alignment});
}

Result<void> GgufFile::index_names() {
  values_by_key_ = sorted_by_name(values_, key_of);
  tensors_by_name_ = sorted_by_name(tensors_, name_of);
  if (const GgufTensor* repeated = find_duplicate(tensors_, tensors_by_name_, name_of))
    return Error{.code = ErrorCode::bad_tensor,
                 .what = "another part of the model holds a tensor of the same name",
                 .where = fmt::format("{}: tensor {}, byte {}", part_name(repeated->part), short_quote(repeated->name),
                                      repeated->offset),
                 .hint = "the parts do not belong together"};
  return {};
}

const GgufValue* GgufFile::find(std::string_view key) const {
  return find_sorted(values_, values_by_key_, key, key_of);
}

const GgufTensor* GgufFile::find_tensor(std::string_view name) const {
  return find_sorted(tensors_, tensors_by_name_, name, name_of);
}

uint64_t GgufFile::n_bytes() const {
  uint64_t n = 0;
  for (const Part& part : parts_) n += part.n_bytes;
  return n;
}

void GgufFile::forget(const GgufTensor& tensor) const { parts_[tensor.part].file.forget(tensor.data); }

Error GgufFile::missing(std::string_view key) const {
  return Error{.code = ErrorCode::bad_metadata,
               .what = "the key is missing",
               .where = fmt::format("{}: key {}", part_name(0), short_quote(key)),
               .hint = "the file is incomplete or not of this kind of model"};
}

template <class T, class Convert>
Result<T> GgufFile::get(std::string_view key, T* fallback, Convert convert) const {
  if (const GgufValue* value = find(key)) return convert(*value);
  if (fallback) return std::move(*fallback);
  return missing(key);
}

Result<uint64_t> GgufFile::get_u64(std::string_view key, uint64_t min, uint64_t max) const {
  return get<uint64_t>(key, nullptr, [&](const GgufValue& value) { return value.to_u64(min, max); });
}
Result<int64_t> GgufFile::get_i64(std::string_view key, int64_t min, int64_t max) const {
  return get<int64_t>(key, nullptr, [&](const GgufValue& value) { return value.to_i64(min, max); });
}
Result<double> GgufFile::get_f64(std::string_view key, double min, double max) const {
  return get<double>(key, nullptr, [&](const GgufValue& value) { return value.to_f64(min, max); });
}
Result<bool> GgufFile::get_bool(std::string_view key) const {
  return get<bool>(key, nullptr, [](const GgufValue& value) { return value.to_bool(); });
}
Result<std::string_view> GgufFile::get_string(std::string_view key) const {
  return get<std::string_view>(key, nullptr, [](const GgufValue& value) { return value.to_string(); });
}
Result<std::vector<int64_t>> GgufFile::get_ints(std::string_view key) const {
  return get<std::vector<int64_t>>(key, nullptr, [](const GgufValue& value) { return value.to_ints(); });
}
Result<std::vector<float>> GgufFile::get_floats(std::string_view key) const {
  return get<std::vector<float>>(key, nullptr, [](const GgufValue& value) { return value.to_floats(); });
}
Result<std::vector<std::string_view>> GgufFile::get_strings(std::string_view key) const {
  return get<std::vector<std::string_view>>(key, nullptr, [](const GgufValue& value) { return value.to_strings(); });
}

Result<uint64_t> GgufFile::get_u64_or(std::string_view key, uint64_t fallback, uint64_t min, uint64_t max) const {
  return get(key, &fallback, [&](const GgufValue& value) { return value.to_u64(min, max); });
}
Result<int64_t> GgufFile::get_i64_or(std::string_view key, int64_t fallback, int64_t min, int64_t max) const {
  return get(key, &fallback, [&](const GgufValue& value) { return value.to_i64(min, max); });
}
Result<double> GgufFile::get_f64_or(std::string_view key, double fallback, double min, double max) const {
  return get(key, &fallback, [&](const GgufValue& value) { return value.to_f64(min, max); });
}
Result<bool> GgufFile::get_bool_or(std::string_view key, bool fallback) const {
  return get(key, &fallback, [](const GgufValue& value) { return value.to_bool(); });
}
Result<std::string_view> GgufFile::get_string_or(std::string_view key, std::string_view fallback) const {
  return get(key, &fallback, [](const GgufValue& value) { return value.to_string(); });
}
Result<std::vector<int64_t>> GgufFile::get_ints_or(std::string_view key, std::vector<int64_t> fallback) const {
  return get(key, &fallback, [](const GgufValue& value) { return value.to_ints(); });
}
Result<std::vector<float>> GgufFile::get_floats_or(std::string_view key, std::vector<float> fallback) const {
  return get(key, &fallback, [](const GgufValue& value) { return value.to_floats(); });
}
Result<std::vector<std::string_view>> GgufFile::get_strings_or(std::string_view key,
                                                               std::vector<std::string_view> fallback) const {
  return get(key, &fallback, [](const GgufValue& value) { return value.to_strings(); });
}

}  // namespace tokamak
