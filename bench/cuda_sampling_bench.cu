// From logits on the device to a token: selecting the best there, beside fetching all of them for the host.
#include <chrono>
#include <cstdio>
#include <random>

#include "backend/cuda/sampling/top_logits.h"
#include "cuda_bench.h"
#include "engine/sampling/sampler.h"

namespace tokamak::cuda {
namespace {

// Median microseconds of f().
template <class F>
double median_us(int n, F&& f) {
  std::vector<double> times;
  for (int i = 0; i < n; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    f(i);
    times.push_back(std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count());
  }
  std::ranges::nth_element(times, times.begin() + n / 2);
  return times[static_cast<size_t>(n / 2)];
}

void measure(int64_t n_vocab, int64_t n_rows) {
  const auto n = static_cast<size_t>(n_vocab * n_rows);
  float *logits = nullptr, *fetched = nullptr;
  TopLogit* top = nullptr;
  void* scratch = nullptr;
  check(cudaMalloc(&logits, n * sizeof(float)), "memory");
  check(cudaMallocHost(&fetched, n * sizeof(float)), "pinned memory");
  check(cudaMallocHost(&top, static_cast<size_t>(n_rows) * kTopLogits * sizeof(TopLogit)), "pinned memory");
  check(cudaMalloc(&scratch, top_logits_scratch(n_rows)), "memory");
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0, 3);
  for (size_t i = 0; i < n; ++i) fetched[i] = normal(random);
  check(cudaMemcpy(logits, fetched, n * sizeof(float), cudaMemcpyHostToDevice), "copy");

  const TopLogitsArgs args{.logits = logits, .n_rows = n_rows, .n_vocab = n_vocab, .scratch = scratch, .top = top};
  const Time select =
      time_graph(50, [&](int, cudaStream_t stream) { check(launch_top_logits(args, stream), "launch"); });
  const double fetch = median_us(31, [&](int) {
    check(cudaMemcpyAsync(fetched, logits, n * sizeof(float), cudaMemcpyDeviceToHost, nullptr), "copy");
    check(cudaStreamSynchronize(nullptr), "copy");
  });
  Sampler sampler =
      Sampler::create({.seed = 1}, {.n_vocab = static_cast<size_t>(n_vocab), .end_of_generation = {}, .text = {}})
          .value();
  const double from_all = median_us(31, [&](int i) {
    for (int64_t r = 0; r < n_rows; ++r)
      if (!sampler.sample({fetched + r * n_vocab, static_cast<size_t>(n_vocab)}, static_cast<uint64_t>(i)))
        std::exit(1);
  });
  const double from_top = median_us(31, [&](int i) {
    for (int64_t r = 0; r < n_rows; ++r)
      if (!sampler.sample_top({top + r * static_cast<int64_t>(kTopLogits), kTopLogits}, static_cast<uint64_t>(i)))
        std::exit(1);
  });
  std::printf("%7lld x %2lld | %8.2f (%.2f to %.2f) | %8.1f | %10.1f | %8.1f\n", static_cast<long long>(n_vocab),
              static_cast<long long>(n_rows), select.median, select.low, select.high, fetch, from_all, from_top);
  check(cudaFree(logits), "free");
  check(cudaFree(scratch), "free");
  check(cudaFreeHost(fetched), "free");
  check(cudaFreeHost(top), "free");
}

}  // namespace
}  // namespace tokamak::cuda

int main() {
  std::printf(
      "logits       | select us, within a graph   | fetch us | sample all | sample best (defaults: top_k 40)\n");
  for (const int64_t n_vocab : {32000, 128256, 262144})
    for (const int64_t n_rows : {1, 8, 64}) tokamak::cuda::measure(n_vocab, n_rows);
}
