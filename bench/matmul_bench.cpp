// Rates of every matmul kernel beside the limits of this machine, measured in the same process between the runs.
//   matmul_bench [--isa NAME] [--type NAME] [--reps N] [--threads N]
// One thread, thread CPU time (other processes do not count), median of the repetitions.
// With --threads: one column times 4096 x 14336 from memory, each thread a contiguous part of the panels; the time of
// a run is the CPU time of its slowest thread.
//   GOPS   2 * rows * columns * k per second; share = of the int8 dot product (or f32 FMA) rate
//   GB/s   packed weight bytes read per second at N = 1 from a matrix larger than every cache; share = of a read loop
#include <fmt/format.h>
#include <time.h>

#include <algorithm>
#include <barrier>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "backend/cpu/matmul/matmul.h"
#include "base/buffer.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace tokamak::cpu {
namespace {

constexpr int64_t kStreamBytes = int64_t{128} << 20;

double thread_seconds() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

double seconds_of(const std::function<void()>& fn) {
  const double begin = thread_seconds();
  fn();
  return thread_seconds() - begin;
}

double median(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  return v[v.size() / 2];
}

// ---- Limits: the best any kernel could do ----

struct Limits {
  std::vector<double> int8_gops, f32_gops, read_gbps;
};

#if defined(__x86_64__)
[[gnu::target("avx512f,avx512vnni"), gnu::noinline]] void int8_dots_avx512(int64_t n) {
  __m512i s[12], a = _mm512_set1_epi8(1);
#pragma GCC unroll 12
  for (auto& x : s) x = _mm512_setzero_si512();
  for (int64_t i = 0; i < n; ++i) {
#pragma GCC unroll 12
    for (auto& x : s) {
      x = _mm512_dpbusd_epi32(x, a, a);
      asm volatile("" : "+v"(x));
    }
  }
}
[[gnu::target("avx512f"), gnu::noinline]] void f32_fmas_avx512(int64_t n) {
  __m512 s[12], a = _mm512_set1_ps(0.5f);
#pragma GCC unroll 12
  for (auto& x : s) x = a;
  for (int64_t i = 0; i < n; ++i) {
#pragma GCC unroll 12
    for (auto& x : s) {
      x = _mm512_fmadd_ps(x, a, a);
      asm volatile("" : "+v"(x));
    }
  }
}
[[gnu::target("avx2"), gnu::noinline]] void int8_dots_avx2(int64_t n) {
  __m256i s[12], a = _mm256_set1_epi8(1);
#pragma GCC unroll 12
  for (auto& x : s) x = _mm256_setzero_si256();
  for (int64_t i = 0; i < n; ++i) {
#pragma GCC unroll 12
    for (auto& x : s) {
      x = _mm256_add_epi16(x, _mm256_maddubs_epi16(a, a));
      asm volatile("" : "+x"(x), "+x"(a));
    }
  }
}
[[gnu::target("avx2,fma"), gnu::noinline]] void f32_fmas_avx2(int64_t n) {
  __m256 s[12], a = _mm256_set1_ps(0.5f);
#pragma GCC unroll 12
  for (auto& x : s) x = a;
  for (int64_t i = 0; i < n; ++i) {
#pragma GCC unroll 12
    for (auto& x : s) {
      x = _mm256_fmadd_ps(x, a, a);
      asm volatile("" : "+x"(x));
    }
  }
}
#endif

// Operations per call of fn(n): 12 instructions of `ops` operations, n times.
double gops_of(void (*fn)(int64_t), double ops) {
  constexpr int64_t kN = 2'000'000;
  return 12 * ops * kN / seconds_of([&] { fn(kN); }) * 1e-9;
}

[[gnu::noinline]] uint64_t read_part(std::span<const std::byte> bytes) {
  const auto* p = reinterpret_cast<const uint64_t*>(bytes.data());
  uint64_t s[8] = {};
  for (size_t i = 0; i + 8 <= bytes.size() / 8; i += 8)
    for (size_t j = 0; j < 8; ++j) s[j] += p[i + j];
  return s[0] + s[1] + s[2] + s[3] + s[4] + s[5] + s[6] + s[7];
}

void measure_limits(Isa isa, const Buffer& stream, Limits& limits) {
#if defined(__x86_64__)
  if (isa == Isa::avx512) {
    limits.int8_gops.push_back(gops_of(int8_dots_avx512, 128));
    limits.f32_gops.push_back(gops_of(f32_fmas_avx512, 32));
  } else if (isa == Isa::avx2) {
    limits.int8_gops.push_back(gops_of(int8_dots_avx2, 64));
    limits.f32_gops.push_back(gops_of(f32_fmas_avx2, 16));
  }
#endif
  static volatile uint64_t sink;
  const double s = seconds_of([&] { sink = read_part({stream.data(), stream.size()}); });
  (void)sink;
  limits.read_gbps.push_back(static_cast<double>(stream.size()) / s * 1e-9);
}

// ---- Kernels ----

struct Shape2 {
  int64_t n_rows, k, n_cols;
};

// Offsets of the f16 scales in a block. (The two bytes at 0 of MXFP4 and NVFP4 become scales of theirs.)
std::vector<size_t> scales_at(DType dtype) {
  switch (dtype) {
    case DType::q4_1:
    case DType::q5_1:
    case DType::q4_k:
    case DType::q5_k:
      return {0, 2};
    case DType::q6_k:
      return {208};
    case DType::q2_k:
      return {80, 82};
    case DType::q3_k:
      return {108};
    case DType::tq1_0:
      return {52};
    case DType::tq2_0:
      return {64};
    default:
      return {0};
  }
}

// Random codes with scales near 0.01: one packed panel, repeated.
void fill_weights(DType dtype, int64_t n_rows, int64_t k, std::byte* out) {
  const DTypeRow& row = dtype_row(dtype);
  const size_t row_bytes = dtype_bytes(dtype, static_cast<uint64_t>(k));
  std::vector<std::byte> rows(row_bytes * kPanelRows);
  std::mt19937 random(1);
  for (std::byte& b : rows) b = static_cast<std::byte>(random() & (is_quantized(dtype) ? 255 : 0x3B));
  const uint16_t scale = 0x211F;  // 0.01 in f16
  for (size_t block = 0; is_quantized(dtype) && block < rows.size(); block += row.block_bytes)
    for (size_t at : scales_at(dtype)) std::memcpy(&rows[block + at], &scale, 2);
  pack_weights(dtype, {rows.data(), row_bytes, kPanelRows, k, 0, 1, out});
  const size_t panel = static_cast<size_t>(packed_bytes(dtype, kPanelRows, k));
  for (int64_t p = 1; p < n_panels(n_rows); ++p) std::memcpy(out + static_cast<size_t>(p) * panel, out, panel);
}

Buffer scratch_for(const GemmKernel& kernel, int64_t k) {
  return *Buffer::allocate(std::max<size_t>(64, gemm_scratch_bytes(kernel.dtype, k, false)));
}

// Seconds of one multiplication.
double time_gemm(const GemmKernel& kernel, const Shape2& shape, const Buffer& weights, const Buffer& columns,
                 Buffer& y) {
  Buffer scratch = scratch_for(kernel, shape.k);
  const GemmTask task{.weights = weights.data(),
                      .activations = columns.data(),
                      .n_rows = shape.n_rows,
                      .n_cols = shape.n_cols,
                      .k = shape.k,
                      .panel_end = n_panels(shape.n_rows),
                      .y = y.as<float>(),
                      .y_stride_elems = shape.n_rows,
                      .scratch = scratch.data()};
  const double ops = 2.0 * static_cast<double>(shape.n_rows * shape.k * shape.n_cols);
  const int n = std::max(1, static_cast<int>(1e9 / ops));
  return seconds_of([&] {
           for (int i = 0; i < n; ++i) gemm(kernel, kernel.dtype, task);
         }) /
         n;
}

struct Measured {
  double seconds, share_of_compute, share_of_read;
};

Measured measure(const GemmKernel& kernel, const Shape2& shape, int reps, const Buffer& stream, Buffer& weights) {
  const ActivationKind kind = kernel.activation;
  fill_weights(kernel.dtype, shape.n_rows, shape.k, weights.data());
  Buffer columns = *Buffer::allocate(static_cast<size_t>(activation_bytes(kind, shape.n_cols, shape.k)));
  Buffer y = *Buffer::allocate(static_cast<size_t>(shape.n_rows * shape.n_cols) * sizeof(float));
  std::vector<float> x(static_cast<size_t>(shape.n_cols * shape.k));
  std::mt19937 random(2);
  for (float& v : x) v = static_cast<float>(random() % 255) - 127.0f;
  pack_activations(kind, kernel.isa, {x.data(), shape.k, shape.n_cols, shape.k, 0, shape.n_cols, columns.data()});
  time_gemm(kernel, shape, weights, columns, y);
  Limits limits;
  std::vector<double> seconds;
  for (int i = 0; i < reps; ++i) {
    measure_limits(kernel.isa, stream, limits);
    seconds.push_back(time_gemm(kernel, shape, weights, columns, y));
  }
  const double s = median(seconds), ops = 2.0 * static_cast<double>(shape.n_rows * shape.k * shape.n_cols);
  const auto& compute = kind == ActivationKind::f32 ? limits.f32_gops : limits.int8_gops;
  const double bytes = static_cast<double>(packed_bytes(kernel.dtype, shape.n_rows, shape.k));
  return {s, compute.empty() ? 0 : ops / s * 1e-9 / median(compute), bytes / s * 1e-9 / median(limits.read_gbps)};
}

void bench_kernel(const GemmKernel& kernel, int reps, const Buffer& stream, Buffer& weights) {
  std::string line = fmt::format("{:<28}", kernel.name);
  for (const Shape2& shape : {Shape2{2048, 2048, 8}, Shape2{1536, 768, 512}, Shape2{768, 1536, 512}}) {
    const Measured m = measure(kernel, shape, reps, stream, weights);
    const double ops = 2.0 * static_cast<double>(shape.n_rows * shape.k * shape.n_cols);
    line += fmt::format(" {:6.0f} {:4.2f}  ", ops / m.seconds * 1e-9, m.share_of_compute);
  }
  const int64_t k = 2048, panel = packed_bytes(kernel.dtype, kPanelRows, k);
  const Shape2 one{kStreamBytes / panel * kPanelRows, k, 1};
  const Measured m = measure(kernel, one, reps, stream, weights);
  const double bytes = static_cast<double>(packed_bytes(kernel.dtype, one.n_rows, k));
  fmt::print("{} {:6.1f} {:4.2f}  {:6.0f}\n", line, bytes / m.seconds * 1e-9, m.share_of_read,
             2.0 * static_cast<double>(one.n_rows * k) / m.seconds * 1e-9);
}

// ---- Several threads ----

// Median over the runs of the slowest thread's seconds; work(thread, run) starts together on all threads.
double seconds_of_threads(int n_threads, int n_runs, const std::function<void(int, int)>& work) {
  std::barrier start(n_threads);
  std::vector<std::vector<double>> seconds(static_cast<size_t>(n_threads));
  std::vector<std::jthread> threads;
  for (int i = 0; i < n_threads; ++i)
    threads.emplace_back([&, i] {
      for (int run = 0; run < n_runs; ++run) {
        start.arrive_and_wait();
        seconds[static_cast<size_t>(i)].push_back(seconds_of([&] { work(i, run); }));
      }
    });
  threads.clear();
  std::vector<double> slowest(static_cast<size_t>(n_runs));
  for (size_t run = 0; run < slowest.size(); ++run)
    for (const auto& s : seconds) slowest[run] = std::max(slowest[run], s[run]);
  return median(slowest);
}

void bench_threads(const GemmKernel& kernel, int n_threads, int reps, const Buffer& stream, Buffer& weights) {
  const Shape2 shape{4096, 14336, 1};
  const auto n_bytes = static_cast<size_t>(packed_bytes(kernel.dtype, shape.n_rows, shape.k));
  const int n_copies = static_cast<int>(std::max<size_t>(1, weights.size() / n_bytes));
  for (int i = 0; i < n_copies && n_bytes <= weights.size(); ++i)
    fill_weights(kernel.dtype, shape.n_rows, shape.k, weights.data() + static_cast<size_t>(i) * n_bytes);
  Buffer columns = *Buffer::allocate(static_cast<size_t>(activation_bytes(kernel.activation, 1, shape.k)));
  const std::vector<float> x(static_cast<size_t>(shape.k), 1.0f);
  pack_activations(kernel.activation, kernel.isa, {x.data(), shape.k, 1, shape.k, 0, 1, columns.data()});
  Buffer y = *Buffer::allocate(static_cast<size_t>(shape.n_rows) * sizeof(float));
  std::vector<Buffer> scratch;
  for (int i = 0; i < n_threads; ++i) scratch.push_back(scratch_for(kernel, shape.k));
  const auto part = [&](int64_t n, int i) { return n * i / n_threads; };
  static volatile uint64_t sink;
  const double read = seconds_of_threads(n_threads, reps, [&](int i, int) {
    const auto all = static_cast<int64_t>(stream.size() / 64);
    sink = read_part({stream.data() + 64 * part(all, i), static_cast<size_t>(64 * (part(all, i + 1) - part(all, i)))});
    (void)sink;
  });
  const double seconds = seconds_of_threads(n_threads, reps * n_copies, [&](int i, int run) {
    gemm(kernel, kernel.dtype,
         {.weights = weights.data() + static_cast<size_t>(run % n_copies) * n_bytes,
          .activations = columns.data(),
          .n_rows = shape.n_rows,
          .n_cols = 1,
          .k = shape.k,
          .panel_begin = part(n_panels(shape.n_rows), i),
          .panel_end = part(n_panels(shape.n_rows), i + 1),
          .y = y.as<float>(),
          .y_stride_elems = shape.n_rows,
          .scratch = scratch[static_cast<size_t>(i)].data()});
  });
  const double limit = static_cast<double>(stream.size()) / read, rate = static_cast<double>(n_bytes) / seconds;
  fmt::print("{:<28} {:7.3f} ms {:6.1f} GB/s {:4.2f} of a read loop\n", kernel.name, seconds * 1e3, rate * 1e-9,
             rate / limit);
}

int bench(int argc, char** argv) {
  Isa isa = best_isa();
  int reps = 7, n_threads = 1;
  std::string type;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string flag = argv[i];
    if (flag == "--isa" && find_isa(argv[i + 1]))
      isa = *find_isa(argv[i + 1]);
    else if (flag == "--type")
      type = argv[i + 1];
    else if (flag == "--reps")
      reps = std::max(1, std::atoi(argv[i + 1]));
    else if (flag == "--threads")
      n_threads = std::clamp(std::atoi(argv[i + 1]), 1, 64);
    else
      return fmt::print(stderr, "unknown flag or value: {} {}\n", flag, argv[i + 1]), 2;
  }
  if (!isa_available(isa)) return fmt::print(stderr, "{} is not available here\n", isa_name(isa)), 2;
  Buffer stream = *Buffer::allocate(kStreamBytes), weights = *Buffer::allocate(kStreamBytes);
  std::memset(stream.data(), 1, stream.size());
  if (n_threads == 1)
    fmt::print("{:<28} {:<14}{:<14}{:<14}{}\n", "kernel", "N=8 GOPS share", " 1536x768x512", " 768x1536x512",
               " N=1 GB/s share  GOPS");
  for (const GemmKernel& kernel : gemm_kernels())
    if (kernel.isa == isa && (type.empty() || find_dtype(type) == &dtype_row(kernel.dtype)))
      n_threads == 1 ? bench_kernel(kernel, reps, stream, weights)
                     : bench_threads(kernel, n_threads, reps, stream, weights);
  return 0;
}

}  // namespace
}  // namespace tokamak::cpu

int main(int argc, char** argv) { return tokamak::cpu::bench(argc, argv); }
