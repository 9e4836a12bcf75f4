#include "safetensors/header.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

#include "base/utf8.h"

namespace tokamak {

namespace {

using nlohmann::json;

constexpr std::string_view kMetadata = "__metadata__";
constexpr int64_t kMaxElements = int64_t{1} << 56;  // so that bits never overflow

struct Entry {
  SafetensorsTensor tensor;
  uint64_t begin = 0, end = 0;  // bytes of the data
  bool has_type = false, has_shape = false, has_offsets = false;
};

// Walks the header's JSON event by event. Depth 1: tensor names. Depth 2: fields of one tensor. Depth 3: their arrays.
class HeaderReader : public nlohmann::json_sax<json> {
 public:
  explicit HeaderReader(std::string file_name) : file_name_(std::move(file_name)) {}

  std::vector<Entry> entries;
  std::optional<Error> error;

  bool start_object(size_t) override {
    if (depth_ == 0) return ++depth_, true;
    if (depth_ != 1) return malformed("an object where none belongs");
    ++depth_;
    in_metadata_ = key_ == kMetadata;
    if (in_metadata_) return true;
    if (key_.empty() || key_.size() > kMaxSafetensorsName) return malformed("a tensor name that is empty or too long");
    entries.emplace_back().tensor.name = key_;
    return true;
  }
  bool end_object() override {
    if (--depth_ == 1 && !in_metadata_) return finish_entry();
    return true;
  }
  bool key(std::string& text) override {
    if (depth_ == 1) key_ = text;
    if (depth_ == 2) field_ = text;
    return true;
  }
  bool start_array(size_t) override {
    if (depth_ != 2 || in_metadata_ || (field_ != "shape" && field_ != "data_offsets"))
      return malformed("an array where none belongs");
    numbers_.clear();
    ++depth_;
    return true;
  }
  bool end_array() override {
    --depth_;
    return field_ == "shape" ? set_shape() : set_offsets();
  }
  bool string(std::string& text) override {
    if (depth_ == 2 && in_metadata_) return true;
    if (depth_ != 2 || field_ != "dtype") return malformed("a text where none belongs");
    return set_type(text);
  }
  bool number_unsigned(uint64_t value) override {
    if (depth_ != 3) return malformed("a number where none belongs");
    if (numbers_.size() >= kMaxSafetensorsRank)
      return malformed(fmt::format("more than {} numbers", kMaxSafetensorsRank));
    numbers_.push_back(value);
    return true;
  }
  bool number_integer(int64_t) override { return malformed("a negative number"); }
  bool number_float(double, const std::string&) override { return malformed("a number that is not whole"); }
  bool null() override { return malformed("null"); }
  bool boolean(bool) override { return malformed("true or false"); }
  bool binary(json::binary_t&) override { return malformed("binary data"); }
  bool parse_error(size_t position, const std::string&, const nlohmann::detail::exception&) override {
    return malformed(fmt::format("invalid JSON at byte {}", position));
  }

 private:
  bool fail(ErrorCode code, std::string what, std::string hint = "") {
    std::string where = file_name_;
    if (depth_ >= 2 && !in_metadata_) where += fmt::format(": tensor '{}'", key_);
    if (!error)
      error = Error{.code = code, .what = std::move(what), .where = std::move(where), .hint = std::move(hint)};
    return false;
  }
  bool malformed(const std::string& what) {
    return fail(ErrorCode::bad_file, "the header has " + what, "the file is damaged or not a safetensors file");
  }
  bool set_type(const std::string& name) {
    const NumberTypeRow* row = find_number_type(name);
    if (!row)
      return fail(ErrorCode::unsupported, fmt::format("unknown dtype '{}'", name), "known: " + number_type_names());
    entries.back().tensor.type = row->id;
    return entries.back().has_type = true;
  }
  bool set_shape() {
    int64_t n = 1;
    for (uint64_t d : numbers_) {
      if (d > static_cast<uint64_t>(kMaxElements) || __builtin_mul_overflow(n, static_cast<int64_t>(d), &n) ||
          n > kMaxElements)
        return fail(ErrorCode::bad_tensor, fmt::format("shape [{}] is not possible", fmt::join(numbers_, ", ")));
    }
    entries.back().tensor.shape.assign(numbers_.begin(), numbers_.end());
    return entries.back().has_shape = true;
  }
  bool set_offsets() {
    if (numbers_.size() != 2)
      return fail(ErrorCode::bad_file, fmt::format("{} data offsets instead of 2", numbers_.size()));
    entries.back().begin = numbers_[0];
    entries.back().end = numbers_[1];
    return entries.back().has_offsets = true;
  }
  bool finish_entry() {
    const Entry& entry = entries.back();
    if (entry.has_type && entry.has_shape && entry.has_offsets) return true;
    const char* missing = !entry.has_type ? "dtype" : !entry.has_shape ? "shape" : "data_offsets";
    error = Error{.code = ErrorCode::bad_file,
                  .what = fmt::format("the header has no '{}' for it", missing),
                  .where = fmt::format("{}: tensor '{}'", file_name_, key_)};
    return false;
  }

  std::string file_name_, key_, field_;
  std::vector<uint64_t> numbers_;
  int depth_ = 0;
  bool in_metadata_ = false;
};

Error damaged(std::string what, const std::string& where) {
  return {
      .code = ErrorCode::bad_file, .what = std::move(what), .where = where, .hint = "the download may be incomplete"};
}

Error bad_entry(const std::string& file_name, const Entry& entry, std::string what) {
  return {.code = ErrorCode::bad_tensor,
          .what = std::move(what),
          .where = fmt::format("{}: tensor '{}'", file_name, entry.tensor.name)};
}

// Gives each entry its bytes. Entries in the order of their offsets.
Result<void> place(std::vector<Entry>& entries, std::span<const std::byte> data, const std::string& name) {
  uint64_t next = 0;
  for (Entry& entry : entries) {
    const auto n_bits = static_cast<uint64_t>(entry.tensor.n_elements()) * number_type_row(entry.tensor.type).n_bits;
    if (entry.begin > entry.end)
      return bad_entry(name, entry, fmt::format("data offsets {} to {} run backwards", entry.begin, entry.end));
    if (n_bits % 8 != 0 || entry.end - entry.begin != n_bits / 8)
      return bad_entry(name, entry,
                       fmt::format("{} bytes of data do not fit dtype {} and shape {}", entry.end - entry.begin,
                                   number_type_row(entry.tensor.type).name, entry.tensor.shape_text()));
    if (entry.end > data.size())
      return damaged(fmt::format("its data ends at byte {} of {}: the file is cut short", entry.end, data.size()),
                     fmt::format("{}: tensor '{}'", name, entry.tensor.name));
    if (entry.begin < next) return bad_entry(name, entry, "its data overlaps that of another tensor");
    if (entry.begin > next)
      return bad_entry(name, entry, fmt::format("a gap of {} bytes before its data", entry.begin - next));
    entry.tensor.data = data.subspan(entry.begin, entry.end - entry.begin);
    next = entry.end;
  }
  if (next != data.size())
    return damaged(fmt::format("{} bytes behind the last tensor belong to none", data.size() - next), name);
  return {};
}

}  // namespace

std::string SafetensorsTensor::shape_text() const { return fmt::format("[{}]", fmt::join(shape, ", ")); }

Result<std::vector<SafetensorsTensor>> validate_safetensors(std::span<const std::byte> bytes, const std::string& name,
                                                            uint32_t file) {
  uint64_t n_header = 0;
  if (bytes.size() < sizeof n_header)
    return damaged(fmt::format("{} bytes are no safetensors file", bytes.size()), name);
  std::memcpy(&n_header, bytes.data(), sizeof n_header);
  if (n_header > kMaxSafetensorsHeader)
    return Error{.code = ErrorCode::bad_file,
                 .what = fmt::format("a header of {} bytes, allowed are at most {}", n_header, kMaxSafetensorsHeader),
                 .where = name,
                 .hint = "this is not a safetensors file"};
  if (n_header > bytes.size() - sizeof n_header)
    return damaged(fmt::format("the header has {} bytes, the file only {}", n_header, bytes.size()), name);
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()) + sizeof n_header, n_header);
  if (const size_t n = valid_utf8_prefix(text); n != text.size())
    return damaged(fmt::format("the header is not UTF-8 at byte {}", n), name);
  HeaderReader reader(name);
  if (!json::sax_parse(text.begin(), text.end(), &reader) || reader.error)
    return reader.error ? *reader.error : damaged("the header is not valid JSON", name);
  std::vector<Entry>& entries = reader.entries;
  std::ranges::sort(entries, {}, [](const Entry& e) -> const std::string& { return e.tensor.name; });
  for (size_t i = 1; i < entries.size(); ++i)
    if (entries[i].tensor.name == entries[i - 1].tensor.name)
      return bad_entry(name, entries[i], "the name appears twice");
  std::ranges::stable_sort(entries, {}, [](const Entry& e) { return std::pair(e.begin, e.end); });
  TRY(place(entries, bytes.subspan(sizeof n_header + n_header), name));
  std::vector<SafetensorsTensor> tensors;
  for (Entry& entry : entries) {
    entry.tensor.file = file;
    tensors.push_back(std::move(entry.tensor));
  }
  return tensors;
}

}  // namespace tokamak
