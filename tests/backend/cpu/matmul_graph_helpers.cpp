#include "backend/cpu/matmul_graph_helpers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

namespace tokamak::cpu::test {

ir::ValueId NamedWeights::add(ir::GraphBuilder& builder, const std::string& name, const Matrix& m, const Shape& shape) {
  weights_.try_emplace(name, m, shape);
  return builder.weight(name, m.dtype, shape);
}

ir::ValueId NamedWeights::add_vector(ir::GraphBuilder& builder, const std::string& name,
                                     const std::vector<float>& values, const Shape& shape) {
  return add(builder, name, f32_matrix(values, 1, static_cast<int64_t>(values.size())), shape);
}

WeightLookup NamedWeights::lookup() const {
  return [this](std::string_view name) -> Result<WeightSource> {
    const auto& [m, shape] = weights_.at(std::string(name));
    return WeightSource{.dtype = m.dtype, .shape = shape, .data = m.rows, .forget = {}};
  };
}

Matrix f32_matrix(const std::vector<float>& values, int64_t n_rows, int64_t k) {
  Matrix m{DType::f32, n_rows, k, std::vector<std::byte>(values.size() * sizeof(float))};
  std::memcpy(m.rows.data(), values.data(), m.rows.size());
  return m;
}

bool GraphRun::has(const std::string& label) const { return std::ranges::find(labels, label) != labels.end(); }

GraphRun run_graph(Backend& backend, Result<ir::Graph> graph, const NamedWeights& weights,
                   std::span<const int32_t> tokens, std::span<const int32_t> out_rows, const CompileOptions& options) {
  GraphRun out;
  EXPECT_TRUE(graph) << graph.error().message();
  if (!graph) return out;
  auto loaded = backend.load(*graph, weights.lookup(), {});
  EXPECT_TRUE(loaded) << loaded.error().message();
  auto kv = backend.make_kv({.layers = {{1, 64, 64}}, .n_pages = 1, .page_size = 16});
  EXPECT_TRUE(kv) << kv.error().message();
  auto program = backend.compile(std::move(*graph), **loaded, **kv, options);
  EXPECT_TRUE(program) << program.error().message();
  if (!program) return out;
  const ir::Graph& compiled = (*program)->graph();
  std::vector<std::span<float>> outputs;
  for (ir::ValueId id : compiled.outputs)
    out.outputs.emplace_back(static_cast<size_t>(compiled.value(id).shape.n_elements()), std::nanf(""));
  for (auto& o : out.outputs) outputs.emplace_back(o);
  const auto ran = (*program)->run({.tokens = tokens, .out_rows = out_rows}, outputs);
  EXPECT_TRUE(ran) << ran.error().message();
  for (const StepReport& step : (*program)->steps()) out.labels.push_back(step.label);
  return out;
}

std::unique_ptr<Backend> cpu_backend(std::string_view isa, int64_t n_threads, std::string_view activations) {
  auto backend =
      make_cpu_backend({.isa = std::string(isa), .n_threads = n_threads, .activations = std::string(activations)});
  EXPECT_TRUE(backend) << backend.error().message();
  return std::move(*backend);
}

std::vector<BackendChoice> backend_choices() {
  std::vector<BackendChoice> out;
  for (const IsaRow& row : kIsas)
    for (int64_t n_threads : {1, 3})
      if (isa_available(row.isa)) out.push_back({std::string(row.name), n_threads});
  return out;
}

}  // namespace tokamak::cpu::test
