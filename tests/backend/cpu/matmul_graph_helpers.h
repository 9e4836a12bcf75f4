// Small graphs of products through a whole backend. Inputs x are rows of a weight "x" that GET_ROWS fetches, so that
// any part of them can be run alone.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "backend/cpu/backend.h"
#include "backend/cpu/matmul_helpers.h"
#include "ir/builder.h"

namespace tokamak::cpu::test {

// Tensors by name, as a file would hold them.
class NamedWeights {
 public:
  // `m` seen as `shape`; a weight asked for again is the one made first.
  ir::ValueId add(ir::GraphBuilder& builder, const std::string& name, const Matrix& m, const Shape& shape);
  ir::ValueId add_vector(ir::GraphBuilder& builder, const std::string& name, const std::vector<float>& values,
                         const Shape& shape);
  WeightLookup lookup() const;

 private:
  std::map<std::string, std::pair<Matrix, Shape>> weights_;
};

Matrix f32_matrix(const std::vector<float>& values, int64_t n_rows, int64_t k);

struct GraphRun {
  std::vector<std::vector<float>> outputs;
  std::vector<std::string> labels;  // of the steps
  bool has(const std::string& label) const;
};

// Runs `graph` with inputs tokens and out_rows.
GraphRun run_graph(Backend& backend, Result<ir::Graph> graph, const NamedWeights& weights,
                   std::span<const int32_t> tokens, std::span<const int32_t> out_rows,
                   const CompileOptions& options = {});

std::unique_ptr<Backend> cpu_backend(std::string_view isa, int64_t n_threads, std::string_view activations);

// Backends whose results must have the same bits: every instruction set of this machine, one thread and three.
struct BackendChoice {
  std::string isa;
  int64_t n_threads;
};
std::vector<BackendChoice> backend_choices();

}  // namespace tokamak::cpu::test
