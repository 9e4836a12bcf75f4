// One tensor from its type into another: rows are decoded, scaled, encoded and handed on in chunks, by all threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/thread_pool.h"
#include "gguf/gguf.h"
#include "gguf/writer.h"
#include "tensor/dtypes.h"

namespace tokamak {

struct EncodeJob {
  const GgufTensor* source = nullptr;
  DType type = DType::f32;            // of the result; the row length fits it
  std::span<const float> importance;  // [n_mat, row_elems] or empty
  std::span<const float> factors;     // [n_mat], each value of a matrix is multiplied by its own; or empty
};

// Number of matrices in a tensor: the product of all dimensions but the last two.
int64_t n_matrices(const Shape& shape);

// What the values of a weight must be multiplied with, from the scale tensor beside it (see scale_name_of): one factor
// per matrix [n_mat], or nothing without one. Errors: bad_tensor when the scale is not F32 with 1 or n_mat values.
Result<std::vector<float>> weight_scales(const GgufFile& file, const GgufTensor& weight);

// Not thread-safe: one at a time. Memory: two chunks of 4 million weights and one f32 row per thread, whatever the
// size of the tensor.
class TensorEncoder {
 public:
  // Called between chunks with the elements done since the last call; false: stop with `cancelled`.
  using Progress = std::function<bool(int64_t n_elems)>;

  explicit TensorEncoder(ThreadPool& pool) : pool_(pool), rows_(static_cast<size_t>(pool.n_threads())) {}

  // The same bytes for any number of threads. Errors: those of encode_row, naming tensor and row (the first bad one of
  // its chunk); those of the sink; cancelled.
  Result<void> encode(const EncodeJob& job, const GgufWriter::Sink& sink, const Progress& progress);
  // The tensor's bytes as they are. Errors: bad_tensor when they hold inf or NaN (tensor, row, block).
  Result<void> copy(const GgufTensor& source, const GgufWriter::Sink& sink, const Progress& progress);
  // Largest magnitude of each matrix [n_mat]. Errors: bad_tensor for inf and NaN.
  Result<std::vector<float>> largest(const GgufTensor& source, const Progress& progress);

 private:
  struct Chunk;
  Result<void> encode_rows(const EncodeJob& job, const Chunk& chunk, std::span<const std::byte> finished,
                           const GgufWriter::Sink& sink);
  Result<void> encode_one(const EncodeJob& job, const Chunk& chunk, int64_t row, std::vector<float>& x);

  ThreadPool& pool_;
  std::vector<std::vector<float>> rows_;  // by thread
  std::vector<std::byte> chunks_[2];      // one is encoded while the other is written
};

}  // namespace tokamak
