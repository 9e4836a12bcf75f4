// What quantization did to each tensor: a file beside the one it was made from.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "gguf/gguf.h"
#include "quantize/imatrix_file.h"

namespace tokamak {

struct TensorError {
  std::string name;
  int64_t layer_idx = -1;  // of "blk.N."; -1: outside the layers
  std::string role;        // the name without layer and ".weight": "attn_q", "token_embd"
  DType type = DType::f32, base_type = DType::f32;
  uint64_t n_elements = 0, n_bytes = 0;
  // Sums over all elements: of (x - base)^2 and base^2, and the same with each column weighed by its importance.
  double error = 0, total = 0, weighted_error = 0, weighted_total = 0;
  double max_error = 0;         // largest |x - base|
  bool has_importance = false;  // the imatrix knows the tensor

  double relative_rmse() const;  // sqrt(error / total)
  double weighted_rmse() const;  // sqrt(weighted_error / weighted_total)
  double bits_per_weight() const { return 8.0 * static_cast<double>(n_bytes) / static_cast<double>(n_elements); }
};

struct CompareOptions {
  const ImatrixFile* imatrix = nullptr;
  int64_t n_threads = 0;                          // 0: one per usable core
  std::function<bool(double fraction)> progress;  // false: stop with `cancelled`
};

// Every tensor of two or more dimensions, those outside the layers first, then layer by layer in file order. Scales
// beside weights are applied. Errors: bad_argument when the base lacks a tensor or has it in another shape, or when the
// imatrix is of another model; bad_tensor (values that are not finite; a scale that does not fit); cancelled.
Result<std::vector<TensorError>> compare_tensors(const GgufFile& file, const GgufFile& base,
                                                 const CompareOptions& options);

// The sum over several tensors, as one.
TensorError sum_of(std::span<const TensorError> tensors, std::string_view name);

}  // namespace tokamak
