// A fixed team of threads for compute steps.
//
// Goals: starting a step and crossing a barrier cost well below a microsecond while work keeps coming; an idle process
// uses no CPU; no allocation after creation. Non-goals: task queues, futures, nested runs, priorities.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string_view>
#include <thread>
#include <type_traits>
#include <vector>

#include "base/result.h"
#include "base/round_up.h"

namespace tokamak {

// CPUs this process may keep busy: the affinity mask, limited by the cgroup CPU quota (rounded down). At least 1.
int usable_cpus();

// The smallest CPU quota (in CPUs) that a cgroup v2 or v1 hierarchy mounted at `root` puts on the group named by
// `self_cgroup` (the text of /proc/self/cgroup), or nothing when unlimited or unreadable.
std::optional<double> cgroup_cpu_quota(const std::filesystem::path& root, std::string_view self_cgroup);

inline constexpr int kMaxThreads = 1024;

struct WorkRange {
  int64_t begin, end;
};

// Piece number `idx` of [0, n_items) cut into `n_pieces` contiguous pieces; borders are multiples of `align`, sizes
// differ by at most one multiple.
constexpr WorkRange split_range(int64_t n_items, int idx, int n_pieces, int64_t align = 1) {
  const int64_t n_units = div_round_up(n_items, align);
  const int64_t begin = n_units * idx / n_pieces * align;
  const int64_t end = n_units * (idx + 1) / n_pieces * align;
  return {std::min(begin, n_items), std::min(end, n_items)};
}

class ThreadPool {
 public:
  // n_threads in 1..kMaxThreads counts the caller of run(). Errors: bad_argument, out_of_memory (the system refuses a
  // thread).
  static Result<std::unique_ptr<ThreadPool>> create(int n_threads);
  ~ThreadPool();  // no run may be in progress
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int n_threads() const { return n_threads_; }

  // Calls fn(thread_idx, n_threads) once on every thread, thread 0 being the caller; returns when all are done, and
  // what they wrote is visible then. `fn` must not throw. One run at a time; not from inside a run.
  template <class Fn>
  void run(Fn&& fn) {
    using F = std::remove_reference_t<Fn>;
    static_assert(std::is_invocable_v<F&, int, int>);
    run_task([](void* context, int thread_idx, int n) { (*static_cast<F*>(context))(thread_idx, n); },
             const_cast<void*>(static_cast<const void*>(std::addressof(fn))));
  }

  // Inside a run: waits until every thread has called it as often as this one; what they wrote before is visible
  // after. Every thread of the run must make the same number of calls.
  void barrier(int thread_idx);

 private:
  using Task = void (*)(void* context, int thread_idx, int n_threads);

  // Barriers crossed by one thread, alone on its cache line (two lines: CPUs prefetch in pairs).
  struct alignas(128) Counter {
    std::atomic<uint32_t> n{0};
  };

  explicit ThreadPool(int n_threads);
  void run_task(Task task, void* context);
  void work(int thread_idx);
  bool wait_for_epoch(uint32_t seen);
  void wait_for(const Counter& counter, uint32_t target) const;
  uint32_t arrive(int thread_idx);
  void stop();

  const int n_threads_;
  const int n_spins_;  // before giving up the CPU; small with more threads than CPUs
  std::vector<Counter> arrived_;
  Counter released_;                             // barriers that thread 0 has seen complete; used by large teams
  alignas(128) std::atomic<uint32_t> epoch_{0};  // +1 per run, and once to stop
  alignas(128) std::atomic<int> n_parked_{0};
  std::atomic<bool> running_{false};
  bool stopping_ = false;  // task_, context_ and stopping_ are published by epoch_
  Task task_ = nullptr;
  void* context_ = nullptr;
  std::vector<std::thread> threads_;
};

}  // namespace tokamak
