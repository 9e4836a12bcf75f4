#include "base/thread_pool.h"

#include <fmt/format.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <linux/futex.h>

#include <charconv>
#include <climits>
#include <fstream>
#include <string>
#include <system_error>

#include "base/check.h"

namespace tokamak {

namespace {

constexpr int kBusySpins = 1 << 13;  // about 0.1 ms: longer than the gap between two decode steps
constexpr int kCrowdedSpins = 1 << 5;
constexpr int kFlatBarrierThreads = 8;  // up to here every thread looks at every other one

void pause_cpu() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

static_assert(sizeof(std::atomic<uint32_t>) == sizeof(uint32_t) && std::atomic<uint32_t>::is_always_lock_free);

// Sleeps while `word` holds `value`; may return early.
void futex_wait(const std::atomic<uint32_t>& word, uint32_t value) {
  syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, value, nullptr, nullptr, 0);
}
void futex_wake_all(const std::atomic<uint32_t>& word) {
  syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}

std::optional<std::string> first_line(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::string line;
  if (!std::getline(file, line)) return std::nullopt;
  return line;
}

std::optional<double> parse_number(std::string_view text) {
  double value = 0;
  if (std::from_chars(text.data(), text.data() + text.size(), value).ec != std::errc()) return std::nullopt;
  return value;
}

// Quota of one group, in CPUs. v2: cpu.max "QUOTA PERIOD" or "max PERIOD"; v1: two files, quota -1 = unlimited.
std::optional<double> group_quota(const std::filesystem::path& group) {
  if (const auto line = first_line(group / "cpu.max")) {
    const size_t space = line->find(' ');
    if (space == std::string::npos) return std::nullopt;
    const auto quota = parse_number(std::string_view(*line).substr(0, space));
    const auto period = parse_number(std::string_view(*line).substr(space + 1));
    if (quota && period && *quota > 0 && *period > 0) return *quota / *period;
    return std::nullopt;
  }
  const auto quota_line = first_line(group / "cpu.cfs_quota_us"), period_line = first_line(group / "cpu.cfs_period_us");
  if (!quota_line || !period_line) return std::nullopt;
  const auto quota = parse_number(*quota_line), period = parse_number(*period_line);
  if (quota && period && *quota > 0 && *period > 0) return *quota / *period;
  return std::nullopt;
}

// The limits of a group and of all its ancestors apply.
void take_smallest(const std::filesystem::path& mount, std::string_view group, std::optional<double>& smallest) {
  while (!group.empty() && group.front() == '/') group.remove_prefix(1);
  for (;;) {
    const auto quota = group_quota(mount / std::filesystem::path(group));
    if (quota && (!smallest || *quota < *smallest)) smallest = quota;
    if (group.empty()) return;
    const size_t slash = group.rfind('/');
    group = slash == std::string_view::npos ? std::string_view{} : group.substr(0, slash);
  }
}

}  // namespace

std::optional<double> cgroup_cpu_quota(const std::filesystem::path& root, std::string_view self_cgroup) {
  std::optional<double> smallest;
  while (!self_cgroup.empty()) {  // lines "ID:CONTROLLERS:PATH"; v2 has ID 0 and no controllers
    const size_t end = std::min(self_cgroup.find('\n'), self_cgroup.size());
    const std::string_view line = self_cgroup.substr(0, end);
    self_cgroup.remove_prefix(std::min(end + 1, self_cgroup.size()));
    const size_t colon = line.find(':');
    const size_t colon2 = colon == std::string_view::npos ? colon : line.find(':', colon + 1);
    if (colon2 == std::string_view::npos) continue;
    const std::string_view controllers = line.substr(colon + 1, colon2 - colon - 1);
    const std::string_view group = line.substr(colon2 + 1);
    if (controllers.empty())
      take_smallest(root, group, smallest);
    else if (fmt::format(",{},", controllers).find(",cpu,") != std::string::npos)
      take_smallest(root / "cpu", group, smallest);
  }
  return smallest;
}

int usable_cpus() {
  int n_cpus = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) == 0) n_cpus = std::max(1, CPU_COUNT(&set));
  std::ifstream file("/proc/self/cgroup");
  const std::string self((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const auto quota = cgroup_cpu_quota("/sys/fs/cgroup", self);
  if (quota && *quota < n_cpus) n_cpus = std::max(1, static_cast<int>(*quota));
  return n_cpus;
}

ThreadPool::ThreadPool(int n_threads)
    : n_threads_(n_threads),
      n_spins_(n_threads > usable_cpus() ? kCrowdedSpins : kBusySpins),
      arrived_(static_cast<size_t>(n_threads)) {}

Result<std::unique_ptr<ThreadPool>> ThreadPool::create(int n_threads) {
  if (n_threads < 1 || n_threads > kMaxThreads)
    return Error{.code = ErrorCode::bad_argument,
                 .what = fmt::format("{} threads asked for", n_threads),
                 .where = "thread pool",
                 .hint = fmt::format("use 1 to {}", kMaxThreads)};
  std::unique_ptr<ThreadPool> pool(new ThreadPool(n_threads));
  try {
    pool->threads_.reserve(static_cast<size_t>(n_threads - 1));
    for (int i = 1; i < n_threads; ++i) pool->threads_.emplace_back([p = pool.get(), i] { p->work(i); });
  } catch (const std::system_error& e) {  // the destructor ends those already started
    return Error{.code = ErrorCode::out_of_memory,
                 .what = fmt::format("cannot start {} threads", n_threads),
                 .where = e.what(),
                 .hint = "use fewer threads"};
  }
  return pool;
}

ThreadPool::~ThreadPool() { stop(); }

void ThreadPool::stop() {
  CHECK(!running_.load());
  stopping_ = true;
  epoch_.fetch_add(1);
  futex_wake_all(epoch_);
  for (std::thread& t : threads_) t.join();
}

void ThreadPool::run_task(Task task, void* context) {
  CHECK(!running_.exchange(true, std::memory_order_acquire));
  if (n_threads_ > 1) {
    task_ = task;
    context_ = context;
    // Sequentially consistent on both sides: either the wake-up sees the sleeper, or the sleeper sees the new epoch.
    epoch_.fetch_add(1);
    if (n_parked_.load() > 0) futex_wake_all(epoch_);
  }
  task(context, 0, n_threads_);
  const uint32_t target = arrive(0);
  for (int i = 1; i < n_threads_; ++i) wait_for(arrived_[static_cast<size_t>(i)], target);
  running_.store(false, std::memory_order_release);
}

void ThreadPool::work(int thread_idx) {
  for (uint32_t seen = 0;; ++seen) {
    if (!wait_for_epoch(seen)) return;
    task_(context_, thread_idx, n_threads_);
    arrive(thread_idx);
  }
}

// Spins, then sleeps, until a new run begins. False: the pool stops.
bool ThreadPool::wait_for_epoch(uint32_t seen) {
  for (int i = 0; i < n_spins_ && epoch_.load(std::memory_order_acquire) == seen; ++i) pause_cpu();
  if (epoch_.load(std::memory_order_acquire) == seen) {
    n_parked_.fetch_add(1);
    while (epoch_.load() == seen) futex_wait(epoch_, seen);
    n_parked_.fetch_sub(1);
  }
  return !stopping_;
}

uint32_t ThreadPool::arrive(int thread_idx) {
  std::atomic<uint32_t>& mine = arrived_[static_cast<size_t>(thread_idx)].n;
  const uint32_t count = mine.load(std::memory_order_relaxed) + 1;
  mine.store(count, std::memory_order_release);
  return count;
}

// Counters wrap; the difference stays small.
void ThreadPool::wait_for(const Counter& counter, uint32_t target) const {
  for (int i = 0; static_cast<int32_t>(counter.n.load(std::memory_order_acquire) - target) < 0; ++i) {
    if (i < n_spins_)
      pause_cpu();
    else
      std::this_thread::yield();
  }
}

void ThreadPool::barrier(int thread_idx) {
  const uint32_t target = arrive(thread_idx);
  if (n_threads_ <= kFlatBarrierThreads) {
    for (int i = 0; i < n_threads_; ++i)
      if (i != thread_idx) wait_for(arrived_[static_cast<size_t>(i)], target);
  } else if (thread_idx == 0) {
    for (int i = 1; i < n_threads_; ++i) wait_for(arrived_[static_cast<size_t>(i)], target);
    released_.n.store(target, std::memory_order_release);
  } else {
    wait_for(released_, target);
  }
}

}  // namespace tokamak
