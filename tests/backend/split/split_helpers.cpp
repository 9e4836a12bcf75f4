#include "backend/split/split_helpers.h"

#include <algorithm>
#include <filesystem>
#include <numeric>

#include <unistd.h>

#include "backend/cpu/backend.h"
#include "synth/synth.h"

namespace tokamak::split {

TestModel TestModel::of(const arch::DummyRow& dummy) {
  const auto path =
      std::filesystem::temp_directory_path() / ("tokamak-split-" + std::to_string(getpid()) + dummy.name() + ".gguf");
  const auto writer = synth(dummy, {.seed = 5});
  EXPECT_TRUE(writer && writer->write(path)) << dummy.name();
  auto file = GgufFile::open(path);
  EXPECT_TRUE(file) << file.error().message();
  std::filesystem::remove(path);  // stays mapped
  auto hparams = arch::read_hparams(*file);
  EXPECT_TRUE(hparams) << hparams.error().message();
  return {std::move(*file), std::move(*hparams)};
}

KvConfig TestModel::kv_config() const {
  KvConfig config{.n_state_rows = hparams.is_recurrent() ? kTestSequences : 0,
                  .n_pages = kTestPages,
                  .page_size = kTestPage,
                  .type = DType::f32};
  for (const arch::LayerHparams& layer : hparams.layers) {
    config.layers.push_back({.n_head_kv = layer.is_delta_net ? 0 : layer.n_head_kv,
                             .head_dim_k = hparams.head_dim_k,
                             .head_dim_v = hparams.head_dim_v});
    if (!hparams.is_recurrent()) continue;
    const arch::DeltaNetHparams& net = hparams.delta_net;
    config.recurrent.push_back(layer.is_delta_net ? RecurrentLayerShape{net.conv_elems(), net.state_elems()}
                                                  : RecurrentLayerShape{});
  }
  return config;
}

ir::Graph TestModel::graph(const arch::ShapeClass& shape) const {
  arch::ShapeClass whole = shape;
  whole.n_slots = kTestPages * kTestPage;
  whole.kv_type = DType::f32;
  if (hparams.is_recurrent()) whole.n_state_rows = kTestSequences;
  auto graph = arch::build_graph(file, hparams, whole);
  EXPECT_TRUE(graph) << graph.error().message();
  return std::move(*graph);
}

WeightLookup TestModel::lookup() const {
  return [this](std::string_view name) -> Result<WeightSource> {
    const arch::WeightRows rows = arch::parse_weight_name(name);
    const GgufTensor* tensor = file.find_tensor(rows.tensor);
    if (!tensor) return Error{.code = ErrorCode::bad_tensor, .where = std::string(name)};
    WeightSource source{.dtype = tensor->type, .shape = tensor->shape, .data = tensor->data};
    if (rows.end < 0) return source;
    const auto row_bytes = tensor->data.size() / static_cast<size_t>(tensor->shape[0]);
    source.shape.set(0, rows.end - rows.begin);
    source.data = tensor->data.subspan(static_cast<size_t>(rows.begin) * row_bytes,
                                       static_cast<size_t>(rows.end - rows.begin) * row_bytes);
    return source;
  };
}

Runner::Runner(const TestModel& model, Backend& backend, bool fusion)
    : model_(model), backend_(backend), fusion_(fusion), n_past_(kTestSequences) {
  auto weights = backend.load(model.graph({.n_tokens = 16}), model.lookup(), {});
  EXPECT_TRUE(weights) << weights.error().message();
  weights_ = std::move(*weights);
  auto kv = backend.make_kv(model.kv_config());
  EXPECT_TRUE(kv) << kv.error().message();
  kv_ = std::move(*kv);
  constexpr auto kEach = static_cast<int32_t>(kTestPages / kTestSequences);
  for (int32_t seq = 0; seq < kTestSequences; ++seq) {
    pages_.emplace_back(static_cast<size_t>(kEach) - 1);  // the last one is spare
    std::iota(pages_.back().begin(), pages_.back().end(), seq * kEach);
  }
}

std::vector<float> Runner::run(const TestStep& step) {
  std::vector<int32_t> tokens, positions, seq_ids, slots, out_rows, state_src, state_rows;
  std::vector<SequencePages> sequences;
  for (size_t seq = 0; seq < step.tokens.size(); ++seq) {
    if (step.tokens[seq].empty()) continue;
    state_src.push_back(n_past_[seq] == 0 ? -1 : static_cast<int32_t>(seq));
    state_rows.push_back(static_cast<int32_t>(seq));
    for (int32_t token : step.tokens[seq]) {
      const int32_t pos = n_past_[seq]++;
      tokens.push_back(token);
      positions.push_back(pos);
      seq_ids.push_back(static_cast<int32_t>(sequences.size()));
      slots.push_back(pages_[seq][static_cast<size_t>(pos) / kTestPage] * static_cast<int32_t>(kTestPage) +
                      pos % static_cast<int32_t>(kTestPage));
    }
    sequences.push_back({.pages = pages_[seq]});
  }
  const auto n = static_cast<int64_t>(tokens.size());
  for (int64_t i = n - step.n_outputs; i < n; ++i) out_rows.push_back(static_cast<int32_t>(i));
  const auto n_seqs = static_cast<int64_t>(sequences.size());
  std::unique_ptr<Program>& program = programs_[{n, step.n_outputs, n_seqs}];
  if (!program) {
    auto compiled = backend_.compile(model_.graph({.n_tokens = n, .n_outputs = step.n_outputs, .n_seqs = n_seqs}),
                                     *weights_, *kv_, {.fusion = fusion_});
    EXPECT_TRUE(compiled) << compiled.error().message();
    program = std::move(*compiled);
  }
  program_ = program.get();
  std::vector<float> logits(static_cast<size_t>(step.n_outputs * model_.hparams.n_vocab));
  const std::span<float> output = logits;
  const StepInputs inputs{.tokens = tokens,
                          .positions = positions,
                          .seq_ids = seq_ids,
                          .slots = slots,
                          .out_rows = out_rows,
                          .sequences = sequences,
                          .state_src = state_src,
                          .state_rows = state_rows};
  const auto ran = program_->run(inputs, {&output, step.n_outputs > 0 ? size_t{1} : size_t{0}});
  EXPECT_TRUE(ran) << ran.error().message();
  return logits;
}

Result<uint64_t> LimitedBackend::load_bytes(const ir::Graph& graph, const WeightLookup& lookup) const {
  std::set<std::string> names;
  for (const ir::Node& node : graph.nodes)
    for (ir::ValueId id : node.inputs)
      if (graph.value(id).kind == ir::ValueKind::weight) names.insert(graph.value(id).name);
  uint64_t n_bytes = 0;
  for (const std::string& name : names) n_bytes += TRY(lookup(name)).data.size();
  return n_bytes;
}

Result<std::unique_ptr<Weights>> LimitedBackend::load(const ir::Graph& graph, const WeightLookup& lookup,
                                                      const Progress& progress) {
  for (ir::NodeId n = 0; n < graph.nodes.size(); ++n)
    if (!has_kernel(graph, n))
      return Error{.code = ErrorCode::unsupported, .what = "no kernel", .where = graph.node(n).name};
  return inner_->load(graph, lookup, progress);
}

std::unique_ptr<Backend> test_cpu() { return *make_cpu_backend({.n_threads = 1}); }

std::unique_ptr<Backend> test_split(std::unique_ptr<Backend> first, const SplitOptions& options) {
  std::vector<Child> children;
  children.push_back({"GPU", std::move(first)});
  children.push_back({"CPU", test_cpu()});
  return make_split_backend(std::move(children), options);
}

}  // namespace tokamak::split
