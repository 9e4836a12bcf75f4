// Small random models for tests: real GGUF files of any family, written to a temporary folder.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "tensor/dtypes.h"

namespace tokamak::test {

struct TinyModel {
  std::string arch = "llama";
  int64_t n_vocab = 96, n_embd = 256, n_layer = 2, n_head = 4, n_head_kv = 2, head_dim = 64, n_ff = 512;
  int64_t n_ctx = 1024, window = 0;
  std::vector<DType> types = {DType::q8_0};  // of the matrices, in turn
  uint32_t seed = 1;
};

// Writes the model and returns its path; the file is removed when the test program ends.
std::filesystem::path write_tiny_model(const TinyModel& model);

// `n` token ids below n_vocab, the same for the same seed.
std::vector<int32_t> random_tokens(size_t n, int64_t n_vocab, uint32_t seed);

}  // namespace tokamak::test
