// The bytes of planned tensors (declared in tensor_plan.h).
#include <fmt/format.h>

#include <cmath>

#include "convert/tensor_plan.h"
#include "quant/codec.h"

namespace tokamak::convert {

namespace {

constexpr int64_t kChunkElems = int64_t{1} << 20;
constexpr float kLargestF16 = 65504;

// Row of the checkpoint that becomes row `row`, for rows (or, of a vector, elements) of heads of n / n_head rows:
// [x0, x1, ..., y0, y1, ...] becomes [x0, y0, x1, y1, ...].
int64_t source_row(const PlannedTensor& tensor, int64_t row, int64_t n) {
  if (tensor.change != arch::WeightChange::rope_pairs) return row;
  const int64_t head_dim = n / tensor.n_head, in_head = row % head_dim;
  return row - in_head + in_head / 2 + in_head % 2 * (head_dim / 2);
}

// Rounding up to 65504 is right, beyond it would be infinity.
const char* problem_of(std::span<const float> values, DType type) {
  for (const float x : values) {
    if (!std::isfinite(x)) return "it holds NaN or infinite numbers";
    if (type == DType::f16 && std::fabs(x) > kLargestF16) return "it holds numbers beyond the range of F16";
  }
  return nullptr;
}

Error bad_values(const PlannedTensor& tensor, int64_t row, const char* problem) {
  return {.code = ErrorCode::bad_tensor,
          .what = fmt::format("{} (row {})", problem, row),
          .where = tensor.weight->where(),
          .hint = tensor.type == DType::f16 ? "--outtype bf16 or f32 has the range; NaN has no cure but a new download"
                                            : "the checkpoint is damaged"};
}

class Streamer {
 public:
  Streamer(const PlannedTensor& tensor, const KeepGoing& keep_going, const GgufWriter::Sink& sink)
      : tensor_(tensor), weight_(*tensor.weight), keep_going_(keep_going), sink_(sink) {}

  Result<void> run() {
    if (tensor_.shape.rank() < 2) return stream_vector();
    const int64_t n_rows = tensor_.shape.n_rows(), n = tensor_.shape.row_elems();
    const int64_t per_chunk = std::max<int64_t>(1, kChunkElems / n);
    const uint64_t row_bytes = dtype_bytes(tensor_.type, static_cast<uint64_t>(n));
    std::vector<float> values(static_cast<size_t>(n));
    std::vector<std::byte> bytes;
    for (int64_t begin = 0; begin < n_rows; begin += per_chunk) {
      if (keep_going_ && !keep_going_()) return Error{.code = ErrorCode::cancelled, .what = "stopped"};
      const int64_t end = std::min(n_rows, begin + per_chunk);
      bytes.resize(static_cast<size_t>(end - begin) * row_bytes);
      for (int64_t row = begin; row < end; ++row)
        TRY(encode(row, values, bytes.data() + static_cast<uint64_t>(row - begin) * row_bytes));
      TRY(sink_(bytes));
    }
    for (const SafetensorsTensor* part : weight_.parts()) weight_.checkpoint().forget(*part);
    return {};
  }

 private:
  Result<void> encode(int64_t row, std::vector<float>& values, std::byte* out) {
    const int64_t from = source_row(tensor_, row, tensor_.shape.n_rows());
    if (weight_.exact_type() == tensor_.type) {
      TRY(weight_.repack_row(from, out));
      const auto n = static_cast<int64_t>(values.size());
      return validate_rows(tensor_.type, {out, dtype_bytes(tensor_.type, values.size())}, n, weight_.where());
    }
    weight_.decode_row(from, values.data());
    change(values);
    if (const char* problem = problem_of(values, tensor_.type)) return bad_values(tensor_, from, problem);
    return encode_row(tensor_.type, values.data(), static_cast<int64_t>(values.size()), nullptr, out);
  }

  Result<void> stream_vector() {
    const int64_t n = tensor_.shape.n_elements();
    std::vector<float> stored(static_cast<size_t>(n)), values(stored.size());
    weight_.decode_row(0, stored.data());
    for (int64_t i = 0; i < n; ++i)
      values[static_cast<size_t>(i)] = stored[static_cast<size_t>(source_row(tensor_, i, n))];
    change(values);
    if (const char* problem = problem_of(values, tensor_.type)) return bad_values(tensor_, 0, problem);
    return sink_(std::as_bytes(std::span(values)));
  }

  void change(std::vector<float>& values) const {
    if (tensor_.change == arch::WeightChange::add_one)
      for (float& x : values) x += 1;
  }

  const PlannedTensor& tensor_;
  const Weight& weight_;
  const KeepGoing& keep_going_;
  const GgufWriter::Sink& sink_;
};

}  // namespace

GgufWriter::Source tensor_source(const PlannedTensor& tensor, KeepGoing keep_going) {
  if (!tensor.weight)
    return [&tensor](const GgufWriter::Sink& sink) { return sink(std::as_bytes(std::span(tensor.values))); };
  return [&tensor, keep_going = std::move(keep_going)](const GgufWriter::Sink& sink) {
    return Streamer(tensor, keep_going, sink).run();
  };
}

}  // namespace tokamak::convert
