// Small GGUF files for the tests of quantize/.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "gguf/gguf.h"
#include "gguf/writer.h"
#include "tensor/dtypes.h"

namespace tokamak::test {

// A folder of this test program, removed at its end.
const std::filesystem::path& scratch();

// n numbers of about unit variance, the same for the same seed.
std::vector<float> random_floats(size_t n, uint32_t seed);

struct SmallModel {
  int64_t n_layer = 2, n_embd = 256, n_ff = 512, n_kv = 128, n_expert = 0;
  DType type = DType::f16;
  bool has_output = true;
  // May change a matrix's values before they are stored.
  std::function<void(const std::string& name, std::vector<float>& values)> edit;
};

// Writes a llama-like model (weights only, no tokenizer) and returns its path.
std::filesystem::path write_model(const std::string& file_name, const SmallModel& model = {});

// The values of a tensor of the file.
std::vector<float> values_of(const GgufFile& file, const std::string& name);

// What is left in the folder of `path` and begins with its file name.
std::vector<std::string> leftovers(const std::filesystem::path& path);

}  // namespace tokamak::test
