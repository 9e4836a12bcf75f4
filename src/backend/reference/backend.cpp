#include "backend/reference/backend.h"

#include <chrono>
#include <cstring>
#include <map>
#include <new>
#include <string>

#include "backend/reference/ops.h"
#include "base/check.h"
#include "fuse/matcher.h"
#include "ir/verify.h"

namespace tokamak {

namespace reference {
namespace {

class ReferenceWeights : public Weights {
 public:
  std::vector<MemoryUse> memory() const override {
    uint64_t n_bytes = 0;
    for (const auto& [name, source] : sources) n_bytes += source.data.size();
    return {{.what = "weights, as in the file", .n_bytes = n_bytes, .is_file_mapping = true}};
  }
  std::map<std::string, WeightSource, std::less<>> sources;
};

class ReferenceKv : public KvCache {
 public:
  explicit ReferenceKv(const KvConfig& config) : config_(config) {
    const int64_t n_slots = config.n_pages * config.page_size;
    const auto make = [&](int64_t n_head_kv, int64_t head_dim) {
      return StateTensor{.data = std::vector<float>(static_cast<size_t>(n_slots * n_head_kv * head_dim)),
                         .n_head_kv = n_head_kv,
                         .head_dim = head_dim,
                         .type = config.type};
    };
    for (const KvLayerShape& layer : config.layers) {
      keys.push_back(make(layer.n_head_kv, layer.head_dim_k));
      values.push_back(make(layer.n_head_kv, layer.head_dim_v));
    }
    const auto make_rows = [&](int64_t row_elems) {
      return StateTensor{.data = std::vector<float>(static_cast<size_t>(config.n_state_rows * row_elems)),
                         .n_head_kv = 1,
                         .head_dim = row_elems};
    };
    for (const RecurrentLayerShape& layer : config.recurrent) {
      conv.push_back(make_rows(layer.conv_elems));
      recurrent.push_back(make_rows(layer.recurrent_elems));
    }
  }
  const KvConfig& config() const override { return config_; }
  std::vector<MemoryUse> memory() const override {
    uint64_t n_bytes = 0;
    for (const auto* states : {&keys, &values, &conv, &recurrent})
      for (const StateTensor& state : *states) n_bytes += state.data.size() * sizeof(float);
    return {{.what = "kv cache, as f32", .n_bytes = n_bytes}};
  }
  void read_states(int64_t row, std::span<float> out) const override {
    auto to = out.begin();
    for (size_t layer = 0; layer < conv.size(); ++layer)
      for (const StateTensor* state : {&conv[layer], &recurrent[layer]})
        to = std::copy_n(state->data.begin() + row * state->head_dim, state->head_dim, to);
  }
  void write_states(int64_t row, std::span<const float> in) override {
    auto from = in.begin();
    for (size_t layer = 0; layer < conv.size(); ++layer)
      for (StateTensor* state : {&conv[layer], &recurrent[layer]}) {
        std::copy_n(from, state->head_dim, state->data.begin() + row * state->head_dim);
        from += state->head_dim;
      }
  }
  uint64_t page_bytes() const override {
    uint64_t n_floats = 0;
    for_each_page([&](const StateTensor&, size_t n) { n_floats += n; });
    return n_floats * sizeof(float);
  }
  void copy_page(int64_t from, int64_t to) override {
    for_each_page([&](StateTensor& state, size_t n) {
      const auto begin = state.data.begin() + from * static_cast<int64_t>(n);
      std::copy_n(begin, n, state.data.begin() + to * static_cast<int64_t>(n));
    });
  }
  void read_page(int64_t page, std::span<std::byte> out) const override {
    for_each_page([&](const StateTensor& state, size_t n) {
      const auto bytes = std::as_bytes(std::span(state.data).subspan(static_cast<size_t>(page) * n, n));
      std::ranges::copy(bytes, out.begin());
      out = out.subspan(bytes.size());
    });
  }
  void write_page(int64_t page, std::span<const std::byte> in) override {
    for_each_page([&](StateTensor& state, size_t n) {
      const auto bytes = std::as_writable_bytes(std::span(state.data).subspan(static_cast<size_t>(page) * n, n));
      std::ranges::copy(in.first(bytes.size()), bytes.begin());
      in = in.subspan(bytes.size());
    });
  }
  StateTensor& state(ir::StateRole role, int32_t layer_idx) {
    auto& all = role == ir::StateRole::kv_k   ? keys
                : role == ir::StateRole::kv_v ? values
                : role == ir::StateRole::conv ? conv
                                              : recurrent;
    return all[static_cast<size_t>(layer_idx)];
  }

  std::vector<StateTensor> keys, values, conv, recurrent;  // per layer

 private:
  // fn(keys or values of a layer, floats of one page).
  template <class Fn>
  void for_each_page(Fn fn) const {
    for (auto* states : {&keys, &values})
      for (const StateTensor& state : *states)
        fn(const_cast<StateTensor&>(state), static_cast<size_t>(config_.page_size * state.n_head_kv * state.head_dim));
  }

  KvConfig config_;
};

class ReferenceProgram : public Program {
 public:
  ReferenceProgram(ir::Graph graph, const ReferenceWeights& weights, ReferenceKv& kv, MatmulObserver observer)
      : graph_(std::move(graph)),
        kv_(kv),
        observer_(std::move(observer)),
        tensors_(graph_.values.size()),
        seconds_(graph_.nodes.size()) {
    for (size_t id = 0; id < graph_.values.size(); ++id) bind(id, weights);
  }

  Result<void> run(const StepInputs& inputs, std::span<const std::span<float>> outputs) override {
    bind_inputs(inputs);
    for (size_t n = 0; n < graph_.nodes.size(); ++n) run_node(n, inputs);
    if (profiling_) ++n_runs_;
    for (size_t i = 0; i < graph_.outputs.size(); ++i) {
      const Tensor& result = tensors_[graph_.outputs[i]];
      CHECK(static_cast<int64_t>(outputs[i].size()) == result.value->shape.n_elements());
      const auto row_bytes = static_cast<size_t>(result.row_elems()) * sizeof(float);
      for (int64_t r = 0; r < result.n_rows(); ++r) {
        const void* row = result.i32 ? static_cast<const void*>(result.i32_row(r)) : result.row(r);
        std::memcpy(outputs[i].data() + r * result.row_elems(), row, row_bytes);
      }
    }
    return {};
  }

  const ir::Graph& graph() const override { return graph_; }
  void set_profiling(bool on) override { profiling_ = on; }
  std::vector<StepReport> steps() const override {
    std::vector<StepReport> out;
    for (size_t n = 0; n < graph_.nodes.size(); ++n) {
      const ir::Node& node = graph_.nodes[n];
      const ir::OpRow& row = ir::op_row(node.op);
      if (row.is_view) continue;
      std::vector<ir::OperandType> types;
      for (ir::ValueId id : node.inputs) types.push_back({graph_.values[id].dtype, graph_.values[id].shape});
      const ir::Value& result = graph_.values[node.output];
      const ir::OpCost cost = row.cost(types, {result.dtype, result.shape}, node.attrs);
      out.push_back({.what = node.name,
                     .label = std::string(row.name),
                     .kernel = "reference",
                     .bytes = cost.bytes,
                     .operations = cost.operations,
                     .seconds = n_runs_ ? seconds_[n] / static_cast<double>(n_runs_) : 0,
                     .n_runs = n_runs_});
    }
    return out;
  }

 private:
  void bind(size_t id, const ReferenceWeights& weights) {
    const ir::Value& value = graph_.values[id];
    Tensor& tensor = tensors_[id];
    tensor.value = &value;
    const ir::ValueId storage = graph_.storage_of(static_cast<ir::ValueId>(id));
    if (value.kind == ir::ValueKind::weight) {
      tensor.encoded = weights.sources.at(value.name).data.data();
    } else if (value.kind == ir::ValueKind::state) {
      tensor.state = &kv_.state(value.state_role, value.layer_idx);
    } else if (value.kind == ir::ValueKind::intermediate && value.dtype == DType::i32) {
      if (storage == id) {
        indices_.emplace_back(static_cast<size_t>(value.shape.n_elements()));
        tensor.i32_out = indices_.back().data();
      } else {
        tensor.i32_out = tensors_[storage].i32_out + value.offset_elems;
      }
      tensor.i32 = tensor.i32_out;
    } else if (value.kind == ir::ValueKind::intermediate && storage == id) {
      buffers_.emplace_back(static_cast<size_t>(value.shape.n_elements()));
      tensor.f32 = buffers_.back().data();
    } else if (value.kind == ir::ValueKind::intermediate) {
      tensor.f32 = tensors_[storage].f32 + value.offset_elems;
    }
  }

  void bind_inputs(const StepInputs& inputs) {
    for (size_t id = 0; id < graph_.values.size(); ++id) {
      const ir::Value& value = graph_.values[id];
      if (value.kind == ir::ValueKind::input && value.input_role == ir::InputRole::boundary) {
        bind_boundary(id, inputs.boundary[static_cast<size_t>(value.boundary_idx)]);
      } else if (value.kind == ir::ValueKind::input) {
        const std::span<const int32_t> data = input_of(inputs, value.input_role);
        CHECK(static_cast<int64_t>(data.size()) == value.shape.n_elements(), data.size());
        tensors_[id].i32 = data.data();
      } else if (value.is_view() && graph_.values[value.storage].kind == ir::ValueKind::input) {
        const Tensor& owner = tensors_[value.storage];
        if (owner.f32) tensors_[id].f32 = owner.f32 + value.offset_elems;
        if (owner.i32) tensors_[id].i32 = owner.i32 + value.offset_elems;
      }
    }
  }

  // Nothing writes to an input.
  void bind_boundary(size_t id, std::span<const std::byte> data) {
    Tensor& tensor = tensors_[id];
    CHECK(data.size() == static_cast<size_t>(tensor.value->shape.n_elements()) * sizeof(float), data.size());
    if (tensor.value->dtype == DType::i32)
      tensor.i32 = reinterpret_cast<const int32_t*>(data.data());
    else
      tensor.f32 = reinterpret_cast<float*>(const_cast<std::byte*>(data.data()));
  }

  void run_node(size_t n, const StepInputs& inputs) {
    const ir::Node& node = graph_.nodes[n];
    const OpFunction function = op_kernels()[static_cast<size_t>(node.op)].run;
    if (!function) return;
    std::vector<Tensor> operands;
    for (ir::ValueId id : node.inputs) operands.push_back(tensors_[id]);
    if (observer_ && (node.op == ir::Op::mul_mat || node.op == ir::Op::mul_mat_id)) observe(operands);
    const auto start = std::chrono::steady_clock::now();
    function({node, operands, tensors_[node.output], inputs, kv_.config().page_size});
    if (profiling_) seconds_[n] += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }

  void observe(std::span<const Tensor> operands) const {
    const Tensor &weight = operands[0], &x = operands[1];
    MatmulInput input{.weight = weight.value->name,
                      .x = x.f32,
                      .n_rows = x.n_rows(),
                      .k = x.row_elems(),
                      .row_stride_elems = x.value->row_stride_elems,
                      .n_matrices = weight.value->shape.rank() == 3 ? weight.value->shape[0] : 1};
    if (operands.size() == 3) {
      input.ids = operands[2].i32;
      input.n_tokens = operands[2].n_rows();
      input.n_used = operands[2].row_elems();
      input.ids_stride_elems = operands[2].value->row_stride_elems;
    }
    observer_(input);
  }

  ir::Graph graph_;
  ReferenceKv& kv_;
  MatmulObserver observer_;
  std::vector<Tensor> tensors_;  // by value
  std::vector<std::vector<float>> buffers_;
  std::vector<std::vector<int32_t>> indices_;
  std::vector<double> seconds_;  // by node
  bool profiling_ = false;
  uint64_t n_runs_ = 0;
};

class ReferenceBackend : public Backend {
 public:
  std::string_view name() const override { return "reference"; }
  std::string description() const override { return "plain loops, f64 accumulation"; }

  Result<std::unique_ptr<Weights>> load(const ir::Graph& graph, const WeightLookup& lookup,
                                        const Progress& progress) override {
    auto weights = std::make_unique<ReferenceWeights>();
    for (const ir::Value& value : graph.values)
      if (value.kind == ir::ValueKind::weight) weights->sources.emplace(value.name, TRY(lookup(value.name)));
    if (progress && !progress(1)) return Error{.code = ErrorCode::cancelled, .what = "loading was cancelled"};
    return std::unique_ptr<Weights>(std::move(weights));
  }

  Result<std::unique_ptr<KvCache>> make_kv(const KvConfig& config) override {
    try {
      return std::unique_ptr<KvCache>(std::make_unique<ReferenceKv>(config));
    } catch (const std::bad_alloc&) {
      return Error{.code = ErrorCode::out_of_memory,
                   .what = "cannot reserve the KV cache as f32",
                   .where = "reference backend",
                   .hint = "use a smaller context"};
    }
  }

  Result<std::unique_ptr<Program>> compile(ir::Graph graph, const Weights& weights, KvCache& kv,
                                           const CompileOptions& options) override {
    TRY(ir::verify(graph));
    // Groups run member by member: matching them changes nothing but the statistics.
    fuse::fuse(graph, {}, options.fusion && stats_.enabled());
    stats_.record(graph);
    return std::unique_ptr<Program>(
        std::make_unique<ReferenceProgram>(std::move(graph), dynamic_cast<const ReferenceWeights&>(weights),
                                           dynamic_cast<ReferenceKv&>(kv), options.matmul_observer));
  }

  fuse::Stats& fusion_stats() override { return stats_; }

 private:
  fuse::Stats stats_;
};

}  // namespace
}  // namespace reference

std::unique_ptr<Backend> make_reference_backend() { return std::make_unique<reference::ReferenceBackend>(); }

}  // namespace tokamak
