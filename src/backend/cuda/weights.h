// Weights as the CUDA kernels read them, on one device.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "backend/cuda/device.h"
#include "backend/cuda/weight_image.h"

namespace tokamak::cuda {

// One tensor, in as many forms as the graph uses it. Addresses are the device's; null: no use needs the form.
struct CudaWeight {
  DType dtype = DType::f32;
  Shape shape;
  const std::byte* packed = nullptr;  // matvec/layout.h: for MUL_MAT, and for GET_ROWS where `rows` is null
  DType row_dtype = DType::f32;       // of rows: f32, f16 or bf16
  const std::byte* rows = nullptr;    // for GET_ROWS, and for MUL_MAT without a layout
  const float* values = nullptr;      // for element-wise ops
  std::vector<float> host_values;     // short ones here too: factors of rope frequencies
};

class CudaWeights : public Weights {
 public:
  // Errors: those of lookup, out_of_memory, device_failed, cancelled.
  static Result<std::unique_ptr<CudaWeights>> load(const ir::Graph& graph, const WeightLookup& lookup,
                                                   const Progress& progress, Device& device);

  // What load() would take of the device's memory. Errors: those of lookup.
  static Result<uint64_t> bytes_of(const ir::Graph& graph, const WeightLookup& lookup);

  const CudaWeight& at(std::string_view name) const { return weights_.find(name)->second; }
  std::vector<MemoryUse> memory() const override;

 private:
  std::map<std::string, CudaWeight, std::less<>> weights_;
  DeviceBuffer memory_;
  uint64_t packed_bytes_ = 0, row_bytes_ = 0, value_bytes_ = 0;
};

}  // namespace tokamak::cuda
