#include "backend/split/backend.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "backend/split/assign.h"
#include "backend/split/cut.h"
#include "backend/split/kv.h"
#include "backend/split/program.h"
#include "base/check.h"
#include "ir/pass.h"
#include "ir/plan.h"

namespace tokamak {

namespace split {
namespace {

class SplitWeights : public Weights {
 public:
  struct Part {
    std::string device;
    std::unique_ptr<Weights> weights;
    std::set<std::string, std::less<>> names;
  };
  std::vector<MemoryUse> memory() const override {
    std::vector<MemoryUse> out;
    for (const Part& part : parts) append_named(out, part.weights->memory(), part.device);
    return out;
  }
  std::vector<Part> parts;  // by child
};

std::set<std::string, std::less<>> weight_names(const ir::Graph& graph) {
  std::set<std::string, std::less<>> out;
  for (const ir::Value& value : graph.values)
    if (value.kind == ir::ValueKind::weight) out.insert(value.name);
  return out;
}

// load_bytes() of the nodes of some parts; it looks at their operands only.
class PartCounter {
 public:
  PartCounter(const Backend& backend, const ir::Graph& graph, std::span<const Part> parts, const WeightLookup& lookup)
      : backend_(backend), graph_(graph), parts_(parts), lookup_(lookup), some_nodes_(graph) {}

  Result<uint64_t> bytes(std::initializer_list<Part> of) {
    some_nodes_.nodes.clear();
    for (size_t n = 0; n < graph_.nodes.size(); ++n)
      if (std::ranges::find(of, parts_[n]) != of.end()) some_nodes_.nodes.push_back(graph_.nodes[n]);
    if (some_nodes_.nodes.empty()) return 0;
    return backend_.load_bytes(some_nodes_, lookup_);
  }

 private:
  const Backend& backend_;
  const ir::Graph& graph_;
  std::span<const Part> parts_;
  const WeightLookup& lookup_;
  ir::Graph some_nodes_;
};

Result<PartBytes> part_bytes(const Backend& backend, const ir::Graph& graph, std::span<const Part> parts,
                             const WeightLookup& lookup, bool shares_table) {
  PartBytes out;
  PartCounter counter(backend, graph, parts, lookup);
  const int64_t n = n_layers(parts);
  const Part embedding{Part::Kind::embedding}, output{Part::Kind::output};
  out.output = TRY(counter.bytes({output}));
  // A table that is the output matrix too lies once where both are.
  out.embedding = shares_table ? TRY(counter.bytes({embedding, output})) - out.output : TRY(counter.bytes({embedding}));
  for (int32_t layer = 0; layer < n; ++layer) {
    out.layers.push_back(TRY(counter.bytes({{Part::Kind::layer, layer}})));
    out.experts.push_back(TRY(counter.bytes({{Part::Kind::experts, layer}})));
  }
  out.states.resize(static_cast<size_t>(n));
  for (const ir::Value& value : graph.values)
    if (value.kind == ir::ValueKind::state && value.producer == ir::kNone)
      out.states[static_cast<size_t>(value.layer_idx)] += cache_bytes(
          value.dtype, static_cast<uint64_t>(value.shape.n_rows()), static_cast<uint64_t>(value.shape.row_elems()));
  const uint64_t arena = TRY(ir::plan_buffers(graph)).n_bytes;
  out.activations = arena + arena / 2;  // and copies in other types, partial results, the way in and out
  return out;
}

class SplitBackend : public Backend {
 public:
  SplitBackend(std::vector<Child> children, SplitOptions options) : options_(options) {
    CHECK(children.size() >= 2, children.size());
    for (Child& child : children) {
      devices_.push_back(std::move(child.device));
      child.backend->fusion_stats().set_collecting(false);  // pieces are counted here, as one graph
      children_.push_back(std::move(child.backend));
    }
  }

  std::string_view name() const override { return children_.front()->name(); }
  std::string description() const override {
    if (only_ < children_.size()) return children_[only_]->description();
    std::string out;
    for (const auto& child : children_) out += (out.empty() ? "" : " + ") + child->description();
    return out;
  }
  std::string remark() const override { return remark_; }

  Result<std::unique_ptr<Weights>> load(const ir::Graph& graph, const WeightLookup& lookup,
                                        const Progress& progress) override {
    ir::Graph whole = graph;
    TRY(ir::simplify(whole));
    const std::vector<Part> parts = parts_of(whole);
    TRY(choose_placement(whole, parts, lookup));
    const std::vector<size_t> child_of_node = assign(whole, parts, placement_, children_of(whole));
    note_fallbacks(whole, parts, child_of_node);
    const std::set<size_t> used(child_of_node.begin(), child_of_node.end());
    only_ = used.size() == 1 ? *used.begin() : children_.size();
    if (only_ < children_.size()) return children_[only_]->load(graph, lookup, progress);
    return load_parts(TRY(cut_graph(whole, child_of_node)), lookup, progress);
  }

  Result<std::unique_ptr<KvCache>> make_kv(const KvConfig& config) override {
    CHECK(only_ != kUnplaced, "load() decides where the layers are");
    if (only_ < children_.size()) return children_[only_]->make_kv(config);
    std::vector<size_t> places = placement_.states;
    places.resize(config.layers.size(), children_.size() - 1);  // layers that the model has no tensors for
    return std::unique_ptr<KvCache>(TRY(SplitKv::create(config, places, children_, devices_)));
  }

  Result<std::unique_ptr<Program>> compile(ir::Graph graph, const Weights& weights, KvCache& kv,
                                           const CompileOptions& options) override {
    CHECK(only_ != kUnplaced, "load() decides where the layers are");
    CompileOptions child_options = options;
    child_options.fusion = options.fusion && stats_.enabled();
    auto program = only_ < children_.size()
                       ? children_[only_]->compile(std::move(graph), weights, kv, child_options)
                       : compile_parts(std::move(graph), dynamic_cast<const SplitWeights&>(weights),
                                       dynamic_cast<SplitKv&>(kv), child_options);
    if (program) stats_.record((*program)->graph());
    return program;
  }

  fuse::Stats& fusion_stats() override { return stats_; }
  std::optional<Error> lost() const override {
    for (const std::unique_ptr<Backend>& child : children_)
      if (auto error = child->lost()) return error;
    return std::nullopt;
  }
  // Of the first device, where several work; steps on the host say so.
  Result<std::optional<DeviceLimits>> measure_limits() override {
    return children_[only_ < children_.size() ? only_ : 0]->measure_limits();
  }

 private:
  static constexpr size_t kUnplaced = SIZE_MAX;

  Children children_of(const ir::Graph& graph) const {
    return {.n = children_.size(), .can_run = [this, &graph](size_t child, ir::NodeId node) {
              return !options_.allow_fallback || children_[child]->has_kernel(graph, node);
            }};
  }

  Result<void> choose_placement(const ir::Graph& graph, std::span<const Part> parts, const WeightLookup& lookup) {
    std::vector<Accelerator> accelerators;
    for (size_t child = 0; child + 1 < children_.size(); ++child) {
      const uint64_t free = children_[child]->free_bytes().value_or(UINT64_MAX);
      const uint64_t usable = free == UINT64_MAX ? free : free - std::min(free, kReserveBytes);
      accelerators.push_back(
          {.budget = options_.max_bytes > 0 ? std::min(options_.max_bytes, usable) : usable,
           .parts = TRY(part_bytes(*children_[child], graph, parts, lookup, children_.size() == 2))});
    }
    placement_ = TRY(place(accelerators, options_.placement));
    remark_ = describe(placement_, accelerators);
    move_states(graph, children_of(graph), placement_);
    return {};
  }

  // "ARGSORT on the CPU: the cuda backend has no kernel"
  void note_fallbacks(const ir::Graph& graph, std::span<const Part> parts, std::span<const size_t> child_of_node) {
    std::set<std::string_view> ops;
    for (ir::NodeId n = 0; n < graph.nodes.size() && options_.allow_fallback; ++n) {
      const size_t wanted = parts[n].kind == Part::Kind::none ? 0 : placement_.at(parts[n]);
      if (wanted < child_of_node[n] && !children_[wanted]->has_kernel(graph, n))
        ops.insert(ir::op_row(graph.nodes[n].op).name);
    }
    if (ops.empty()) return;
    std::string names;
    for (std::string_view op : ops) names += (names.empty() ? "" : ", ") + std::string(op);
    remark_ += fmt::format("{}{} on the {}, for want of kernels", remark_.empty() ? "" : "; ", names, devices_.back());
  }

  Result<std::unique_ptr<Weights>> load_parts(const Cut& cut, const WeightLookup& lookup, const Progress& progress) {
    auto out = std::make_unique<SplitWeights>();
    std::vector<ir::Graph> graphs;
    std::vector<double> file_bytes;
    double total = 0, before = 0;
    for (size_t child = 0; child < children_.size(); ++child) {
      std::vector<const ir::Graph*> pieces;
      for (const Segment& segment : cut.segments)
        if (segment.child == child) pieces.push_back(&segment.graph);
      graphs.push_back(unite(pieces.empty() ? "" : pieces.front()->name, pieces));
      out->parts.push_back({.device = devices_[child], .names = weight_names(graphs.back())});
      file_bytes.push_back(0);
      for (const std::string& name : out->parts.back().names)
        file_bytes.back() += static_cast<double>(TRY(lookup(name)).data.size());
      total += file_bytes.back();
    }
    for (size_t child = 0; child < children_.size(); ++child) {
      const auto scaled = [&](double fraction) {
        return progress((before + fraction * file_bytes[child]) / std::max(total, 1.0));
      };
      out->parts[child].weights =
          TRY(children_[child]->load(graphs[child], lookup, progress ? Progress(scaled) : Progress()));
      before += file_bytes[child];
    }
    return std::unique_ptr<Weights>(std::move(out));
  }

  Result<std::unique_ptr<Program>> compile_parts(ir::Graph graph, const SplitWeights& weights, SplitKv& kv,
                                                 const CompileOptions& options) {
    TRY(ir::simplify(graph));
    Cut cut = TRY(cut_graph(graph, assign(graph, parts_of(graph), placement_, children_of(graph))));
    std::vector<SplitProgram::Piece> pieces;
    for (Segment& segment : cut.segments) {
      const SplitWeights::Part& part = weights.parts[segment.child];
      for (const std::string& name : weight_names(segment.graph)) CHECK(part.names.contains(name), name);
      SplitProgram::Piece piece{.device = devices_[segment.child],
                                .on_host = segment.child + 1 == children_.size(),
                                .outputs = std::move(segment.outputs)};
      const auto n_bytes = [](const ir::Value& value) {
        return dtype_bytes(value.dtype, static_cast<uint64_t>(value.shape.n_elements()));
      };
      for (ir::ValueId id : segment.graph.outputs) piece.output_bytes.push_back(n_bytes(segment.graph.value(id)));
      for (const ir::Value& value : segment.graph.values)
        if (value.input_role == ir::InputRole::boundary) piece.received_bytes += n_bytes(value);
      piece.program = TRY(
          children_[segment.child]->compile(std::move(segment.graph), *part.weights, kv.child(segment.child), options));
      pieces.push_back(std::move(piece));
    }
    return std::unique_ptr<Program>(
        TRY(SplitProgram::create(graph.name, std::move(pieces), std::move(cut.boundary), kv)));
  }

  std::vector<std::string> devices_;
  std::vector<std::unique_ptr<Backend>> children_;
  SplitOptions options_;
  Placement placement_;
  size_t only_ = kUnplaced;  // the child that does everything; children_.size(): several do
  std::string remark_;
  fuse::Stats stats_;
};

}  // namespace
}  // namespace split

std::unique_ptr<Backend> make_split_backend(std::vector<split::Child> children, split::SplitOptions options) {
  return std::make_unique<split::SplitBackend>(std::move(children), options);
}

}  // namespace tokamak
