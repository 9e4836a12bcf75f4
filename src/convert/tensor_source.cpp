// The bytes of planned tensors (declared in tensor_plan.h).
#include <fmt/format.h>

#include <cmath>

#include "convert/tensor_plan.h"
#include "quant/codec.h"

namespace tokamak::convert {

namespace {

constexpr int64_t kChunkElems = int64_t{1} << 20;
constexpr int64_t kTransposedElems = int64_t{1} << 25;  // every source row is read once per chunk
constexpr float kLargestF16 = 65504;

// Rounding up to 65504 is right, beyond it would be infinity.
const char* problem_of(std::span<const float> values, DType type) {
  for (const float x : values) {
    if (!std::isfinite(x)) return "it holds NaN or infinite numbers";
    if (type == DType::f16 && std::fabs(x) > kLargestF16) return "it holds numbers beyond the range of F16";
  }
  return nullptr;
}

class Streamer {
 public:
  Streamer(const PlannedTensor& tensor, const KeepGoing& keep_going, const GgufWriter::Sink& sink)
      : tensor_(tensor),
        order_(tensor.order),
        keep_going_(keep_going),
        sink_(sink),
        row_indices_(order_.row_indices()),
        col_indices_(order_.col_indices()) {}

  Result<void> run() {
    // A vector's elements are rows of one; all at once.
    if (order_.n_cols == 1) return stream_elements();
    const int64_t n_out = order_.n_out_rows(), n = order_.n_out_cols();
    const int64_t per_chunk = std::max<int64_t>(1, (order_.transposed ? kTransposedElems : kChunkElems) / n);
    for (int64_t matrix = 0; matrix < order_.n_matrices; ++matrix)
      for (int64_t begin = 0; begin < n_out; begin += per_chunk)
        TRY(stream_chunk(matrix, begin, std::min(n_out, begin + per_chunk)));
    for (const Weight& weight : tensor_.weights)
      for (const SafetensorsTensor* part : weight.parts()) weight.checkpoint().forget(*part);
    return {};
  }

 private:
  const Weight& weight(int64_t i) const { return tensor_.weights[static_cast<size_t>(i)]; }

  // Rows [begin, end) of one matrix of the GGUF.
  Result<void> stream_chunk(int64_t matrix, int64_t begin, int64_t end) {
    if (keep_going_ && !keep_going_()) return Error{.code = ErrorCode::cancelled, .what = "stopped"};
    const auto n = static_cast<uint64_t>(order_.n_out_cols());
    const uint64_t row_bytes = dtype_bytes(tensor_.type, n);
    bytes_.resize(static_cast<uint64_t>(end - begin) * row_bytes);
    if (order_.keeps_rows() && weight(0).exact_type() == tensor_.type) {
      for (int64_t row = begin; row < end; ++row)
        TRY(repack(matrix, row, bytes_.data() + static_cast<uint64_t>(row - begin) * row_bytes, row_bytes));
      return sink_(bytes_);
    }
    values_.resize(static_cast<uint64_t>(end - begin) * n);
    if (order_.transposed)
      read_transposed(matrix, begin, end);
    else
      for (int64_t row = begin; row < end; ++row)
        read_row(source_row(matrix, row), values_.data() + static_cast<uint64_t>(row - begin) * n);
    change(values_);
    for (int64_t row = begin; row < end; ++row) {
      const std::span values = std::span(values_).subspan(static_cast<uint64_t>(row - begin) * n, n);
      if (const char* problem = problem_of(values, tensor_.type)) return bad_values(matrix, row, problem);
      TRY(encode_row(tensor_.type, values.data(), static_cast<int64_t>(n), nullptr,
                     bytes_.data() + static_cast<uint64_t>(row - begin) * row_bytes));
    }
    return sink_(bytes_);
  }

  // Of all weights one behind the other.
  int64_t source_row(int64_t matrix, int64_t picked) const {
    return matrix * order_.n_rows + row_indices_[static_cast<size_t>(picked)];
  }
  const Weight& weight_of(int64_t source_row, int64_t& row) const {
    const int64_t n = weight(0).n_rows();
    row = source_row % n;
    return weight(source_row / n);
  }

  void decode(int64_t source_row, float* out) const {
    int64_t row = 0;
    weight_of(source_row, row).decode_row(row, out);
  }

  void read_row(int64_t source_row, float* out) {
    if (order_.cols.empty()) return decode(source_row, out);
    row_.resize(static_cast<size_t>(order_.n_cols));
    decode(source_row, row_.data());
    for (const int64_t col : col_indices_) *out++ = row_[static_cast<size_t>(col)];
  }

  // Columns [begin, end) as rows.
  void read_transposed(int64_t matrix, int64_t begin, int64_t end) {
    const size_t n = row_indices_.size();
    row_.resize(static_cast<size_t>(order_.n_cols));
    for (size_t i = 0; i < n; ++i) {
      decode(source_row(matrix, static_cast<int64_t>(i)), row_.data());
      for (int64_t row = begin; row < end; ++row)
        values_[static_cast<size_t>(row - begin) * n + i] =
            row_[static_cast<size_t>(col_indices_[static_cast<size_t>(row)])];
    }
  }

  Result<void> repack(int64_t matrix, int64_t picked, std::byte* out, uint64_t n_bytes) const {
    int64_t row = 0;
    const Weight& from = weight_of(source_row(matrix, picked), row);
    TRY(from.repack_row(row, out));
    return validate_rows(tensor_.type, {out, n_bytes}, order_.n_cols, from.where());
  }

  Result<void> stream_elements() {
    std::vector<float> stored;
    for (const Weight& weight : tensor_.weights)
      for (int64_t row = 0; row < weight.n_rows(); ++row) {
        stored.resize(stored.size() + static_cast<size_t>(weight.row_elems()));
        weight.decode_row(row, stored.data() + stored.size() - weight.row_elems());
      }
    values_.clear();
    for (int64_t matrix = 0; matrix < order_.n_matrices; ++matrix)
      for (size_t i = 0; i < row_indices_.size(); ++i)
        values_.push_back(stored[static_cast<size_t>(source_row(matrix, static_cast<int64_t>(i)))]);
    change(values_);
    if (const char* problem = problem_of(values_, tensor_.type)) return bad_values(0, 0, problem);
    return sink_(std::as_bytes(std::span(values_)));
  }

  void change(std::vector<float>& values) const {
    if (tensor_.change == arch::ValueChange::add_one)
      for (float& x : values) x += 1;
    if (tensor_.change == arch::ValueChange::minus_exp)
      for (float& x : values) x = -std::exp(x);
  }

  Error bad_values(int64_t matrix, int64_t row, const char* problem) const {
    int64_t in_weight = 0;
    const Weight& from = order_.transposed
                             ? weight(matrix * static_cast<int64_t>(tensor_.weights.size()) / order_.n_matrices)
                             : weight_of(source_row(matrix, row), in_weight);
    return {.code = ErrorCode::bad_tensor,
            .what = fmt::format("{} ({} {})", problem, order_.transposed ? "column" : "row",
                                order_.transposed ? col_indices_[static_cast<size_t>(row)] : in_weight),
            .where = from.where(),
            .hint = tensor_.type == DType::f16
                        ? "--outtype bf16 or f32 has the range; NaN has no cure but a new download"
                        : "the checkpoint is damaged"};
  }

  const PlannedTensor& tensor_;
  const TensorOrder& order_;
  const KeepGoing& keep_going_;
  const GgufWriter::Sink& sink_;
  const std::vector<int64_t> row_indices_, col_indices_;
  std::vector<float> values_, row_;
  std::vector<std::byte> bytes_;
};

}  // namespace

GgufWriter::Source tensor_source(const PlannedTensor& tensor, KeepGoing keep_going) {
  if (tensor.weights.empty())
    return [&tensor](const GgufWriter::Sink& sink) { return sink(std::as_bytes(std::span(tensor.values))); };
  return [&tensor, keep_going = std::move(keep_going)](const GgufWriter::Sink& sink) {
    return Streamer(tensor, keep_going, sink).run();
  };
}

}  // namespace tokamak::convert
