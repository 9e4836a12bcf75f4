// Checkpoint folders for tests: copies of the fixtures, and small llama folders made here.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace tokamak::test {

std::filesystem::path fixtures();  // tests/data/convert
std::vector<std::string> fixture_names();

// A copy of a fixture that a test may damage; removed when the test program ends.
std::filesystem::path copy_of(const std::string& fixture);
std::filesystem::path new_folder();

std::string read_file(const std::filesystem::path& path);
void write_file(const std::filesystem::path& path, std::string_view text);
// Replaces the first `from` in a file by `to`; fails the test when there is none.
void replace_in(const std::filesystem::path& path, std::string_view from, std::string_view to);

struct RawTensor {
  std::string dtype;
  std::vector<int64_t> shape;
  std::string data;
};
using RawTensors = std::map<std::string, RawTensor>;

template <class T>
std::string bytes_of(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}
// F32 numbers in [-1, 1), the same for the same seed.
std::vector<float> random_floats(size_t n, uint32_t seed);
RawTensor random_f32(std::vector<int64_t> shape, uint32_t seed);

void write_safetensors(const std::filesystem::path& path, const RawTensors& tensors);

// A whole llama checkpoint: 1 layer, n_embd 64, n_ff 128, 4 heads of 16, 2 key-value heads, the tokenizer and the
// vocabulary (400) of the fixture llama_smollm. `change` may replace tensors before they are written.
inline constexpr int64_t kEmbd = 64, kFf = 128, kVocab = 400;
std::filesystem::path llama_folder(const std::function<void(RawTensors&)>& change = {});

}  // namespace tokamak::test
