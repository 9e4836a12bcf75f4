// Which tensor of the checkpoint becomes which of the GGUF, in which type, and the stream of its bytes.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "convert/model_config.h"
#include "convert/tensor_order.h"
#include "convert/weight.h"
#include "gguf/writer.h"
#include "tensor/shape.h"

namespace tokamak::convert {

struct PlannedTensor {
  std::string name;     // in the GGUF
  std::string hf_name;  // for people
  DType type = DType::f32;
  Shape shape;
  arch::ValueChange change = arch::ValueChange::none;
  TensorOrder order;
  std::vector<Weight> weights;  // where the values come from, one behind the other, all of one shape; or, if empty:
  std::vector<float> values;    // the values themselves
  uint64_t n_bytes() const { return dtype_bytes(type, static_cast<uint64_t>(shape.n_elements())); }
};

struct TensorPlan {
  std::vector<PlannedTensor> tensors;  // in the order of the GGUF
  std::vector<std::string> left_out;   // tensors of the checkpoint that the engine has no use for
  DType matrix_type = DType::f16;      // of matrices that are not kept as they are
};

// Type of the weights: one of "auto" (the checkpoint's 16-bit type; NVFP4 and MXFP4 stay as they are), "f32", "f16",
// "bf16", "q8_0". Vectors are always F32; rows that Q8_0 cannot hold become F16.
// Errors: bad_tensor (missing, wrong shape, a scale that is absent), unsupported (a tensor that is not part of the
// family). Each names file and tensor.
Result<TensorPlan> plan_tensors(const Checkpoint& checkpoint, const ModelConfig& model, std::string_view out_type);

// Called now and then while bytes are made; false stops with `cancelled`.
using KeepGoing = std::function<bool()>;

// Streams the tensor's encoded bytes, a few MB at a time; transposed ones need up to 256 MB. The checkpoint must
// outlive the source. Errors of the source: bad_tensor (NaN or infinity, a value too large for the type), cancelled.
GgufWriter::Source tensor_source(const PlannedTensor& tensor, KeepGoing keep_going);

}  // namespace tokamak::convert
