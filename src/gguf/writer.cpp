#include "gguf/writer.h"

#include <fmt/format.h>

#include <cstring>
#include <functional>

#include "base/output_file.h"
#include "base/round_up.h"
#include "base/utf8.h"

namespace tokamak {

namespace {

void append(std::vector<std::byte>& out, std::span<const std::byte> bytes) {
  if (bytes.empty()) return;
  const size_t begin = out.size();
  out.resize(begin + bytes.size());
  std::memcpy(out.data() + begin, bytes.data(), bytes.size());
}

template <class T>
void append_number(std::vector<std::byte>& out, T value) {
  append(out, std::as_bytes(std::span(&value, 1)));
}

void append_string(std::vector<std::byte>& out, std::string_view text) {
  append_number(out, uint64_t{text.size()});
  append(out, std::as_bytes(std::span(text)));
}

template <class String>
std::vector<std::byte> encode_strings(std::span<const String> values) {
  std::vector<std::byte> out;
  for (const std::string_view value : values) append_string(out, value);
  return out;
}

// Why `text` cannot be a key or tensor name, or "".
std::string name_problem(std::string_view text, uint64_t max_bytes) {
  if (text.empty()) return "the name is empty";
  if (text.size() > max_bytes)
    return fmt::format("the name has {} bytes, allowed are at most {}", text.size(), max_bytes);
  if (text.find('\0') != text.npos) return "the name holds a NUL byte";
  if (!is_valid_utf8(text)) return "the name is not valid UTF-8";
  return "";
}

// A repeated element, or null.
const std::string* find_repeated(const std::vector<std::string>& names) {
  const auto order = sorted_by_name(names, std::identity{});
  return find_duplicate(names, order, std::identity{});
}

}  // namespace

void GgufWriter::fail(ErrorCode code, std::string what, std::string where) {
  if (state_) state_ = Error{.code = code, .what = std::move(what), .where = std::move(where)};
}

void GgufWriter::add_raw(std::string_view key, GgufType type, uint64_t n_elements, std::span<const std::byte> raw,
                         bool is_array) {
  if (const std::string problem = name_problem(key, kMaxKeyBytes); !problem.empty())
    return fail(ErrorCode::bad_metadata, problem, fmt::format("key {}", short_quote(key)));
  if (key == kAlignmentKey) {
    uint32_t alignment = 0;
    if (type == GgufType::u32 && !is_array) std::memcpy(&alignment, raw.data(), sizeof alignment);
    if (!is_valid_alignment(alignment))
      return fail(ErrorCode::bad_metadata,
                  fmt::format("must be a u32 and a power of two from {} to {}", kMinAlignment, kMaxAlignment),
                  fmt::format("key {}", short_quote(key)));
    alignment_ = alignment;
  }
  keys_.emplace_back(key);
  append_string(entries_, key);
  append_number(entries_, static_cast<uint32_t>(is_array ? GgufType::array : type));
  if (is_array) {
    append_number(entries_, static_cast<uint32_t>(type));
    append_number(entries_, n_elements);
  } else if (type == GgufType::string) {
    append_number(entries_, uint64_t{raw.size()});
  }
  append(entries_, raw);
}

void GgufWriter::add(std::string_view key, std::string_view value) {
  add_raw(key, GgufType::string, 1, std::as_bytes(std::span(value)), false);
}

void GgufWriter::add_array(std::string_view key, std::span<const std::string_view> values) {
  add_raw(key, GgufType::string, values.size(), encode_strings(values), true);
}

void GgufWriter::add_array(std::string_view key, std::span<const std::string> values) {
  add_raw(key, GgufType::string, values.size(), encode_strings(values), true);
}

void GgufWriter::add(const GgufValue& value) {
  add_raw(value.key(), value.element_type(), value.size(), value.raw(), value.is_array());
}

bool GgufWriter::is_good_tensor(std::string_view name, DType type, const Shape& shape) {
  const std::string where = fmt::format("tensor {}", short_quote(name));
  std::string problem = name_problem(name, kMaxTensorNameBytes);
  int64_t n_elements = 1;
  for (int i = 0; i < shape.rank() && problem.empty(); ++i)
    if (shape[i] <= 0 || __builtin_mul_overflow(n_elements, shape[i], &n_elements) || n_elements > INT64_MAX / 8)
      problem = fmt::format("shape {} is not possible", shape.to_string());
  const DTypeRow& row = dtype_row(type);
  if (problem.empty() && shape.row_elems() % row.block_elems != 0)
    problem = fmt::format("shape {}: the last dimension must be a multiple of {} for type {}", shape.to_string(),
                          row.block_elems, row.name);
  if (!problem.empty()) fail(ErrorCode::bad_tensor, problem, where);
  return problem.empty();
}

void GgufWriter::add_tensor(std::string_view name, DType type, const Shape& shape, Source source) {
  if (!is_good_tensor(name, type, shape)) return;
  const uint64_t n_bytes = dtype_bytes(type, static_cast<uint64_t>(shape.n_elements()));
  tensors_.push_back(Tensor{std::string(name), type, shape, n_bytes, std::move(source)});
}

void GgufWriter::add_tensor(std::string_view name, DType type, const Shape& shape, std::span<const std::byte> bytes) {
  add_tensor(name, type, shape, [bytes](const Sink& sink) { return sink(bytes); });
}

Result<void> GgufWriter::check() const {
  TRY(Result<void>(state_));
  if (const std::string* key = find_repeated(keys_))
    return Error{.code = ErrorCode::bad_metadata,
                 .what = "the key was added twice",
                 .where = fmt::format("key {}", short_quote(*key))};
  std::vector<std::string> names;
  for (const Tensor& tensor : tensors_) names.push_back(tensor.name);
  if (const std::string* name = find_repeated(names))
    return Error{.code = ErrorCode::bad_tensor,
                 .what = "the tensor was added twice",
                 .where = fmt::format("tensor {}", short_quote(*name))};
  return {};
}

// Everything before the tensor data, padded.
std::vector<std::byte> GgufWriter::head(uint32_t version) const {
  std::vector<std::byte> out;
  append(out, std::as_bytes(std::span(kGgufMagic)));
  append_number(out, version);
  append_number(out, uint64_t{tensors_.size()});
  append_number(out, uint64_t{keys_.size()});
  append(out, entries_);
  uint64_t offset = 0;
  for (const Tensor& tensor : tensors_) {
    append_string(out, tensor.name);
    append_number(out, static_cast<uint32_t>(tensor.shape.rank()));
    for (int i = tensor.shape.rank(); i > 0; --i) append_number(out, tensor.shape[i - 1]);
    append_number(out, static_cast<uint32_t>(tensor.type));
    append_number(out, offset);
    offset += round_up(tensor.n_bytes, alignment_);
  }
  if (!tensors_.empty()) out.resize(round_up<uint64_t>(out.size(), alignment_));
  return out;
}

Result<void> GgufWriter::stream_tensor(const Tensor& tensor, const Sink& sink) const {
  uint64_t n_written = 0;
  const auto wrong_size = [&](std::string_view verb) {
    return Error{.code = ErrorCode::bad_tensor,
                 .what = fmt::format("its source delivers {} than the {} bytes of type {} and shape {}", verb,
                                     tensor.n_bytes, dtype_name(tensor.type), tensor.shape.to_string()),
                 .where = fmt::format("tensor {}", short_quote(tensor.name))};
  };
  TRY(tensor.source([&](std::span<const std::byte> bytes) -> Result<void> {
    if (bytes.size() > tensor.n_bytes - n_written) return wrong_size("more");
    n_written += bytes.size();
    return sink(bytes);
  }));
  if (n_written != tensor.n_bytes) return wrong_size("less");
  const std::vector<std::byte> padding(round_up(n_written, alignment_) - n_written);
  return sink(padding);
}

Result<void> GgufWriter::write_to(const Sink& sink, const GgufWriteOptions& options) const {
  TRY(check());
  if (options.version < kGgufMinVersion || options.version > kGgufVersion)
    return Error{.code = ErrorCode::bad_argument,
                 .what = fmt::format("GGUF version {} cannot be written", options.version),
                 .hint = "use 2 or 3"};
  TRY(sink(head(options.version)));
  for (size_t i = 0; i < tensors_.size(); ++i) {
    TRY(stream_tensor(tensors_[i], sink));
    if (options.progress && !options.progress((i + 1.0) / static_cast<double>(tensors_.size())))
      return Error{.code = ErrorCode::cancelled, .what = "writing was cancelled"};
  }
  return {};
}

Result<void> GgufWriter::write(const std::filesystem::path& path, const GgufWriteOptions& options) const {
  OutputFile file = TRY(OutputFile::create(path));
  TRY(write_to([&](std::span<const std::byte> bytes) { return file.write(bytes); }, options));
  return file.commit();
}

Result<std::vector<std::byte>> GgufWriter::to_bytes(const GgufWriteOptions& options) const {
  std::vector<std::byte> out;
  const auto sink = [&](std::span<const std::byte> bytes) -> Result<void> {
    append(out, bytes);
    return {};
  };
  TRY(write_to(sink, options));
  return out;
}

}  // namespace tokamak
