#include "backend/cpu/weights.h"

#include <algorithm>

#include "backend/cpu/matmul/matmul.h"
#include "base/round_up.h"
#include "quant/codec.h"

namespace tokamak::cpu {

namespace {
constexpr uint64_t kAlignment = 64;
uint64_t aligned(uint64_t n_bytes) { return round_up(n_bytes, kAlignment); }

// Matrices [n_out, n_in] of a weight: one, or the experts or heads of a stack.
int64_t n_matrices(const Shape& shape) { return shape.rank() == 3 ? shape[0] : 1; }

// In the form that the kernels read.
uint64_t matrix_bytes(const WeightSource& source) {
  const int64_t n_rows = source.shape.n_rows() / n_matrices(source.shape);
  const auto n_bytes = static_cast<uint64_t>(packed_bytes(source.dtype, n_rows, source.shape.row_elems()));
  return is_raw(source.dtype) ? n_bytes : aligned(n_bytes);
}

uint64_t packed_size(const WeightSource& source) {
  return static_cast<uint64_t>(n_matrices(source.shape)) * matrix_bytes(source);
}

void pack_matrices(const WeightSource& source, std::byte* out, ThreadPool& pool) {
  const int64_t n_mat = n_matrices(source.shape), n_rows = source.shape.n_rows() / n_mat;
  const int64_t k = source.shape.row_elems(), n_panels_each = n_panels(n_rows);
  const size_t row_bytes = dtype_bytes(source.dtype, static_cast<uint64_t>(k));
  const uint64_t packed_bytes_each = matrix_bytes(source);
  pool.run([&](int thread_idx, int n_threads) {
    const WorkRange panels = split_range(n_mat * n_panels_each, thread_idx, n_threads);
    for (int64_t mat = panels.begin / n_panels_each; mat * n_panels_each < panels.end; ++mat)
      pack_weights(source.dtype, {.rows = source.data.data() + static_cast<size_t>(mat * n_rows) * row_bytes,
                                  .row_bytes = row_bytes,
                                  .n_rows = n_rows,
                                  .k = k,
                                  .panel_begin = std::max(panels.begin - mat * n_panels_each, int64_t{0}),
                                  .panel_end = std::min(panels.end - mat * n_panels_each, n_panels_each),
                                  .out = out + static_cast<uint64_t>(mat) * packed_bytes_each});
  });
}

std::vector<float> decode(const WeightSource& source) {
  std::vector<float> out(static_cast<size_t>(source.shape.n_elements()));
  decode_row(source.dtype, source.data.data(), source.shape.n_elements(), out.data());
  return out;
}
}  // namespace

std::map<std::string, CpuWeights::Use, std::less<>> CpuWeights::uses_of(const ir::Graph& graph) {
  std::map<std::string, Use, std::less<>> uses;
  for (const ir::Node& node : graph.nodes) {
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const ir::Value& value = graph.values[node.inputs[i]];
      if (value.kind != ir::ValueKind::weight) continue;
      Use& use = uses[value.name];
      if ((node.op == ir::Op::mul_mat || node.op == ir::Op::mul_mat_id) && i == 0)
        use.matmul = true;
      else if (node.op == ir::Op::get_rows && i == 0)
        use.rows = true;
      else
        use.values = true;
    }
  }
  return uses;
}

Result<std::unique_ptr<CpuWeights>> CpuWeights::load(const ir::Graph& graph, const WeightLookup& lookup,
                                                     const Progress& progress, ThreadPool& pool, Backing backing) {
  auto out = std::make_unique<CpuWeights>();
  const auto uses = uses_of(graph);
  std::map<std::string, WeightSource, std::less<>> sources;
  uint64_t total = 0;
  for (const auto& [name, use] : uses) {
    const WeightSource& source = sources[name] = TRY(lookup(name));
    if (use.matmul && !is_raw(source.dtype)) total += packed_size(source);
  }
  out->packed_ = TRY(Buffer::allocate(total, backing));
  uint64_t offset = 0;
  for (const auto& [name, use] : uses) {
    const WeightSource& source = sources[name];
    CpuWeight weight{
        .dtype = source.dtype, .shape = source.shape, .rows = source.data.data(), .matrix_bytes = matrix_bytes(source)};
    out->mapped_bytes_ += source.data.size();
    if (use.matmul && !is_raw(source.dtype)) {
      std::byte* packed = out->packed_.data() + offset;
      if (backing == Backing::memory) pack_matrices(source, packed, pool);
      weight.packed = packed;
      offset += packed_size(source);
    }
    if (use.values) {
      weight.values = decode(source);
      out->decoded_bytes_ += weight.values.size() * sizeof(float);
    }
    if (source.forget && (weight.packed || use.values)) source.forget();
    out->weights_.emplace(name, std::move(weight));
    if (progress && total > 0 && !progress(static_cast<double>(offset) / static_cast<double>(total)))
      return Error{.code = ErrorCode::cancelled, .what = "loading was cancelled"};
  }
  return out;
}

std::vector<MemoryUse> CpuWeights::memory() const {
  return {{.what = "weights, as in the file", .n_bytes = mapped_bytes_, .is_file_mapping = true},
          {.what = "weights, packed for this CPU", .n_bytes = packed_.size()},
          {.what = "weights, decoded vectors", .n_bytes = decoded_bytes_}};
}

}  // namespace tokamak::cpu
