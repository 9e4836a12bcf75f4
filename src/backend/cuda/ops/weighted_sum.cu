#include "backend/cuda/ops/weighted_sum.h"

#include <algorithm>

#include "backend/cuda/ops/launch.h"

namespace tokamak::cuda {

namespace {
constexpr int kThreads = 64;           // few: the rows of one token are spread over more multiprocessors
constexpr int kAtOnce = 8;             // experts whose rows are on their way together
constexpr int64_t kMaxGridY = 65'535;  // of CUDA
// Up to here more threads of two elements are faster than fewer of four (H200).
constexpr int64_t kFewElements = 1 << 17;

// Neighbouring elements of a row, moved by one instruction.
template <int kWidth>
struct alignas(kWidth * sizeof(float)) Pack {
  float x[kWidth];
};
template <int kWidth>
__device__ Pack<kWidth> load(const float* p) {
  return *reinterpret_cast<const Pack<kWidth>*>(p);
}
template <int kWidth>
__device__ void add(Pack<kWidth>& sum, const Pack<kWidth>& more) {
#pragma unroll
  for (int k = 0; k < kWidth; ++k) sum.x[k] = sum.x[k] + more.x[k];
}
template <int kWidth>
__device__ Pack<kWidth> times(const Pack<kWidth>& v, float factor) {
  Pack<kWidth> out;
#pragma unroll
  for (int k = 0; k < kWidth; ++k) out.x[k] = v.x[k] * factor;
  return out;
}

template <int kWidth>
__device__ void sum_columns(const WeightedSumArgs& a, int64_t token, int64_t col) {
  const float* x = a.x + token * a.n_used * a.x_stride + col;
  const float* weights = a.weights + token * a.n_used * a.weight_stride;
  Pack<kWidth> addends[kMaxAddends], sum{};
#pragma unroll
  for (int i = 0; i < kMaxAddends; ++i)
    if (i < a.n_addends) addends[i] = load<kWidth>(a.addends[i] + token * a.addend_strides[i] + col);
  for (int first = 0; first < a.n_used; first += kAtOnce) {
    Pack<kWidth> parts[kAtOnce];
    float factors[kAtOnce];
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      if (first + i >= a.n_used) continue;
      parts[i] = load<kWidth>(x + (first + i) * a.x_stride);
      factors[i] = weights[(first + i) * a.weight_stride];
    }
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      if (first + i >= a.n_used) continue;
      const Pack<kWidth> part = times<kWidth>(parts[i], factors[i]);
      if (first + i == 0)
        sum = part;  // 0 + -0 would be 0
      else
        add<kWidth>(sum, part);
    }
  }
#pragma unroll
  for (int i = 0; i < kMaxAddends; ++i)
    if (i < a.n_addends) add<kWidth>(sum, addends[i]);
  *reinterpret_cast<Pack<kWidth>*>(a.y + token * a.y_stride + col) = sum;
}

template <int kWidth>
__global__ void __launch_bounds__(kThreads) weighted_sum_kernel(WeightedSumArgs a) {
  allow_next_kernel();
  const int64_t col = first_item() * kWidth;
  wait_for_previous_kernel();
  if (col >= a.row_elems) return;
  for (int64_t token = blockIdx.y; token < a.n_tokens; token += gridDim.y) sum_columns<kWidth>(a, token, col);
}

// Whether all rows are made of whole, aligned packs.
bool has_packs(const WeightedSumArgs& a, int width) {
  const auto fits = [&](const float* p, int64_t stride) {
    return reinterpret_cast<uintptr_t>(p) % (static_cast<size_t>(width) * sizeof(float)) == 0 && stride % width == 0;
  };
  bool all = a.row_elems % width == 0 && fits(a.x, a.x_stride) && fits(a.y, a.y_stride);
  for (int i = 0; i < a.n_addends; ++i) all = all && fits(a.addends[i], a.addend_strides[i]);
  return all;
}

template <int kWidth>
cudaError_t launch(const WeightedSumArgs& args, cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>(ceil_div(args.row_elems, int64_t{kThreads} * kWidth)),
                  static_cast<unsigned>(std::min(args.n_tokens, kMaxGridY)));
  return launch_overlapped(weighted_sum_kernel<kWidth>, grid, kThreads, 0, stream, args);
}
}  // namespace

// The width changes no bit of a result.
cudaError_t launch_weighted_sum(const WeightedSumArgs& args, cudaStream_t stream) {
  const bool few = args.n_tokens * args.row_elems <= kFewElements;
  if (!few && has_packs(args, 4)) return launch<4>(args, stream);
  return has_packs(args, 2) ? launch<2>(args, stream) : launch<1>(args, stream);
}

}  // namespace tokamak::cuda
