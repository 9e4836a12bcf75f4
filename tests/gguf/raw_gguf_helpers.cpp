#include "gguf/raw_gguf_helpers.h"
#include "base/round_up.h"

#include <unistd.h>

#include <fstream>
#include <iterator>

namespace tokamak::testing {

RawGguf RawGguf::header(uint64_t n_tensors, uint64_t n_kv, uint32_t version) {
  RawGguf out;
  out.text("GGUF").number(version).number(n_tensors).number(n_kv);
  return out;
}

RawGguf& RawGguf::text(std::string_view value) {
  for (const char c : value) bytes_.push_back(static_cast<std::byte>(c));
  return *this;
}

RawGguf& RawGguf::string(std::string_view value) { return number(uint64_t{value.size()}).text(value); }

RawGguf& RawGguf::tensor(std::string_view name, const std::vector<int64_t>& dims, uint32_t dtype, uint64_t offset) {
  string(name).number(static_cast<uint32_t>(dims.size()));
  for (const int64_t dim : dims) number(dim);
  return number(dtype).number(offset);
}

RawGguf& RawGguf::pad(uint64_t alignment) {
  return zeros(round_up<uint64_t>(bytes_.size(), alignment) - bytes_.size());
}

RawGguf& RawGguf::zeros(size_t n_bytes) {
  for (size_t i = 0; i < n_bytes; ++i) bytes_.push_back(std::byte{0});
  return *this;
}

TemporaryFolder::TemporaryFolder() {
  std::string pattern = (std::filesystem::temp_directory_path() / "tokamak-gguf-XXXXXX").string();
  path_ = ::mkdtemp(pattern.data());
}

TemporaryFolder::~TemporaryFolder() { std::filesystem::remove_all(path_); }

size_t TemporaryFolder::n_files() const {
  const std::filesystem::directory_iterator files(path_);
  return static_cast<size_t>(std::distance(begin(files), end(files)));
}

void write_file(const std::filesystem::path& path, std::span<const std::byte> bytes) {
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
}

std::vector<std::byte> read_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

std::string verdict(std::span<const std::byte> bytes) {
  const auto file = GgufFile::parse(bytes, "f");
  return file ? "ok" : file.error().message();
}

}  // namespace tokamak::testing
