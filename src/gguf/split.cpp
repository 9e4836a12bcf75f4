#include "gguf/split.h"

#include <fmt/format.h>

namespace tokamak {

namespace {

const GgufValue* find_value(const GgufPart& part, std::string_view key) {
  for (const GgufValue& value : part.values)
    if (value.key() == key) return &value;
  return nullptr;
}

Result<uint64_t> require(const GgufPart& part, std::string_view key, uint64_t max) {
  if (const GgufValue* value = find_value(part, key)) return value->to_u64(0, max);
  return Error{.code = ErrorCode::bad_metadata,
               .what = "the key is missing in a part of a split model",
               .where = fmt::format("{}: key {}", *part.name, short_quote(key)),
               .hint = "split the model again"};
}

Error mismatch(const GgufPart& part, std::string what) {
  return Error{.code = ErrorCode::bad_metadata,
               .what = std::move(what),
               .where = *part.name,
               .hint = "the parts do not belong together"};
}

}  // namespace

Result<SplitKeys> read_split_keys(const GgufPart& part) {
  SplitKeys keys;
  if (!find_value(part, kSplitCountKey)) return keys;
  keys.n_parts = static_cast<uint32_t>(TRY(require(part, kSplitCountKey, kMaxSplitParts)));
  if (keys.n_parts <= 1) return SplitKeys{};
  keys.part_idx = static_cast<uint32_t>(TRY(require(part, kSplitNoKey, keys.n_parts - 1)));
  return keys;
}

std::filesystem::path split_part_path(const std::string& prefix, uint32_t part_idx, uint32_t n_parts) {
  return fmt::format("{}-{:05}-of-{:05}.gguf", prefix, part_idx + 1, n_parts);
}

Result<std::string> split_prefix(const std::filesystem::path& path, const SplitKeys& keys, const std::string& name) {
  const std::string suffix = split_part_path("", keys.part_idx, keys.n_parts).string();
  const std::string text = path.string();
  if (text.ends_with(suffix)) return text.substr(0, text.size() - suffix.size());
  return Error{.code = ErrorCode::bad_file,
               .what = fmt::format("this is part {} of {}, but the name does not end in \"{}\", so the other parts "
                                   "cannot be found",
                                   keys.part_idx + 1, keys.n_parts, suffix),
               .where = name,
               .hint = "give all parts their original names"};
}

Result<MappedFile> open_split_part(const std::filesystem::path& path, uint32_t part_idx, uint32_t n_parts) {
  auto file = MappedFile::open(path);
  if (!file && file.error().code == ErrorCode::not_found) {
    file.error().what = fmt::format("part {} of {} of the model is missing", part_idx + 1, n_parts);
    file.error().hint = "put all parts into one folder";
  }
  return file;
}

Result<void> SplitCheck::add(const GgufPart& part, uint32_t part_idx) {
  const uint64_t n_parts = TRY(require(part, kSplitCountKey, kMaxSplitParts));
  const uint64_t no = TRY(require(part, kSplitNoKey, kMaxSplitParts));
  const uint64_t n_tensors = TRY(require(part, kSplitTensorsKey, std::numeric_limits<int64_t>::max()));
  if (n_parts != n_parts_)
    return mismatch(part, fmt::format("split.count is {}, the other parts say {}", n_parts, n_parts_));
  if (no != part_idx)
    return mismatch(
        part, fmt::format("split.no is {}, but by its name this is part {} (split.no {})", no, part_idx + 1, part_idx));
  if (part_idx == 0) {
    n_tensors_declared_ = n_tensors;
    first_where_ = *part.name;
  }
  if (n_tensors != n_tensors_declared_)
    return mismatch(part,
                    fmt::format("split.tensors.count is {}, the first part says {}", n_tensors, n_tensors_declared_));
  n_tensors_ += part.tensors.size();
  return {};
}

Result<void> SplitCheck::finish() const {
  if (n_tensors_ == n_tensors_declared_) return {};
  return Error{
      .code = ErrorCode::bad_metadata,
      .what = fmt::format("split.tensors.count is {}, but the parts hold {} tensors", n_tensors_declared_, n_tensors_),
      .where = first_where_,
      .hint = "the parts do not belong together"};
}

}  // namespace tokamak
