// Builds safetensors files byte by byte, good ones and broken ones.
#pragma once

#include <cstring>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace tokamak::test {

struct RawTensor {
  std::string name, dtype;
  std::vector<int64_t> shape;
  std::string data;
};

// `header` as it stands, with its length in front, and the data.
inline std::string raw_safetensors(std::string_view header, std::string_view data) {
  std::string out(8, '\0');
  const uint64_t n = header.size();
  std::memcpy(out.data(), &n, sizeof n);
  return out.append(header).append(data);
}

// A well-formed file.
std::string safetensors_file(const std::vector<RawTensor>& tensors);

// The bytes of numbers as they lie in memory.
template <class T>
std::string bytes_of(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

// An empty folder that is removed when the test program ends.
std::filesystem::path new_folder();
void write_file(const std::filesystem::path& path, std::string_view text);

}  // namespace tokamak::test
