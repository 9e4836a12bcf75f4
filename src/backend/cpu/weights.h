// Weights as the CPU kernels read them.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "base/buffer.h"
#include "base/thread_pool.h"

namespace tokamak::cpu {

// One tensor, in as many forms as the graph uses it.
struct CpuWeight {
  DType dtype = DType::f32;
  Shape shape;
  const std::byte* rows = nullptr;    // the file's rows: for GET_ROWS, and for matmul types without a packed form
  const std::byte* packed = nullptr;  // 16-row panels (matmul/formats.h); null when no MUL_MAT reads it
  uint64_t matrix_bytes = 0;          // packed or rows: from one matrix [n_out, n_in] of a stack to the next
  std::vector<float> values;          // decoded, when an element-wise op reads it
};

class CpuWeights : public Weights {
 public:
  // Packs on all threads of `pool`; with Backing::addresses matrices are neither read nor packed. Errors: those of
  // lookup, out_of_memory, cancelled.
  static Result<std::unique_ptr<CpuWeights>> load(const ir::Graph& graph, const WeightLookup& lookup,
                                                  const Progress& progress, ThreadPool& pool, Backing backing);

  const CpuWeight& at(std::string_view name) const { return weights_.find(name)->second; }
  std::vector<MemoryUse> memory() const override;

 private:
  struct Use {
    bool matmul = false, rows = false, values = false;
  };
  static std::map<std::string, Use, std::less<>> uses_of(const ir::Graph& graph);

  std::map<std::string, CpuWeight, std::less<>> weights_;
  Buffer packed_;
  uint64_t mapped_bytes_ = 0, decoded_bytes_ = 0;
};

}  // namespace tokamak::cpu
