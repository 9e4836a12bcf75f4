#include "eval/tensor_errors.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/thread_pool.h"
#include "quant/codec.h"
#include "quantize/encode_tensor.h"

namespace tokamak {

namespace {
struct RowError {
  double error = 0, total = 0, weighted_error = 0, weighted_total = 0, max_error = 0;
};

void set_place(TensorError& tensor) {
  std::string_view rest = tensor.name;
  constexpr std::string_view kLayer = "blk.", kWeight = ".weight";
  if (rest.ends_with(kWeight)) rest.remove_suffix(kWeight.size());
  if (rest.starts_with(kLayer)) {
    const std::string_view digits = rest.substr(kLayer.size());
    int64_t layer_idx = 0;
    const auto [end, problem] = std::from_chars(digits.data(), digits.data() + digits.size(), layer_idx);
    if (problem == std::errc() && end != digits.data() + digits.size() && *end == '.') {
      tensor.layer_idx = layer_idx;
      rest = digits.substr(static_cast<size_t>(end + 1 - digits.data()));
    }
  }
  tensor.role = rest;
}

// One tensor of a file, row by row in f32.
class TensorRows {
 public:
  static Result<TensorRows> of(const GgufFile& file, const GgufTensor& tensor) {
    return TensorRows(tensor, TRY(weight_scales(file, tensor)));
  }
  void read(int64_t row, std::span<float> out) const {
    const uint64_t n_bytes = dtype_bytes(tensor_->type, out.size());
    decode_row(tensor_->type, tensor_->data.data() + static_cast<uint64_t>(row) * n_bytes,
               static_cast<int64_t>(out.size()), out.data());
    if (scales_.empty()) return;
    const int64_t rows_per_mat = tensor_->shape.n_rows() / static_cast<int64_t>(scales_.size());
    const float scale = scales_[static_cast<size_t>(row / rows_per_mat)];
    for (float& x : out) x *= scale;
  }

 private:
  TensorRows(const GgufTensor& tensor, std::vector<float> scales) : tensor_(&tensor), scales_(std::move(scales)) {}
  const GgufTensor* tensor_;
  std::vector<float> scales_;  // one per matrix, or none
};

RowError compare_row(std::span<const float> x, std::span<const float> base, const float* importance) {
  RowError out;
  for (size_t i = 0; i < x.size(); ++i) {
    const double b = base[i], difference = double{x[i]} - b;
    out.error += difference * difference;
    out.total += b * b;
    out.max_error = std::max(out.max_error, std::abs(difference));
    if (!importance) continue;
    out.weighted_error += importance[i] * difference * difference;
    out.weighted_total += importance[i] * b * b;
  }
  return out;
}

Result<const GgufTensor*> partner_of(const GgufTensor& tensor, const GgufFile& base) {
  const GgufTensor* found = base.find_tensor(tensor.name);
  if (found && found->shape == tensor.shape) return found;
  return Error{.code = ErrorCode::bad_argument,
               .what = !found ? fmt::format("the base model has no tensor {}", tensor.name)
                              : fmt::format("tensor {} is {} in the base model and {} here", tensor.name,
                                            found->shape.to_string(), tensor.shape.to_string()),
               .where = base.part_name(0),
               .hint = "give the file that this one was quantized from"};
}

Result<TensorError> compare_tensor(const GgufFile& file, const GgufTensor& tensor, const GgufFile& base_file,
                                   const ImatrixFile* imatrix, ThreadPool& pool) {
  const GgufTensor* base = TRY(partner_of(tensor, base_file));
  TensorError out{.name = tensor.name,
                  .type = tensor.type,
                  .base_type = base->type,
                  .n_elements = static_cast<uint64_t>(tensor.shape.n_elements()),
                  .n_bytes = tensor.n_bytes};
  set_place(out);
  const int64_t n_rows = tensor.shape.n_rows(), row_elems = tensor.shape.row_elems();
  const int64_t n_mat = n_matrices(tensor.shape);
  std::vector<float> importance;
  if (const ImatrixEntry* entry = imatrix ? imatrix->find(tensor.name) : nullptr)
    importance = TRY(imatrix_means(*imatrix, *entry, n_mat, row_elems));
  out.has_importance = !importance.empty();
  const TensorRows mine = TRY(TensorRows::of(file, tensor)), theirs = TRY(TensorRows::of(base_file, *base));
  std::vector<RowError> rows(static_cast<size_t>(n_rows));
  pool.run([&](int thread_idx, int n_threads) {
    std::vector<float> x(static_cast<size_t>(row_elems)), b(x.size());
    const WorkRange range = split_range(n_rows, thread_idx, n_threads);
    for (int64_t row = range.begin; row < range.end; ++row) {
      mine.read(row, x);
      theirs.read(row, b);
      const int64_t mat_idx = row / (n_rows / n_mat);
      rows[static_cast<size_t>(row)] =
          compare_row(x, b, importance.empty() ? nullptr : importance.data() + mat_idx * row_elems);
    }
  });
  for (const RowError& row : rows) {  // in order, so that thread counts do not matter
    out.error += row.error;
    out.total += row.total;
    out.weighted_error += row.weighted_error;
    out.weighted_total += row.weighted_total;
    out.max_error = std::max(out.max_error, row.max_error);
  }
  if (!std::isfinite(out.error) || !std::isfinite(out.total))
    return Error{.code = ErrorCode::bad_tensor,
                 .what = "holds values that are not finite, here or in the base model",
                 .where = tensor.name,
                 .hint = "`tokamak inspect --check-tensors` finds them"};
  return out;
}

double relative(double error, double total) { return total > 0 ? std::sqrt(error / total) : error > 0 ? INFINITY : 0; }
}  // namespace

double TensorError::relative_rmse() const { return relative(error, total); }
double TensorError::weighted_rmse() const { return relative(weighted_error, weighted_total); }

Result<std::vector<TensorError>> compare_tensors(const GgufFile& file, const GgufFile& base,
                                                 const CompareOptions& options) {
  const int64_t n_threads = options.n_threads == 0 ? usable_cpus() : options.n_threads;
  const auto pool = TRY(ThreadPool::create(static_cast<int>(n_threads)));
  std::vector<TensorError> out;
  uint64_t n_done = 0;
  for (const GgufTensor& tensor : file.tensors()) {
    n_done += tensor.n_bytes;
    if (tensor.shape.rank() < 2) continue;
    out.push_back(TRY(compare_tensor(file, tensor, base, options.imatrix, *pool)));
    file.forget(tensor);
    base.forget(*base.find_tensor(tensor.name));
    if (options.progress && !options.progress(static_cast<double>(n_done) / static_cast<double>(file.n_bytes())))
      return Error{.code = ErrorCode::cancelled, .what = "the comparison was cancelled"};
  }
  std::ranges::stable_sort(out, {}, &TensorError::layer_idx);
  return out;
}

TensorError sum_of(std::span<const TensorError> tensors, std::string_view name) {
  TensorError sum{.name = std::string(name)};
  for (const TensorError& tensor : tensors) {
    sum.n_elements += tensor.n_elements;
    sum.n_bytes += tensor.n_bytes;
    sum.error += tensor.error;
    sum.total += tensor.total;
    sum.weighted_error += tensor.weighted_error;
    sum.weighted_total += tensor.weighted_total;
    sum.max_error = std::max(sum.max_error, tensor.max_error);
    sum.has_importance = sum.has_importance || tensor.has_importance;
  }
  return sum;
}

}  // namespace tokamak
