#include "backend/cuda/ops/elementwise.h"

#include "backend/cuda/ops/functions.h"
#include "backend/cuda/ops/launch.h"

namespace tokamak::cuda {

namespace {
constexpr int kThreads = 256;

__device__ float read(const Source& s, int64_t row, int64_t col) {
  return s.p[(s.n_rows == kNoRepeat ? row : row % s.n_rows) * s.stride + (s.is_number ? 0 : col)];
}

__device__ float combine(BinaryOp op, float a, float b) {
  switch (op) {
    case BinaryOp::add:
      return a + b;
    case BinaryOp::sub:
      return a - b;
    case BinaryOp::mul:
      return a * b;
    case BinaryOp::div:
      return a / b;
  }
  return 0;
}

// fn(row, col) for every element.
template <class Fn>
__device__ void for_each_element(int64_t n_rows, int64_t row_elems, Fn fn) {
  for (int64_t i = first_item(); i < n_rows * row_elems; i += item_step()) fn(i / row_elems, i % row_elems);
}

__global__ void chain_kernel(ChainArgs a) {
  start_after_previous_kernel();
  for_each_element(a.n_rows, a.row_elems, [&](int64_t row, int64_t col) {
    float y = read(a.x[0], row, col);
#pragma unroll
    for (int i = 1; i < kMaxSources; ++i)
      if (i < a.n_sources) y = combine(a.op, y, read(a.x[i], row, col));
    a.y[row * a.y_stride + col] = y;
  });
}

__global__ void map_kernel(MapArgs a) {
  start_after_previous_kernel();
  for_each_element(a.n_rows, a.row_elems, [&](int64_t row, int64_t col) {
    a.y[row * a.y_stride + col] = apply_map(a.kind, a.x[row * a.x_stride + col], a.a, a.b);
  });
}

__global__ void glu_kernel(GluArgs a) {
  start_after_previous_kernel();
  for_each_element(a.n_rows, a.row_elems, [&](int64_t row, int64_t col) {
    a.y[row * a.y_stride + col] =
        apply_glu(a.kind, a.gate[row * a.gate_stride + col], a.up[row * a.up_stride + col], a.alpha, a.limit);
  });
}

// Every operation rounds as the op that it stands for.
__global__ void snake_kernel(SnakeArgs a) {
  start_after_previous_kernel();
  for_each_element(a.n_rows, a.row_elems, [&](int64_t row, int64_t col) {
    const float x = a.x[row * a.x_stride + col], wave = sinf(x * a.a[row * a.a_stride]);
    a.y[row * a.y_stride + col] = wave * wave * a.b[row * a.b_stride] + x;
  });
}

__global__ void attn_temp_kernel(AttnTempArgs a) {
  start_after_previous_kernel();
  for_each_element(a.n_rows, a.row_elems, [&](int64_t row, int64_t col) {
    const double position = static_cast<double>(a.positions[row / a.rows_per_token] + a.offset);
    const auto factor = static_cast<float>(1 + a.scale * log(1 + floor(position / a.length)));
    a.y[row * a.y_stride + col] = a.x[row * a.x_stride + col] * factor;
  });
}

template <class Args>
cudaError_t launch(void (*kernel)(Args), const Args& args, cudaStream_t stream) {
  return launch_overlapped(kernel, grid_for(args.n_rows * args.row_elems, kThreads), kThreads, 0, stream, args);
}
}  // namespace

cudaError_t launch_chain(const ChainArgs& args, cudaStream_t stream) { return launch(chain_kernel, args, stream); }
cudaError_t launch_map(const MapArgs& args, cudaStream_t stream) { return launch(map_kernel, args, stream); }
cudaError_t launch_glu(const GluArgs& args, cudaStream_t stream) { return launch(glu_kernel, args, stream); }
cudaError_t launch_snake(const SnakeArgs& args, cudaStream_t stream) { return launch(snake_kernel, args, stream); }
cudaError_t launch_attn_temp(const AttnTempArgs& args, cudaStream_t stream) {
  return launch(attn_temp_kernel, args, stream);
}

}  // namespace tokamak::cuda
