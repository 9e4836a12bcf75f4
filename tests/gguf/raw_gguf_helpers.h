// GGUF bytes written field by field, so that tests can write what GgufWriter refuses to.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gguf/format.h"
#include "gguf/gguf.h"

namespace tokamak::testing {

class RawGguf {
 public:
  // "GGUF", version, n_tensors, n_kv.
  static RawGguf header(uint64_t n_tensors, uint64_t n_kv, uint32_t version = 3);

  template <class T>
  RawGguf& number(T value) {
    for (const std::byte b : std::as_bytes(std::span(&value, 1))) bytes_.push_back(b);
    return *this;
  }
  RawGguf& text(std::string_view value);    // bytes alone
  RawGguf& string(std::string_view value);  // length and bytes
  RawGguf& type(GgufType value) { return number(static_cast<uint32_t>(value)); }
  template <class T>
  RawGguf& entry(std::string_view key, GgufType value_type, T value) {
    return string(key).type(value_type).number(value);
  }
  RawGguf& string_entry(std::string_view key, std::string_view value) {
    return string(key).type(GgufType::string).string(value);
  }
  // One tensor info; dims innermost first as in the file.
  RawGguf& tensor(std::string_view name, const std::vector<int64_t>& dims, uint32_t dtype, uint64_t offset);
  RawGguf& pad(uint64_t alignment = 32);
  RawGguf& zeros(size_t n_bytes);

  const std::vector<std::byte>& bytes() const { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
};

// A folder of its own, removed with its contents.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  std::filesystem::path operator/(std::string_view name) const { return path_ / name; }
  size_t n_files() const;

 private:
  std::filesystem::path path_;
};

void write_file(const std::filesystem::path& path, std::span<const std::byte> bytes);
std::vector<std::byte> read_file(const std::filesystem::path& path);

// What the validator says about the bytes: a message, or "ok".
std::string verdict(std::span<const std::byte> bytes);

}  // namespace tokamak::testing
