// Element-wise kernels. f32; strides in elements between rows.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace tokamak::cuda {

inline constexpr int64_t kNoRepeat = INT64_MAX;  // an operand with as many rows as the result

struct Source {
  const float* p = nullptr;
  int64_t stride = 0;
  int64_t n_rows = kNoRepeat;  // before it starts again
  bool is_number = false;      // one number per row
};

enum class BinaryOp : uint8_t { add, sub, mul, div };
inline constexpr int kMaxSources = 8;

// y = x[0] op x[1] op ... from left to right.
struct ChainArgs {
  BinaryOp op = BinaryOp::add;
  int n_sources = 2;
  Source x[kMaxSources];
  float* y = nullptr;
  int64_t y_stride = 0, n_rows = 0, row_elems = 0;
};
cudaError_t launch_chain(const ChainArgs& args, cudaStream_t stream);

// The first kUnaries values are those of ir::Unary.
enum class MapKind : uint8_t {
  silu,
  gelu,
  gelu_erf,
  gelu_quick,
  relu,
  sigmoid,
  tanh,
  softplus,
  exp,
  sqr,
  sqrt,
  sin,
  scale,     // a * x + b
  clamp,     // min(max(x, a), b)
  softcap,   // b * tanh(a * x)
  relu_sqr,  // max(x, 0)^2
};
struct MapArgs {
  MapKind kind = MapKind::scale;
  float a = 1, b = 0;
  const float* x = nullptr;
  float* y = nullptr;
  int64_t x_stride = 0, y_stride = 0, n_rows = 0, row_elems = 0;
};
cudaError_t launch_map(const MapArgs& args, cudaStream_t stream);

// The first kGlus values are those of ir::Glu.
enum class GluKind : uint8_t { reglu, geglu, swiglu, geglu_erf, geglu_quick, swiglu_oai, sigmoid_mul, softplus_mul };
struct GluArgs {
  GluKind kind = GluKind::swiglu;
  float alpha = 0, limit = 0;
  const float* gate = nullptr;
  const float* up = nullptr;
  float* y = nullptr;
  int64_t gate_stride = 0, up_stride = 0, y_stride = 0, n_rows = 0, row_elems = 0;
};
cudaError_t launch_glu(const GluArgs& args, cudaStream_t stream);

// y = x + b * sin(a * x)^2, a and b by row.
struct SnakeArgs {
  const float *x = nullptr, *a = nullptr, *b = nullptr;
  float* y = nullptr;
  int64_t x_stride = 0, a_stride = 0, b_stride = 0, y_stride = 0, n_rows = 0, row_elems = 0;
};
cudaError_t launch_snake(const SnakeArgs& args, cudaStream_t stream);

// y = x * (1 + scale * ln(1 + floor((position + offset) / length)))
struct AttnTempArgs {
  const int32_t* positions = nullptr;
  double scale = 0, length = 1;
  int64_t offset = 0, rows_per_token = 1;
  const float* x = nullptr;
  float* y = nullptr;
  int64_t x_stride = 0, y_stride = 0, n_rows = 0, row_elems = 0;
};
cudaError_t launch_attn_temp(const AttnTempArgs& args, cudaStream_t stream);

}  // namespace tokamak::cuda
