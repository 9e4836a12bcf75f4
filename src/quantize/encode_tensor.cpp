#include "quantize/encode_tensor.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <mutex>

#include "quant/codec.h"
#include "quantize/plan.h"

namespace tokamak {

namespace {
constexpr int64_t kChunkElems = 4 << 20;   // encoded between two writes
constexpr int64_t kBatchElems = 16 << 10;  // taken by a thread at a time
constexpr size_t kCopyBytes = 16 << 20;

// The error of the smallest row, from any thread.
class FirstError {
 public:
  void add(int64_t row, Error error) {
    const std::lock_guard lock(mutex_);
    if (row < row_.load(std::memory_order_relaxed)) {
      error_ = std::move(error);
      row_.store(row, std::memory_order_relaxed);
    }
  }
  // Rows behind a bad one need no work.
  bool is_moot(int64_t row) const { return row > row_.load(std::memory_order_relaxed); }
  Result<void> result() const {
    if (row_ == INT64_MAX) return {};
    return error_;
  }

 private:
  std::mutex mutex_;
  std::atomic<int64_t> row_{INT64_MAX};
  Error error_;
};

Error cancelled() { return Error{.code = ErrorCode::cancelled, .what = "cancelled; nothing was written"}; }

int64_t batch_rows(int64_t row_elems) { return std::max<int64_t>(1, kBatchElems / row_elems); }

// fn(thread_idx, begin, end) for batches of [0, n_rows), whoever is free taking the next.
template <class Fn>
void for_batches(ThreadPool& pool, int64_t n_rows, int64_t n_batch, Fn&& fn) {
  std::atomic<int64_t> next{0};
  pool.run([&](int thread_idx, int) {
    for (int64_t begin; (begin = next.fetch_add(n_batch, std::memory_order_relaxed)) < n_rows;)
      fn(thread_idx, begin, std::min(n_rows, begin + n_batch));
  });
}
}  // namespace

int64_t n_matrices(const Shape& shape) {
  int64_t n = 1;
  for (int i = 0; i + 2 < shape.rank(); ++i) n *= shape[i];
  return n;
}

Result<std::vector<float>> weight_scales(const GgufFile& file, const GgufTensor& weight) {
  const GgufTensor* scale = file.find_tensor(scale_name_of(weight.name));
  if (!scale) return std::vector<float>();
  const int64_t n_mat = n_matrices(weight.shape), n_values = scale->shape.n_elements();
  if (scale->type != DType::f32 || (n_values != 1 && n_values != n_mat))
    return Error{.code = ErrorCode::bad_tensor,
                 .what = fmt::format("must be F32 with 1 or {} values", n_mat),
                 .where = fmt::format("tensor {}", scale->name)};
  std::vector<float> values(static_cast<size_t>(n_values));
  std::memcpy(values.data(), scale->data.data(), scale->data.size());
  values.resize(static_cast<size_t>(n_mat), values[0]);
  return values;
}

struct TensorEncoder::Chunk {
  int64_t first_row = 0, n_rows = 0;
  int64_t rows_per_mat = 1;
  size_t row_bytes_in = 0, row_bytes_out = 0;
  std::byte* out = nullptr;
};

Result<void> TensorEncoder::encode_one(const EncodeJob& job, const Chunk& chunk, int64_t row, std::vector<float>& x) {
  const int64_t row_elems = job.source->shape.row_elems(), mat = row / chunk.rows_per_mat;
  x.resize(static_cast<size_t>(row_elems));
  decode_row(job.source->type, job.source->data.data() + static_cast<size_t>(row) * chunk.row_bytes_in, row_elems,
             x.data());
  if (!job.factors.empty())
    for (float& value : x) value *= job.factors[static_cast<size_t>(mat)];
  const float* importance = job.importance.empty() ? nullptr : job.importance.data() + mat * row_elems;
  std::byte* out = chunk.out + static_cast<size_t>(row - chunk.first_row) * chunk.row_bytes_out;
  auto done = encode_row(job.type, x.data(), row_elems, importance, out);
  if (done) done = validate_rows(job.type, {out, chunk.row_bytes_out}, row_elems, job.source->name);  // F16 overflows
  if (!done) {
    done.error().where = fmt::format("tensor {}, row {}", job.source->name, row);
    done.error().hint = "choose BF16 or F32 if the values are meant; otherwise the source is damaged";
  }
  return done;
}

// Encodes the chunk while thread 0 first hands on what the last call made.
Result<void> TensorEncoder::encode_rows(const EncodeJob& job, const Chunk& chunk, std::span<const std::byte> finished,
                                        const GgufWriter::Sink& sink) {
  FirstError first;
  Result<void> written;
  std::atomic<int64_t> next{0};
  const int64_t n_batch = batch_rows(job.source->shape.row_elems());
  pool_.run([&](int thread_idx, int) {
    if (thread_idx == 0 && !finished.empty()) written = sink(finished);
    std::vector<float>& x = rows_[static_cast<size_t>(thread_idx)];
    for (int64_t begin; (begin = next.fetch_add(n_batch, std::memory_order_relaxed)) < chunk.n_rows;)
      for (int64_t i = begin; i < std::min(chunk.n_rows, begin + n_batch); ++i) {
        const int64_t row = chunk.first_row + i;
        if (first.is_moot(row)) continue;
        if (auto done = encode_one(job, chunk, row, x); !done) first.add(row, std::move(done.error()));
      }
  });
  TRY(Result<void>(written));
  return first.result();
}

Result<void> TensorEncoder::encode(const EncodeJob& job, const GgufWriter::Sink& sink, const Progress& progress) {
  const Shape& shape = job.source->shape;
  const auto row_elems = static_cast<uint64_t>(shape.row_elems());
  const int64_t n_rows = shape.n_rows();
  Chunk chunk{.rows_per_mat = n_rows / n_matrices(shape),
              .row_bytes_in = dtype_bytes(job.source->type, row_elems),
              .row_bytes_out = dtype_bytes(job.type, row_elems)};
  const int64_t chunk_rows = std::max<int64_t>(1, kChunkElems / shape.row_elems());
  std::span<const std::byte> finished;
  for (int which = 0; chunk.first_row < n_rows; chunk.first_row += chunk.n_rows, which ^= 1) {
    chunk.n_rows = std::min(chunk_rows, n_rows - chunk.first_row);
    chunks_[which].resize(static_cast<size_t>(chunk.n_rows) * chunk.row_bytes_out);
    chunk.out = chunks_[which].data();
    TRY(encode_rows(job, chunk, finished, sink));
    finished = chunks_[which];
    if (progress && !progress(chunk.n_rows * shape.row_elems())) return cancelled();
  }
  return sink(finished);
}

Result<void> TensorEncoder::copy(const GgufTensor& source, const GgufWriter::Sink& sink, const Progress& progress) {
  const int64_t row_elems = source.shape.row_elems(), n_rows = source.shape.n_rows();
  const size_t row_bytes = source.data.size() / static_cast<size_t>(n_rows);
  const int64_t chunk_rows = std::max<int64_t>(1, static_cast<int64_t>(kCopyBytes / std::max<size_t>(1, row_bytes)));
  for (int64_t begin = 0; begin < n_rows; begin += chunk_rows) {
    const int64_t n = std::min(chunk_rows, n_rows - begin);
    const auto bytes = source.data.subspan(static_cast<size_t>(begin) * row_bytes, static_cast<size_t>(n) * row_bytes);
    FirstError first;
    for_batches(pool_, n, batch_rows(row_elems), [&](int, int64_t from, int64_t to) {
      const auto part =
          bytes.subspan(static_cast<size_t>(from) * row_bytes, static_cast<size_t>(to - from) * row_bytes);
      if (auto valid = validate_rows(source.type, part, row_elems, source.name); !valid)
        first.add(from, std::move(valid.error()));
    });
    if (!first.result()) return validate_rows(source.type, source.data, row_elems, source.name);  // counts from row 0
    TRY(sink(bytes));
    if (progress && !progress(n * row_elems)) return cancelled();
  }
  return {};
}

Result<std::vector<float>> TensorEncoder::largest(const GgufTensor& source, const Progress& progress) {
  const int64_t row_elems = source.shape.row_elems(), n_mat = n_matrices(source.shape);
  const int64_t rows_per_mat = source.shape.n_rows() / n_mat;
  const size_t row_bytes = source.data.size() / static_cast<size_t>(source.shape.n_rows());
  std::vector<float> out(static_cast<size_t>(n_mat));
  for (int64_t mat = 0; mat < n_mat; ++mat) {
    std::vector<float> by_thread(rows_.size());
    FirstError first;
    for_batches(pool_, rows_per_mat, batch_rows(row_elems), [&](int thread_idx, int64_t from, int64_t to) {
      std::vector<float>& x = rows_[static_cast<size_t>(thread_idx)];
      x.resize(static_cast<size_t>(row_elems));
      float& most = by_thread[static_cast<size_t>(thread_idx)];
      for (int64_t i = from; i < to; ++i) {
        const int64_t row = mat * rows_per_mat + i;
        decode_row(source.type, source.data.data() + static_cast<size_t>(row) * row_bytes, row_elems, x.data());
        for (float value : x) {
          if (!std::isfinite(value))
            return first.add(row, Error{.code = ErrorCode::bad_tensor,
                                        .what = fmt::format("an element is {}", value),
                                        .where = fmt::format("tensor {}, row {}", source.name, row)});
          most = std::max(most, std::fabs(value));
        }
      }
    });
    TRY(first.result());
    out[static_cast<size_t>(mat)] = *std::ranges::max_element(by_thread);
    if (progress && !progress(0)) return cancelled();
  }
  return out;
}

}  // namespace tokamak
