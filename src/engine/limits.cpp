#include "engine/limits.h"

#include <time.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <vector>

#include "backend/cpu/isa.h"
#include "base/buffer.h"
#include "base/thread_pool.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace tokamak {

namespace {
using cpu::Isa;

constexpr size_t kReadBytes = size_t{256} << 20;  // larger than most caches
constexpr size_t kSliceBytes = size_t{16} << 20;  // timed at once
constexpr int64_t kRounds = 200'000;              // of a compute loop: below a millisecond
constexpr int kRuns = 50;                         // the best counts, so that other processes matter little
constexpr int kChains = 12;  // independent sums: hides the latency of one instruction on two or three ports

// A loop of kRounds rounds; every round is kChains instructions of `ops` multiplies and adds.
struct ComputeLoop {
  Isa isa;
  bool is_int8;
  double ops;
  void (*run)(int64_t n_rounds);
};

#if defined(__GNUC__)
#define KEEP(x) asm volatile("" : "+x"(x))
#endif

#if defined(__x86_64__)
[[gnu::target("avx512f,avx512vnni"), gnu::noinline]] void int8_avx512(int64_t n) {
  __m512i sums[kChains], a = _mm512_set1_epi8(1);
#pragma GCC unroll 12
  for (__m512i& sum : sums) sum = _mm512_setzero_si512();
  for (int64_t i = 0; i < n; ++i)
#pragma GCC unroll 12
    for (__m512i& sum : sums) {
      sum = _mm512_dpbusd_epi32(sum, a, a);
      asm volatile("" : "+v"(sum));
    }
}
[[gnu::target("avx512f"), gnu::noinline]] void f32_avx512(int64_t n) {
  __m512 sums[kChains], a = _mm512_set1_ps(0.5f);
#pragma GCC unroll 12
  for (__m512& sum : sums) sum = a;
  for (int64_t i = 0; i < n; ++i)
#pragma GCC unroll 12
    for (__m512& sum : sums) {
      sum = _mm512_fmadd_ps(sum, a, a);
      asm volatile("" : "+v"(sum));
    }
}
// 32 products, summed in pairs, then added: the shortest int8 dot product without VNNI (sums of 16 bits).
[[gnu::target("avx2"), gnu::noinline]] void int8_avx2(int64_t n) {
  __m256i sums[kChains], a = _mm256_set1_epi8(1);
#pragma GCC unroll 12
  for (__m256i& sum : sums) sum = _mm256_setzero_si256();
  for (int64_t i = 0; i < n; ++i)
#pragma GCC unroll 12
    for (__m256i& sum : sums) {
      sum = _mm256_add_epi16(sum, _mm256_maddubs_epi16(a, a));
      KEEP(sum);
      KEEP(a);
    }
}
[[gnu::target("avx2,fma"), gnu::noinline]] void f32_avx2(int64_t n) {
  __m256 sums[kChains], a = _mm256_set1_ps(0.5f);
#pragma GCC unroll 12
  for (__m256& sum : sums) sum = a;
  for (int64_t i = 0; i < n; ++i)
#pragma GCC unroll 12
    for (__m256& sum : sums) {
      sum = _mm256_fmadd_ps(sum, a, a);
      KEEP(sum);
    }
}
#endif

// Plain multiply and add in whatever the compiler's default target offers.
template <class T>
[[gnu::noinline]] void plain_loop(int64_t n) {
  volatile T factor = 1;
  T sums[kChains] = {}, a = factor;
  for (int64_t i = 0; i < n; ++i)
    for (T& sum : sums) sum = sum * a + a;
  volatile T sink = 0;
  for (T sum : sums) sink = sum;
  static_cast<void>(sink);
}

// Best first; the last two rows run everywhere.
constexpr ComputeLoop kLoops[] = {
#if defined(__x86_64__)
    {Isa::avx512, true, 128, int8_avx512},
    {Isa::avx512, false, 32, f32_avx512},
    {Isa::avx2, true, 64, int8_avx2},
    {Isa::avx2, false, 16, f32_avx2},
#endif
    {Isa::scalar, true, 2, plain_loop<uint32_t>},
    {Isa::scalar, false, 2, plain_loop<float>},
};

const ComputeLoop& find_loop(Isa isa, bool is_int8) {
  const ComputeLoop* found = nullptr;
  for (const ComputeLoop& loop : kLoops)
    if (loop.is_int8 == is_int8 && (loop.isa == isa || (found == nullptr && loop.isa == Isa::scalar))) {
      found = &loop;
      if (loop.isa == isa) break;
    }
  return *found;
}

// This thread's CPU time: what other processes take does not count, waiting for memory does.
double thread_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// Units of work per second of all threads together, each doing fn(run, thread_idx, n_threads) = so many units at the
// same time as the others; the best of kRuns runs of every thread.
template <class Fn>
double best_rate(ThreadPool& pool, Fn fn) {
  std::vector<double> best(static_cast<size_t>(pool.n_threads()), 0);
  for (int run = 0; run < kRuns; ++run)
    pool.run([&](int thread_idx, int n_threads) {
      const double start = thread_seconds();
      const double n_units = fn(run, thread_idx, n_threads);
      double& rate = best[static_cast<size_t>(thread_idx)];
      rate = std::max(rate, n_units / std::max(thread_seconds() - start, 1e-9));
    });
  return std::accumulate(best.begin(), best.end(), 0.0);
}

// Eight sums in flight, so that loads and not additions set the pace.
[[gnu::noinline]] uint64_t sum_words(const uint64_t* words, int64_t begin, int64_t end) {
  uint64_t sums[8] = {};
  for (int64_t i = begin; i + 8 <= end; i += 8)
    for (int64_t k = 0; k < 8; ++k) sums[k] += words[i + k];
  uint64_t total = 0;
  for (uint64_t sum : sums) total += sum;
  return total;
}
}  // namespace

Result<DeviceLimits> measure_limits(std::string_view isa, int n_threads) {
  const std::unique_ptr<ThreadPool> pool = TRY(ThreadPool::create(n_threads));
  Buffer buffer = TRY(Buffer::allocate(kReadBytes));
  const auto n_words = static_cast<int64_t>(buffer.size() / sizeof(uint64_t));
  pool->run([&](int thread_idx, int n) {
    const WorkRange range = split_range(n_words, thread_idx, n, 8);
    std::memset(buffer.as<uint64_t>() + range.begin, 1,
                static_cast<size_t>(range.end - range.begin) * sizeof(uint64_t));
  });
  std::vector<uint64_t> sinks(static_cast<size_t>(n_threads) * 16);
  DeviceLimits limits;
  constexpr auto kSliceWords = static_cast<int64_t>(kSliceBytes / sizeof(uint64_t));
  limits.read_bytes_per_second = best_rate(*pool, [&](int run, int thread_idx, int n) {
    const WorkRange range = split_range(kSliceWords, thread_idx, n, 8);
    const int64_t slice = run * kSliceWords % n_words;  // the buffer comes round again when it has left the caches
    sinks[static_cast<size_t>(thread_idx) * 16] +=
        sum_words(buffer.as<uint64_t>(), slice + range.begin, slice + range.end);
    return static_cast<double>(range.end - range.begin) * sizeof(uint64_t);
  });
  const Isa wanted = cpu::find_isa(isa).value_or(cpu::best_isa());
  const Isa usable = cpu::isa_available(wanted) ? wanted : Isa::scalar;
  for (bool is_int8 : {true, false}) {
    const ComputeLoop& loop = find_loop(usable, is_int8);
    const double rate = best_rate(*pool, [&](int, int, int) {
      loop.run(kRounds);
      return loop.ops * kChains * static_cast<double>(kRounds);
    });
    (is_int8 ? limits.int8_ops_per_second : limits.f32_ops_per_second) = rate;
  }
  return limits;
}

}  // namespace tokamak
