#include "backend/cuda/weights.h"

#include "backend/cuda/matvec/layout.h"
#include "base/check.h"
#include "base/round_up.h"
#include "quant/codec.h"

namespace tokamak::cuda {

namespace {
constexpr uint64_t kAlignment = 256;
constexpr uint64_t kMaxHostValues = 1024;  // floats of a tensor that are kept on the host too
uint64_t aligned(uint64_t n_bytes) { return round_up(n_bytes, kAlignment); }

int64_t n_matrices(const Shape& shape) { return shape.rank() == 3 ? shape[0] : 1; }
int64_t matrix_rows(const Shape& shape) { return shape.n_rows() / n_matrices(shape); }

bool is_plain(DType dtype) { return dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16; }
// Quantized rows are decoded.
DType row_dtype(DType dtype) { return is_plain(dtype) ? dtype : DType::f32; }
uint64_t packed_size(const WeightSource& source) {
  return packed_bytes(source.dtype, n_matrices(source.shape), matrix_rows(source.shape), source.shape.row_elems());
}

std::vector<float> decode(const WeightSource& source) {
  std::vector<float> out(static_cast<size_t>(source.shape.n_elements()));
  decode_row(source.dtype, source.data.data(), source.shape.n_elements(), out.data());
  return out;
}

Result<void> copy_up(std::byte* to, const void* from, uint64_t n_bytes, Device& device) {
  TRY(device.use());
  TRY(check_cuda(cudaMemcpyAsync(to, from, n_bytes, cudaMemcpyHostToDevice, device.stream()), "uploading weights"));
  return device.finish("uploading weights");
}
}  // namespace

std::map<std::string, CudaWeights::Use, std::less<>> CudaWeights::uses_of(const ir::Graph& graph) {
  std::map<std::string, Use, std::less<>> uses;
  for (const ir::Node& node : graph.nodes)
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const ir::Value& value = graph.values[node.inputs[i]];
      if (value.kind != ir::ValueKind::weight) continue;
      Use& use = uses[value.name];
      const bool product = node.op == ir::Op::mul_mat || node.op == ir::Op::mul_mat_id;
      if (product && i == 0)
        use.matmul = true;
      else if (node.op == ir::Op::get_rows && i == 0)
        use.rows = true;
      else
        use.values = true;
    }
  return uses;
}

CudaWeights::Sizes CudaWeights::sizes_of(const WeightSource& source, const Use& use) {
  Sizes out;
  const auto n = static_cast<uint64_t>(source.shape.n_elements());
  const bool packed = use.matmul && has_matvec(source.dtype);
  if (packed) out.packed = aligned(packed_size(source));
  if (use.rows || (use.matmul && !packed)) out.rows = aligned(dtype_bytes(row_dtype(source.dtype), n));
  if (use.values) out.values = aligned(n * sizeof(float));
  return out;
}

Result<void> CudaWeights::upload(const WeightSource& source, const Use& use, CudaWeight& weight, std::byte*& at,
                                 Device& device) {
  const Sizes sizes = sizes_of(source, use);
  if (sizes.packed > 0) {
    weight.packed = at;
    std::vector<std::byte> packed(packed_size(source));
    pack_matrices(source.dtype, {.rows = source.data.data(),
                                 .n_matrices = n_matrices(source.shape),
                                 .n_rows = matrix_rows(source.shape),
                                 .k = source.shape.row_elems(),
                                 .out = packed.data()});
    TRY(copy_up(at, packed.data(), packed.size(), device));
    at += sizes.packed;
  }
  const bool decoded = sizes.values > 0 || (sizes.rows > 0 && !is_plain(source.dtype));
  std::vector<float> floats;
  if (decoded) floats = decode(source);
  if (sizes.rows > 0) {
    weight.rows = at;
    if (is_plain(source.dtype))
      TRY(copy_up(at, source.data.data(), source.data.size(), device));
    else
      TRY(copy_up(at, floats.data(), floats.size() * sizeof(float), device));
    at += sizes.rows;
  }
  if (sizes.values > 0) {
    weight.values = reinterpret_cast<const float*>(at);
    TRY(copy_up(at, floats.data(), floats.size() * sizeof(float), device));
    at += sizes.values;
    if (floats.size() <= kMaxHostValues) weight.host_values = std::move(floats);
  }
  packed_bytes_ += sizes.packed;
  row_bytes_ += sizes.rows;
  value_bytes_ += sizes.values;
  return {};
}

Result<std::unique_ptr<CudaWeights>> CudaWeights::load(const ir::Graph& graph, const WeightLookup& lookup,
                                                       const Progress& progress, Device& device) {
  auto out = std::make_unique<CudaWeights>();
  const auto uses = uses_of(graph);
  uint64_t total = 0;
  for (const auto& [name, use] : uses) {
    const Sizes sizes = sizes_of(TRY(lookup(name)), use);
    total += sizes.packed + sizes.rows + sizes.values;
  }
  out->memory_ = TRY(device.allocate("weights", total));
  std::byte* at = out->memory_.data();
  for (const auto& [name, use] : uses) {
    const WeightSource source = TRY(lookup(name));
    CudaWeight weight{.dtype = source.dtype, .shape = source.shape, .row_dtype = row_dtype(source.dtype)};
    TRY(out->upload(source, use, weight, at, device));
    if (source.forget) source.forget();
    out->weights_.emplace(name, std::move(weight));
    const auto done = static_cast<double>(at - out->memory_.data());
    if (progress && total > 0 && !progress(done / static_cast<double>(total)))
      return Error{.code = ErrorCode::cancelled, .what = "loading was cancelled"};
  }
  return out;
}

std::vector<MemoryUse> CudaWeights::memory() const {
  return {{.what = "weights on the GPU, packed", .n_bytes = packed_bytes_},
          {.what = "weights on the GPU, as rows", .n_bytes = row_bytes_},
          {.what = "weights on the GPU, decoded vectors", .n_bytes = value_bytes_}};
}

}  // namespace tokamak::cuda
