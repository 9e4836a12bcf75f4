// Writes GGUF files: metadata and tensors are declared first, then everything is streamed to a file or to memory.
#pragma once

#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/result.h"
#include "gguf/format.h"
#include "gguf/validate.h"
#include "tensor/dtypes.h"
#include "tensor/shape.h"

namespace tokamak {

namespace detail {
template <class T>
constexpr GgufType gguf_type_of() {
  if constexpr (std::is_same_v<T, bool>)
    return GgufType::boolean;
  else if constexpr (std::is_same_v<T, float>)
    return GgufType::f32;
  else if constexpr (std::is_same_v<T, double>)
    return GgufType::f64;
  else {
    static_assert(std::is_integral_v<T> && !std::is_same_v<T, char>, "not a metadata type");
    constexpr GgufType kSigned[] = {GgufType::i8, GgufType::i16, GgufType::i32, GgufType::i64};
    constexpr GgufType kUnsigned[] = {GgufType::u8, GgufType::u16, GgufType::u32, GgufType::u64};
    constexpr size_t kLog2 = sizeof(T) == 1 ? 0 : sizeof(T) == 2 ? 1 : sizeof(T) == 4 ? 2 : 3;
    return std::is_signed_v<T> ? kSigned[kLog2] : kUnsigned[kLog2];
  }
}
}  // namespace detail

struct GgufWriteOptions {
  uint32_t version = kGgufVersion;                // 2 or 3; the bytes differ only in this number
  std::function<bool(double fraction)> progress;  // 0 to 1, after each tensor; false: stop with `cancelled`
};

// Mistakes made while declaring (empty or repeated key, bad shape, ...) are kept: write() returns the first one. What
// was written is what validate_gguf accepts. Not thread-safe. May be written several times if its sources allow it.
class GgufWriter {
 public:
  // Receives consecutive bytes of one tensor.
  using Sink = std::function<Result<void>(std::span<const std::byte>)>;
  // Delivers a tensor's encoded bytes, in any number of pieces, in all exactly as many as its type and shape need.
  using Source = std::function<Result<void>(const Sink& sink)>;

  // T decides the stored type: integers of 8 to 64 bits, bool, float, double.
  template <class T>
  requires std::is_arithmetic_v<T>
  void add(std::string_view key, T value) {
    add_raw(key, detail::gguf_type_of<T>(), 1, std::as_bytes(std::span(&value, 1)), false);
  }
  void add(std::string_view key, std::string_view value);
  void add(std::string_view key, const char* value) { add(key, std::string_view(value)); }
  template <class T>
  requires std::is_arithmetic_v<T>
  void add_array(std::string_view key, std::span<const T> values) {
    add_raw(key, detail::gguf_type_of<T>(), values.size(), std::as_bytes(values), true);
  }
  void add_array(std::string_view key, std::span<const std::string_view> values);
  void add_array(std::string_view key, std::span<const std::string> values);
  // A copy of an entry of another file. Its bytes are copied now.
  void add(const GgufValue& value);

  // Default: the value of key general.alignment if added (as u32), else 32.
  // Rank 0 to 4, outermost first; `name` 1 to 63 bytes. bytes must live until write() returns.
  void add_tensor(std::string_view name, DType type, const Shape& shape, std::span<const std::byte> bytes);
  void add_tensor(std::string_view name, DType type, const Shape& shape, Source source);

  // Writes beside `path` and renames at the end: after any error the old file, if any, is unchanged and nothing else is
  // left. Errors: those of declaring (bad_metadata, bad_tensor), of the sources, of OutputFile (no_space, io_failed),
  // cancelled.
  Result<void> write(const std::filesystem::path& path, const GgufWriteOptions& options = {}) const;
  // The same bytes into a sink of the caller's, which decides when a file of them appears.
  Result<void> write_to(const Sink& sink, const GgufWriteOptions& options = {}) const;
  // The whole file in memory, for tests and small files.
  Result<std::vector<std::byte>> to_bytes(const GgufWriteOptions& options = {}) const;

 private:
  struct Tensor {
    std::string name;
    DType type;
    Shape shape;
    uint64_t n_bytes;
    Source source;
  };

  void add_raw(std::string_view key, GgufType type, uint64_t n_elements, std::span<const std::byte> raw, bool is_array);
  void fail(ErrorCode code, std::string what, std::string where);
  bool is_good_tensor(std::string_view name, DType type, const Shape& shape);
  Result<void> check() const;
  std::vector<std::byte> head(uint32_t version) const;
  Result<void> stream_tensor(const Tensor& tensor, const Sink& sink) const;

  std::vector<std::string> keys_;   // in order
  std::vector<std::byte> entries_;  // encoded
  std::vector<Tensor> tensors_;
  uint64_t alignment_ = kDefaultAlignment;
  Result<void> state_;  // the first mistake
};

}  // namespace tokamak
