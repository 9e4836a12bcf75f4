#include "gguf/validate.h"

#include <fmt/format.h>

#include "base/round_up.h"
#include "base/utf8.h"
#include "gguf/cursor.h"

namespace tokamak {

namespace {

constexpr std::string_view kTruncatedHint = "the file is damaged or its download incomplete";
constexpr std::string_view kDamagedHint = "the file is damaged or was written by a broken tool";

// What people hand over instead of a model.
struct KnownStart {
  std::string_view bytes, hint;
};
constexpr auto kKnownStarts = std::to_array<KnownStart>({
    {"version https://git-lfs", "this is a Git LFS pointer: fetch the file itself with `git lfs pull`"},
    {"<", "this looks like a web page: the download failed"},
    {"PK", "this looks like a PyTorch checkpoint: convert it to GGUF first"},
    {"lmgg", "this is a GGML file of 2023: convert the original model to GGUF"},
    {"fmgg", "this is a GGML file of 2023: convert the original model to GGUF"},
    {"tjgg", "this is a GGML file of 2023: convert the original model to GGUF"},
});

std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string hint_for_start(std::string_view start) {
  for (const KnownStart& known : kKnownStarts)
    if (start.starts_with(known.bytes)) return std::string(known.hint);
  return "this is no GGUF model";
}

}  // namespace

class GgufValidator {
 public:
  GgufValidator(std::span<const std::byte> bytes, std::string name, uint32_t part_idx)
      : bytes_(bytes), cursor_(bytes), part_idx_(part_idx) {
    part_.name = std::make_shared<const std::string>(std::move(name));
  }

  Result<GgufPart> run() {
    TRY(read_header());
    TRY(read_entries());
    TRY(read_alignment());
    TRY(read_tensor_infos());
    TRY(place_tensors());
    return std::move(part_);
  }

 private:
  // thing: "" or what the offset belongs to, for example `key "x"`.
  Error fail(ErrorCode code, std::string what, std::string_view thing, uint64_t offset, std::string_view hint) const {
    return Error{.code = code,
                 .what = std::move(what),
                 .where = fmt::format("{}: {}{}byte {}", *part_.name, thing, thing.empty() ? "" : ", ", offset),
                 .hint = std::string(hint)};
  }
  Error truncated(std::string_view what, std::string_view thing) const {
    return fail(ErrorCode::bad_file, fmt::format("the file ends inside {}", what), thing, cursor_.offset(),
                kTruncatedHint);
  }

  Result<void> read_header();
  Result<void> check_version(uint32_t version) const;
  Result<void> check_count(uint64_t n, uint64_t min_n_bytes, std::string_view what) const;
  Result<void> read_entries();
  Result<std::string_view> read_key(uint64_t entry_idx);
  Result<GgufType> read_type(std::string_view thing);
  Result<std::span<const std::byte>> read_string(std::string_view what, std::string_view thing);
  Result<void> read_value(GgufValue& value);
  Result<void> read_array(GgufValue& value, std::string_view thing);
  Result<void> check_bools(const GgufValue& value, std::string_view thing) const;
  Result<void> read_alignment();
  Result<void> read_tensor_infos();
  Result<std::string> read_tensor_name(uint64_t tensor_idx);
  Result<void> read_tensor_info(GgufTensor& tensor);
  Result<void> read_shape(GgufTensor& tensor, std::string_view thing);
  Result<void> read_dtype(GgufTensor& tensor, std::string_view thing);
  Result<void> place_tensors();
  std::string tensor_thing(const GgufTensor& tensor) const {
    return fmt::format("tensor {}", short_quote(tensor.name));
  }

  std::span<const std::byte> bytes_;
  Cursor cursor_;
  uint32_t part_idx_;
  uint64_t n_tensors_ = 0, n_entries_ = 0;
  std::vector<uint64_t> info_offsets_;  // bytes; where each tensor's entry starts, for messages
  GgufPart part_;
};

Result<void> GgufValidator::read_header() {
  const std::string_view start = as_text(bytes_.first(std::min<size_t>(bytes_.size(), 32)));
  if (start.empty()) return fail(ErrorCode::bad_file, "the file is empty", "", 0, kTruncatedHint);
  if (!start.starts_with(kGgufMagic))
    return fail(ErrorCode::bad_file, fmt::format("the file starts with {}, not with \"GGUF\"", short_quote(start, 4)),
                "", 0, hint_for_start(start));
  std::span<const std::byte> magic;
  if (!cursor_.read(kGgufMagic.size(), magic) || !cursor_.read(part_.version)) return truncated("the header", "");
  TRY(check_version(part_.version));
  if (!cursor_.read(n_tensors_) || !cursor_.read(n_entries_)) return truncated("the header", "");
  TRY(check_count(n_tensors_, kMinTensorInfoBytes, "tensors"));
  TRY(check_count(n_entries_, kMinEntryBytes, "metadata entries"));
  return {};
}

Result<void> GgufValidator::check_version(uint32_t version) const {
  constexpr uint64_t kOffset = 4;
  if (version >= kGgufMinVersion && version <= kGgufVersion) return {};
  if (version != 0 && (version & 0xFFFF) == 0)
    return fail(ErrorCode::unsupported, "the file is big-endian", "", kOffset,
                "convert the original model to a little-endian GGUF file");
  return fail(ErrorCode::unsupported, fmt::format("GGUF version {}, supported are 2 and 3", version), "", kOffset,
              version == 1 ? "version 1 is of 2023: convert the original model again"
                           : "the file is damaged or newer than this program");
}

Result<void> GgufValidator::check_count(uint64_t n, uint64_t min_n_bytes, std::string_view what) const {
  const uint64_t most = cursor_.left() / min_n_bytes;
  if (n <= most && n <= kMaxEntries) return {};
  if (n <= most)
    return fail(ErrorCode::bad_file, fmt::format("declares {} {}, allowed are at most {}", n, what, kMaxEntries), "",
                cursor_.offset(), kDamagedHint);
  return fail(ErrorCode::bad_file,
              fmt::format("declares {} {}, but the {} bytes left hold at most {}", n, what, cursor_.left(), most), "",
              cursor_.offset(), kTruncatedHint);
}

Result<std::span<const std::byte>> GgufValidator::read_string(std::string_view what, std::string_view thing) {
  uint64_t n_bytes = 0;
  if (!cursor_.read(n_bytes)) return truncated(what, thing);
  std::span<const std::byte> out;
  if (!cursor_.read(n_bytes, out))
    return fail(ErrorCode::bad_file,
                fmt::format("{} declares {} bytes, but the file has {} left", what, n_bytes, cursor_.left()), thing,
                cursor_.offset(), kTruncatedHint);
  return out;
}

Result<std::string_view> GgufValidator::read_key(uint64_t entry_idx) {
  const uint64_t offset = cursor_.offset();
  const std::string thing = fmt::format("metadata entry {}", entry_idx);
  const std::string_view key = as_text(TRY(read_string("the key", thing)));
  const std::string named = fmt::format("key {}", short_quote(key));
  if (key.empty()) return fail(ErrorCode::bad_metadata, "the key is empty", thing, offset, kDamagedHint);
  if (key.size() > kMaxKeyBytes)
    return fail(ErrorCode::bad_metadata,
                fmt::format("the key has {} bytes, allowed are at most {}", key.size(), kMaxKeyBytes), named, offset,
                kDamagedHint);
  if (key.find('\0') != key.npos)
    return fail(ErrorCode::bad_metadata, "the key holds a NUL byte", named, offset, kDamagedHint);
  if (!is_valid_utf8(key))
    return fail(ErrorCode::bad_metadata, "the key is not valid UTF-8", named, offset, kDamagedHint);
  return key;
}

Result<GgufType> GgufValidator::read_type(std::string_view thing) {
  const uint64_t offset = cursor_.offset();
  uint32_t id = 0;
  if (!cursor_.read(id)) return truncated("a value's type", thing);
  if (id >= kGgufTypes.size())
    return fail(ErrorCode::bad_metadata,
                fmt::format("value type {} is unknown, known are 0 to {}", id, kGgufTypes.size() - 1), thing, offset,
                kDamagedHint);
  return static_cast<GgufType>(id);
}

Result<void> GgufValidator::read_entries() {
  for (uint64_t entry_idx = 0; entry_idx < n_entries_; ++entry_idx) {
    GgufValue value;
    value.file_ = part_.name;
    value.key_ = TRY(read_key(entry_idx));
    value.offset_ = cursor_.offset();
    TRY(read_value(value));
    part_.values.push_back(std::move(value));
  }
  const auto key = [](const GgufValue& value) { return value.key(); };
  if (const GgufValue* repeated = find_duplicate(part_.values, sorted_by_name(part_.values, key), key))
    return fail(ErrorCode::bad_metadata, "the key appears twice", fmt::format("key {}", short_quote(repeated->key())),
                repeated->offset(), kDamagedHint);
  return {};
}

Result<void> GgufValidator::read_value(GgufValue& value) {
  const std::string thing = fmt::format("key {}", short_quote(value.key_));
  value.element_type_ = TRY(read_type(thing));
  value.n_elements_ = 1;
  if (value.element_type_ == GgufType::array) {
    TRY(read_array(value, thing));
  } else if (value.element_type_ == GgufType::string) {
    value.raw_ = TRY(read_string("the string", thing));
  } else if (!cursor_.read(gguf_type_row(value.element_type_).n_bytes, value.raw_)) {
    return truncated("the value", thing);
  }
  return check_bools(value, thing);
}

Result<void> GgufValidator::read_array(GgufValue& value, std::string_view thing) {
  const uint64_t offset = cursor_.offset();
  value.is_array_ = true;
  value.element_type_ = TRY(read_type(thing));
  if (value.element_type_ == GgufType::array)
    return fail(ErrorCode::unsupported, "arrays of arrays are not supported", thing, offset, kDamagedHint);
  if (!cursor_.read(value.n_elements_)) return truncated("an array's length", thing);
  const GgufTypeRow& row = gguf_type_row(value.element_type_);
  const uint64_t most = cursor_.left() / row.min_n_bytes;
  if (value.n_elements_ > most)
    return fail(ErrorCode::bad_file,
                fmt::format("the array declares {} elements, but the {} bytes left hold at most {}", value.n_elements_,
                            cursor_.left(), most),
                thing, cursor_.offset(), kTruncatedHint);
  const uint64_t begin = cursor_.offset();
  if (row.n_bytes != 0) {
    if (!cursor_.read(value.n_elements_ * row.n_bytes, value.raw_)) return truncated("the array", thing);
    return {};
  }
  for (uint64_t i = 0; i < value.n_elements_; ++i)
    value.strings_.push_back(as_text(TRY(read_string("a string of the array", thing))));
  value.raw_ = bytes_.subspan(begin, cursor_.offset() - begin);
  return {};
}

Result<void> GgufValidator::check_bools(const GgufValue& value, std::string_view thing) const {
  if (value.element_type_ != GgufType::boolean) return {};
  for (const std::byte& b : value.raw_)
    if (std::to_integer<int>(b) > 1)
      return fail(ErrorCode::bad_metadata, fmt::format("a bool is {}, must be 0 or 1", std::to_integer<int>(b)), thing,
                  static_cast<uint64_t>(&b - bytes_.data()), kDamagedHint);
  return {};
}

Result<void> GgufValidator::read_alignment() {
  for (const GgufValue& value : part_.values) {
    if (value.key() != kAlignmentKey) continue;
    if (value.type() != GgufType::u32) return value.wrong_type("u32");
    const uint64_t alignment = TRY(value.to_u64());
    if (!is_valid_alignment(alignment))
      return value.out_of_range(std::to_string(alignment),
                                fmt::format("a power of two from {} to {}", kMinAlignment, kMaxAlignment));
    part_.alignment = alignment;
  }
  return {};
}

Result<std::string> GgufValidator::read_tensor_name(uint64_t tensor_idx) {
  const uint64_t offset = cursor_.offset();
  const std::string thing = fmt::format("tensor {}", tensor_idx);
  const std::string_view name = as_text(TRY(read_string("the name", thing)));
  const std::string named = fmt::format("tensor {}", short_quote(name));
  if (name.empty()) return fail(ErrorCode::bad_tensor, "the name is empty", thing, offset, kDamagedHint);
  if (name.size() > kMaxTensorNameBytes)
    return fail(ErrorCode::bad_tensor,
                fmt::format("the name has {} bytes, allowed are at most {}", name.size(), kMaxTensorNameBytes), named,
                offset, kDamagedHint);
  if (name.find('\0') != name.npos)
    return fail(ErrorCode::bad_tensor, "the name holds a NUL byte", named, offset, kDamagedHint);
  if (!is_valid_utf8(name))
    return fail(ErrorCode::bad_tensor, "the name is not valid UTF-8", named, offset, kDamagedHint);
  return std::string(name);
}

// Dimensions stand innermost first in the file and in messages about it.
Result<void> GgufValidator::read_shape(GgufTensor& tensor, std::string_view thing) {
  uint32_t n_dims = 0;
  uint64_t offset = cursor_.offset();
  if (!cursor_.read(n_dims)) return truncated("the number of dimensions", thing);
  if (n_dims > kMaxDims)
    return fail(ErrorCode::bad_tensor, fmt::format("has {} dimensions, allowed are at most {}", n_dims, kMaxDims),
                thing, offset, kDamagedHint);
  std::array<int64_t, kMaxDims> dims{};
  int64_t n_elements = 1;
  for (uint32_t dim_idx = 0; dim_idx < n_dims; ++dim_idx) {
    offset = cursor_.offset();
    int64_t& dim = dims[dim_idx];
    if (!cursor_.read(dim)) return truncated("the dimensions", thing);
    if (dim <= 0)
      return fail(ErrorCode::bad_tensor, fmt::format("dimension {} is {}, must be at least 1", dim_idx, dim), thing,
                  offset, kDamagedHint);
    if (__builtin_mul_overflow(n_elements, dim, &n_elements))
      return fail(ErrorCode::bad_tensor, fmt::format("dimension {} is {}: too many elements", dim_idx, dim), thing,
                  offset, kDamagedHint);
  }
  for (uint32_t dim_idx = n_dims; dim_idx > 0; --dim_idx) tensor.shape.push_inner(dims[dim_idx - 1]);
  return {};
}

Result<void> GgufValidator::read_dtype(GgufTensor& tensor, std::string_view thing) {
  const uint64_t offset = cursor_.offset();
  uint32_t id = 0;
  if (!cursor_.read(id)) return truncated("the tensor type", thing);
  for (const RemovedDType& removed : kRemovedDTypes)
    if (removed.id == id)
      return fail(ErrorCode::unsupported, fmt::format("tensor type {} ({}) was removed from GGUF", removed.name, id),
                  thing, offset, removed.advice);
  const DTypeRow* row = find_dtype(id);
  if (!row)
    return fail(ErrorCode::unsupported, fmt::format("tensor type {} is unknown", id), thing, offset,
                "the file is damaged or newer than this program");
  tensor.type = row->id;
  const int64_t row_elems = tensor.shape.row_elems();
  if (row_elems % row->block_elems != 0)
    return fail(
        ErrorCode::bad_tensor,
        fmt::format("dimension 0 is {}, must be a multiple of {} for type {}", row_elems, row->block_elems, row->name),
        thing, offset, kDamagedHint);
  const auto n_blocks = static_cast<uint64_t>(tensor.shape.n_elements()) / row->block_elems;
  if (__builtin_mul_overflow(n_blocks, uint64_t{row->block_bytes}, &tensor.n_bytes))
    return fail(ErrorCode::bad_tensor, "the tensor has more than 2^64 bytes", thing, offset, kDamagedHint);
  return {};
}

Result<void> GgufValidator::read_tensor_info(GgufTensor& tensor) {
  const std::string thing = tensor_thing(tensor);
  TRY(read_shape(tensor, thing));
  TRY(read_dtype(tensor, thing));
  if (!cursor_.read(tensor.offset)) return truncated("the offset", thing);
  tensor.part = part_idx_;
  return {};
}

Result<void> GgufValidator::read_tensor_infos() {
  for (uint64_t tensor_idx = 0; tensor_idx < n_tensors_; ++tensor_idx) {
    info_offsets_.push_back(cursor_.offset());
    GgufTensor tensor;
    tensor.name = TRY(read_tensor_name(tensor_idx));
    TRY(read_tensor_info(tensor));
    part_.tensors.push_back(std::move(tensor));
  }
  const auto name = [](const GgufTensor& tensor) { return std::string_view(tensor.name); };
  if (const GgufTensor* repeated = find_duplicate(part_.tensors, sorted_by_name(part_.tensors, name), name))
    return fail(ErrorCode::bad_tensor, "the name appears twice", tensor_thing(*repeated),
                info_offsets_[static_cast<size_t>(repeated - part_.tensors.data())], kDamagedHint);
  return {};
}

// From offsets within the data section to places in the file. Subtracts instead of adding: hostile sums may wrap.
Result<void> GgufValidator::place_tensors() {
  if (part_.tensors.empty()) return {};
  const uint64_t data_offset = round_up(cursor_.offset(), part_.alignment);
  const uint64_t data_n_bytes = bytes_.size() > data_offset ? bytes_.size() - data_offset : 0;
  uint64_t expected = 0;  // stays below the file's size plus one alignment
  for (size_t tensor_idx = 0; tensor_idx < part_.tensors.size(); ++tensor_idx) {
    GgufTensor& tensor = part_.tensors[tensor_idx];
    if (tensor.offset != expected)
      return fail(
          ErrorCode::bad_tensor,
          fmt::format("data offset is {}, must be {}: tensors follow each other without gaps", tensor.offset, expected),
          tensor_thing(tensor), info_offsets_[tensor_idx], kDamagedHint);
    if (expected > data_n_bytes || tensor.n_bytes > data_n_bytes - expected)
      return fail(ErrorCode::bad_tensor,
                  fmt::format("needs {} bytes, but the file has {} left", tensor.n_bytes,
                              expected > data_n_bytes ? 0 : data_n_bytes - expected),
                  tensor_thing(tensor), data_offset + expected, kTruncatedHint);
    expected += round_up(tensor.n_bytes, part_.alignment);
    tensor.offset += data_offset;
    tensor.data = bytes_.subspan(tensor.offset, tensor.n_bytes);
  }
  return {};
}

Result<GgufPart> validate_gguf(std::span<const std::byte> bytes, std::string name, uint32_t part) {
  return GgufValidator(bytes, std::move(name), part).run();
}

}  // namespace tokamak
