#include "backend/cuda/weights.h"

#include <utility>

#include "backend/cuda/upload.h"
#include "quant/codec.h"

namespace tokamak::cuda {

namespace {
constexpr int64_t kMaxHostValues = 1024;  // floats of a tensor that are kept on the host too

using Uses = std::map<std::string, WeightUse, std::less<>>;

Uses uses_of(const ir::Graph& graph) {
  Uses uses;
  for (const ir::Node& node : graph.nodes)
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const ir::Value& value = graph.values[node.inputs[i]];
      if (value.kind != ir::ValueKind::weight) continue;
      WeightUse& use = uses[value.name];
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

std::vector<float> decode(const WeightSource& source) {
  std::vector<float> out(static_cast<size_t>(source.shape.n_elements()));
  decode_row(source.dtype, source.data.data(), source.shape.n_elements(), out.data());
  return out;
}

// A tensor whose forms lie from `at` on.
CudaWeight weight_at(const WeightSource& source, const WeightForms& forms, const std::byte* at) {
  CudaWeight weight{.dtype = source.dtype, .shape = source.shape, .row_dtype = row_dtype(source.dtype)};
  if (forms.packed > 0) weight.packed = at;
  at += forms.packed;
  if (forms.rows > 0) weight.rows = at;
  at += forms.rows;
  if (forms.values == 0) return weight;
  weight.values = reinterpret_cast<const float*>(at);
  if (source.shape.n_elements() <= kMaxHostValues) weight.host_values = decode(source);
  return weight;
}

// The forms of all tensors one after the other, as load() has placed them.
Result<void> upload(const Uses& uses, const WeightLookup& lookup, const Progress& progress, Device& device,
                    const DeviceBuffer& memory) {
  const auto uploader = TRY(Uploader::create(device, memory.data(), memory.size()));
  std::vector<std::function<void()>> forget;  // of tensors whose pieces are not all made
  uint64_t offset = 0;
  for (const auto& [name, use] : uses) {
    const WeightSource source = TRY(lookup(name));
    const WeightForms forms = forms_of(source, use);
    const uint64_t n_flushed = uploader->n_flushed();
    for (ImagePiece& piece : pieces_of(source, forms, offset)) TRY(uploader->add(std::move(piece)));
    if (uploader->n_flushed() > n_flushed)
      for (const auto& call : std::exchange(forget, {})) call();
    if (source.forget) forget.push_back(source.forget);
    offset += forms.total();
    if (progress && memory.size() > 0 && !progress(static_cast<double>(offset) / static_cast<double>(memory.size())))
      return Error{.code = ErrorCode::cancelled, .what = "loading was cancelled"};
  }
  TRY(uploader->finish());
  for (const auto& call : forget) call();
  return {};
}
}  // namespace

Result<uint64_t> CudaWeights::bytes_of(const ir::Graph& graph, const WeightLookup& lookup) {
  uint64_t total = 0;
  for (const auto& [name, use] : uses_of(graph)) total += forms_of(TRY(lookup(name)), use).total();
  return total;
}

Result<std::unique_ptr<CudaWeights>> CudaWeights::load(const ir::Graph& graph, const WeightLookup& lookup,
                                                       const Progress& progress, Device& device) {
  auto out = std::make_unique<CudaWeights>();
  const Uses uses = uses_of(graph);
  const uint64_t total = TRY(bytes_of(graph, lookup));
  out->memory_ = TRY(device.allocate("weights", total));
  uint64_t offset = 0;
  for (const auto& [name, use] : uses) {
    const WeightSource source = TRY(lookup(name));
    const WeightForms forms = forms_of(source, use);
    out->weights_.emplace(name, weight_at(source, forms, out->memory_.data() + offset));
    offset += forms.total();
    out->packed_bytes_ += forms.packed;
    out->row_bytes_ += forms.rows;
    out->value_bytes_ += forms.values;
  }
  if (!device.only_plans()) TRY(upload(uses, lookup, progress, device, out->memory_));
  return out;
}

std::vector<MemoryUse> CudaWeights::memory() const {
  return {{.what = "weights on the GPU, packed", .n_bytes = packed_bytes_, .device = "GPU"},
          {.what = "weights on the GPU, as rows", .n_bytes = row_bytes_, .device = "GPU"},
          {.what = "weights on the GPU, decoded vectors", .n_bytes = value_bytes_, .device = "GPU"}};
}

}  // namespace tokamak::cuda
