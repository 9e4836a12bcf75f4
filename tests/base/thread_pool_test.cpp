#include "base/thread_pool.h"

#include <gtest/gtest.h>
#include <time.h>

#include <chrono>
#include <fstream>
#include <numeric>
#include <set>

namespace tokamak {
namespace {

std::unique_ptr<ThreadPool> make_pool(int n_threads) {
  auto pool = ThreadPool::create(n_threads);
  EXPECT_TRUE(pool.has_value());
  return std::move(*pool);
}

TEST(ThreadPool, RefusesImpossibleCounts) {
  EXPECT_EQ(ThreadPool::create(0).error().code, ErrorCode::bad_argument);
  EXPECT_EQ(ThreadPool::create(-3).error().code, ErrorCode::bad_argument);
  EXPECT_EQ(ThreadPool::create(1 << 20).error().code, ErrorCode::bad_argument);
}

TEST(ThreadPool, EveryThreadRunsOncePerRun) {
  for (int n : {1, 2, 3, 9}) {  // 9: the gather-and-release barrier, and more threads than CPUs on small machines
    auto pool = make_pool(n);
    std::vector<int> calls(static_cast<size_t>(n));
    const std::thread::id caller = std::this_thread::get_id();
    for (int round = 0; round < 200; ++round)
      pool->run([&](int idx, int n_threads) {
        EXPECT_EQ(n_threads, n);
        EXPECT_EQ(idx == 0, std::this_thread::get_id() == caller);
        ++calls[static_cast<size_t>(idx)];  // not atomic: run() must order the rounds
      });
    for (int c : calls) EXPECT_EQ(c, 200);
  }
}

TEST(ThreadPool, BarrierPublishesWrites) {
  for (int n : {1, 2, 4, 11}) {
    auto pool = make_pool(n);
    std::vector<int64_t> value(static_cast<size_t>(n)), sum(static_cast<size_t>(n));
    int wrong = 0;
    pool->run([&](int idx, int n_threads) {
      for (int64_t round = 1; round <= 100; ++round) {
        value[static_cast<size_t>(idx)] = round * (idx + 1);
        pool->barrier(idx);
        sum[static_cast<size_t>(idx)] = std::accumulate(value.begin(), value.end(), int64_t{0});
        pool->barrier(idx);
        if (idx == 0)
          for (int64_t s : sum) wrong += s != round * n_threads * (n_threads + 1) / 2;
        pool->barrier(idx);
      }
    });
    EXPECT_EQ(wrong, 0) << n << " threads";
  }
}

TEST(ThreadPool, WakesParkedThreads) {
  auto pool = make_pool(3);
  for (int round = 0; round < 3; ++round) {
    std::atomic<int> calls = 0;
    std::this_thread::sleep_for(std::chrono::milliseconds(30));  // long enough for the workers to sleep
    pool->run([&](int, int) { ++calls; });
    EXPECT_EQ(calls.load(), 3);
  }
}

TEST(ThreadPool, IdlePoolUsesNoCpu) {
  auto pool = make_pool(4);
  pool->run([](int, int) {});
  const auto cpu_seconds = [] {
    timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
  };
  std::this_thread::sleep_for(std::chrono::milliseconds(300));  // the bounded spin ends in here
  const double before = cpu_seconds();
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  EXPECT_LT(cpu_seconds() - before, 0.1);  // one spinning thread alone would use 0.3
}

TEST(ThreadPool, DestroyedWithoutARun) { make_pool(4); }

TEST(SplitRange, CoversAllOnceInOrder) {
  for (int64_t n : {0, 1, 2, 15, 16, 17, 97, 512})
    for (int pieces : {1, 2, 3, 7, 64})
      for (int64_t align : {1, 16}) {
        int64_t at = 0;
        for (int i = 0; i < pieces; ++i) {
          const WorkRange r = split_range(n, i, pieces, align);
          EXPECT_EQ(r.begin, at);
          EXPECT_GE(r.end, r.begin);
          EXPECT_TRUE(r.end == n || r.end % align == 0);
          at = r.end;
        }
        EXPECT_EQ(at, n);
      }
}

class CgroupTest : public ::testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(root_ / "a/b"); }
  void TearDown() override { std::filesystem::remove_all(root_); }
  void write(const std::string& path, std::string_view text) {
    std::filesystem::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
  }
  std::filesystem::path root_ = std::filesystem::path(::testing::TempDir()) / ("cgroup_" + std::to_string(::getpid()));
};

TEST_F(CgroupTest, Version2TakesTheTightestAncestor) {
  write("a/cpu.max", "150000 100000\n");
  write("a/b/cpu.max", "max 100000\n");
  EXPECT_EQ(cgroup_cpu_quota(root_, "0::/a/b\n"), 1.5);
  write("a/b/cpu.max", "50000 100000\n");
  EXPECT_EQ(cgroup_cpu_quota(root_, "0::/a/b\n"), 0.5);
  EXPECT_EQ(cgroup_cpu_quota(root_, "0::/a\n"), 1.5);
}

TEST_F(CgroupTest, Version1) {
  write("cpu/a/cpu.cfs_quota_us", "400000\n");
  write("cpu/a/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(cgroup_cpu_quota(root_, "5:memory:/x\n4:cpuacct,cpu:/a\n"), 4.0);
  write("cpu/a/cpu.cfs_quota_us", "-1\n");
  EXPECT_EQ(cgroup_cpu_quota(root_, "4:cpu,cpuacct:/a\n"), std::nullopt);
}

TEST_F(CgroupTest, NonsenseMeansUnlimited) {
  for (std::string_view text : {"", "max", "x y", "-5 100000", "100 0", "max 100000"}) {
    write("a/cpu.max", text);
    EXPECT_EQ(cgroup_cpu_quota(root_, "0::/a\n"), std::nullopt) << text;
  }
  EXPECT_EQ(cgroup_cpu_quota(root_, "no colons"), std::nullopt);
  EXPECT_EQ(cgroup_cpu_quota(root_ / "missing", "0::/a\n"), std::nullopt);
}

TEST(UsableCpus, IsPositive) { EXPECT_GE(usable_cpus(), 1); }

}  // namespace
}  // namespace tokamak
