#include "backend/cpu/weights.h"

#include "backend/cpu/matmul/matmul.h"
#include "base/round_up.h"
#include "quant/codec.h"

namespace tokamak::cpu {

namespace {
constexpr uint64_t kAlignment = 64;
uint64_t aligned(uint64_t n_bytes) { return round_up(n_bytes, kAlignment); }

uint64_t packed_size(const WeightSource& source) {
  return aligned(static_cast<uint64_t>(packed_bytes(source.dtype, source.shape.n_rows(), source.shape.row_elems())));
}

void pack_matrix(const WeightSource& source, std::byte* out, ThreadPool& pool) {
  const int64_t n_rows = source.shape.n_rows(), k = source.shape.row_elems();
  const PackWeightsTask whole{.rows = source.data.data(),
                              .row_bytes = dtype_bytes(source.dtype, static_cast<uint64_t>(k)),
                              .n_rows = n_rows,
                              .k = k,
                              .out = out};
  pool.run([&](int thread_idx, int n_threads) {
    const WorkRange panels = split_range(n_panels(n_rows), thread_idx, n_threads);
    PackWeightsTask part = whole;
    part.panel_begin = panels.begin;
    part.panel_end = panels.end;
    pack_weights(source.dtype, part);
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
      if (node.op == ir::Op::mul_mat && i == 0)
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
                                                     const Progress& progress, ThreadPool& pool) {
  auto out = std::make_unique<CpuWeights>();
  const auto uses = uses_of(graph);
  std::map<std::string, WeightSource, std::less<>> sources;
  uint64_t total = 0;
  for (const auto& [name, use] : uses) {
    const WeightSource& source = sources[name] = TRY(lookup(name));
    if (use.matmul && !is_raw(source.dtype)) total += packed_size(source);
  }
  out->packed_ = TRY(Buffer::allocate(total));
  uint64_t offset = 0;
  for (const auto& [name, use] : uses) {
    const WeightSource& source = sources[name];
    CpuWeight weight{.dtype = source.dtype, .shape = source.shape, .rows = source.data.data()};
    out->mapped_bytes_ += source.data.size();
    if (use.matmul && !is_raw(source.dtype)) {
      std::byte* packed = out->packed_.data() + offset;
      pack_matrix(source, packed, pool);
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
