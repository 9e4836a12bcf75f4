// What the benches of CUDA kernels share: times of launches with a cold L2, beside a pure read of the same bytes.
#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <type_traits>
#include <vector>

namespace tokamak::cuda {

inline void check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  std::printf("%s: %s\n", what, cudaGetErrorString(error));
  std::exit(1);
}

// --- a pure read: each CTA streams a contiguous part through shared memory with bulk copies.
inline constexpr int kStages = 16, kChunk = 8192;
static __global__ void __launch_bounds__(32) stream_kernel(const uint8_t* data, int64_t n_bytes) {
  extern __shared__ uint8_t ring[];
  __shared__ alignas(8) uint64_t full[kStages];
  if (threadIdx.x != 0) return;
  const auto bar = [&](int s) { return static_cast<uint32_t>(__cvta_generic_to_shared(&full[s])); };
  for (int s = 0; s < kStages; ++s) asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(bar(s)) : "memory");
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  const int64_t n_chunks = (n_bytes + kChunk - 1) / kChunk;
  const int64_t begin = n_chunks * blockIdx.x / gridDim.x, end = n_chunks * (blockIdx.x + 1) / gridDim.x;
  const auto issue = [&](int64_t c) {
    const int s = static_cast<int>((c - begin) % kStages);
    const int64_t left = n_bytes - c * kChunk;
    const uint32_t size = static_cast<uint32_t>((left < kChunk ? left : kChunk) & ~15);
    asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(bar(s)), "r"(size) : "memory");
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                     static_cast<uint32_t>(__cvta_generic_to_shared(ring + s * kChunk))),
                 "l"(data + c * kChunk), "r"(size), "r"(bar(s))
                 : "memory");
  };
  for (int64_t c = begin; c < end && c < begin + kStages; ++c) issue(c);
  for (int64_t c = begin; c < end; ++c) {
    const int s = static_cast<int>((c - begin) % kStages);
    const uint32_t phase = static_cast<uint32_t>((c - begin) / kStages & 1);
    asm volatile(
        "{\n.reg .pred p;\nwait:\nmbarrier.try_wait.parity.shared.b64 p, [%0], %1;\n@!p bra wait;\n}" ::"r"(bar(s)),
        "r"(phase)
        : "memory");
    if (c + kStages < end) issue(c + kStages);
  }
}

struct Time {
  double median, low, high;  // us per launch
};
inline int g_replays = 9;

inline Time time_graph(int n_launches, const std::function<void(int launch, cudaStream_t)>& enqueue) {
  cudaStream_t stream;
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  cudaEvent_t begin, end;
  check(cudaStreamCreate(&stream), "stream");
  check(cudaEventCreate(&begin), "event");
  check(cudaEventCreate(&end), "event");
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "capture");
  for (int i = 0; i < n_launches; ++i) enqueue(i, stream);
  check(cudaStreamEndCapture(stream, &graph), "end of capture");
  check(cudaGraphInstantiate(&exec, graph, 0), "instantiate");
  std::vector<double> times;
  for (int replay = 0; replay < g_replays + 2; ++replay) {
    check(cudaEventRecord(begin, stream), "record");
    check(cudaGraphLaunch(exec, stream), "launch");
    check(cudaEventRecord(end, stream), "record");
    check(cudaEventSynchronize(end), "run");
    float ms = 0;
    check(cudaEventElapsedTime(&ms, begin, end), "elapsed");
    if (replay >= 2) times.push_back(1e3 * ms / n_launches);
  }
  std::sort(times.begin(), times.end());
  cudaGraphExecDestroy(exec);
  cudaGraphDestroy(graph);
  cudaEventDestroy(begin);
  cudaEventDestroy(end);
  cudaStreamDestroy(stream);
  return {times[times.size() / 2], times.front(), times.back()};
}

inline uint8_t* device_alloc(size_t n_bytes) {
  void* p = nullptr;
  check(cudaMalloc(&p, n_bytes), "cudaMalloc");
  return static_cast<uint8_t*>(p);
}

// Zeroed.
template <class T>
T* device_array(int64_t n) {
  auto* p = device_alloc(static_cast<size_t>(n) * sizeof(T));
  check(cudaMemset(p, 0, static_cast<size_t>(n) * sizeof(T)), "cudaMemset");
  return reinterpret_cast<T*>(p);
}
// int32_t and float as they are, bytes as uint8_t.
template <class T>
auto* upload(const std::vector<T>& values) {
  using Element = std::conditional_t<std::is_same_v<T, std::byte>, uint8_t, T>;
  uint8_t* p = device_alloc(values.size() * sizeof(T));
  check(cudaMemcpy(p, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice), "copy");
  return reinterpret_cast<Element*>(p);
}
template <class... T>
void device_free(T*... p) {
  (cudaFree(p), ...);
}

static __global__ void fill_floats(float* x, int64_t n) {
  for (int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x; i < n; i += int64_t{gridDim.x} * blockDim.x)
    x[i] = static_cast<float>((static_cast<uint32_t>(i) * 2654435761u >> 8 & 0xFFFF) / 32768.0 - 1.0);
}
// A KV cache of any type: every pair of bytes is an f16, a bf16, two e4m3 or two codes that are no NaN and not large.
static __global__ void fill_cache(uint16_t* x, int64_t n) {
  for (int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x; i < n; i += int64_t{gridDim.x} * blockDim.x) {
    const uint32_t r = static_cast<uint32_t>(i) * 2654435761u >> 8;
    x[i] = static_cast<uint16_t>((r & 0x8000) | 0x3800 | (r & 0x3FF));
  }
}

inline Time time_stream(int64_t n_bytes) {
  const int n_copies = static_cast<int>(std::max<int64_t>(48, 400'000'000 / n_bytes + 1));
  const int64_t stride = (n_bytes + 255) / 256 * 256;
  const int n_held = static_cast<int>(std::min<int64_t>(n_copies, 400'000'000 / n_bytes + 2));
  uint8_t* data = device_alloc(static_cast<size_t>(stride * n_held));
  check(cudaMemset(data, 1, static_cast<size_t>(stride * n_held)), "memset");
  check(cudaFuncSetAttribute(stream_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kStages * kChunk), "shared");
  const Time t = time_graph(n_copies, [&](int i, cudaStream_t s) {
    stream_kernel<<<132, 32, kStages * kChunk, s>>>(data + i % n_held * stride, n_bytes);
  });
  cudaFree(data);
  return t;
}

}  // namespace tokamak::cuda
