// A fork and join for the slow ops of this backend. Ranges only divide independent outputs, so the split never shows.
#pragma once

#include <algorithm>
#include <cstdint>
#include <thread>
#include <vector>

namespace tokamak::reference {

template <class F>
void parallel_ranges(int64_t n, F body) {
  const int64_t n_threads = std::min<int64_t>(n, std::max(1u, std::thread::hardware_concurrency()));
  if (n_threads <= 1 || n < 64) return body(0, n);
  std::vector<std::jthread> threads;
  for (int64_t i = 1; i < n_threads; ++i)
    threads.emplace_back([&body, n, n_threads, i] { body(n * i / n_threads, n * (i + 1) / n_threads); });
  body(0, n / n_threads);
}

}  // namespace tokamak::reference
