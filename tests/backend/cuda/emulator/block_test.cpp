// The emulator's blocks, barriers and copies: small kernels whose results are known, and faults that it must name.
#include "backend/cuda/emulator/block.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <vector>

#include "backend/cuda/emulator/copy.h"
#include "backend/cuda/emulator/warp.h"

namespace tokamak::cuda::emulator {
namespace {

using ::testing::HasSubstr;
constexpr auto kOrders = std::to_array({Order::ascending, Order::descending});

std::string run_threads(unsigned n, std::function<void()> kernel, Order order = Order::ascending,
                        size_t shared = 4096) {
  return run({1, n, shared, std::move(kernel)}, order);
}
uint32_t word_address(uint32_t i) { return shared_address(dynamic_shared(16)) + 4 * i; }
uint32_t& word(uint32_t i) { return *reinterpret_cast<uint32_t*>(shared_at(word_address(i), 4, 4)); }

TEST(EmulatorBlock, EveryThreadOfEveryBlockRunsOnce) {
  for (const Order order : kOrders) {
    std::vector<int> counts(3 * 2 * 2 * 4 * 3 * 2);
    const Grid grid{dim3(3, 2, 2), dim3(4, 3, 2), 0, [&] {
                      const unsigned block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
                      const unsigned thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
                      EXPECT_EQ(thread, thread_in_block());
                      ++counts[block * 24 + thread];
                    }};
    EXPECT_EQ(run(grid, order), "");
    EXPECT_THAT(counts, ::testing::Each(1));
  }
}

TEST(EmulatorBlock, SharedMemoryBeginsAsNaN) {
  EXPECT_EQ(run({3, 32, 64,
                 [] {
                   if (word(thread_in_block() % 16) != 0xFFFFFFFF) fail("not cleared");
                   sync_block();
                   word(thread_in_block() % 16) = 1;
                 }},
                Order::ascending),
            "");
}

TEST(EmulatorBlock, SyncSeparatesWritesFromReads) {
  for (const Order order : kOrders) {
    std::vector<uint32_t> seen(256);
    const auto kernel = [&](bool syncs) {
      return run_threads(
          256,
          [&seen, syncs] {
            const uint32_t n = thread_in_block();
            word(n) = n + 1;
            if (syncs) sync_block();
            seen[n] = word(255 - n);
          },
          order);
    };
    EXPECT_EQ(kernel(true), "");
    for (uint32_t i = 0; i < 256; ++i) EXPECT_EQ(seen[i], 256 - i);
    EXPECT_EQ(kernel(false), "");  // without it the two orders differ
    EXPECT_EQ(seen[0], order == Order::ascending ? 0xFFFFFFFF : 256);
    EXPECT_EQ(seen[255], order == Order::ascending ? 1 : 0xFFFFFFFF);
  }
}

TEST(EmulatorBlock, ThreadsThatEndedAreNotWaitedFor) {
  EXPECT_EQ(run_threads(64,
                        [] {
                          if (thread_in_block() < 32) return;
                          sync_block();
                        }),
            "");
}

TEST(EmulatorBlock, NamedBarriersCountTheirThreads) {
  for (const Order order : kOrders) {
    uint32_t sum = 0;
    EXPECT_EQ(run_threads(
                  128,
                  [&sum] {
                    const uint32_t n = thread_in_block();
                    word(n) = n;
                    sync_some(1 + static_cast<int>(n / 64), 64);
                    if (n % 64 == 0)
                      for (uint32_t i = 0; i < 64; ++i) sum += word(n + i);
                  },
                  order),
              "");
    EXPECT_EQ(sum, 127u * 128 / 2);
  }
}

TEST(EmulatorBlock, LanesMeetByTheirMask) {
  for (const Order order : kOrders) {
    std::vector<int> quads(64), all(64);
    EXPECT_EQ(run_threads(
                  64,
                  [&] {
                    const uint32_t n = thread_in_block(), quad = 15u << (n % 32 / 4 * 4);
                    quads[n] = reduce(quad, static_cast<int>(n), [](int a, int b) { return a + b; });
                    all[n] = shuffle(~0u, quads[n], static_cast<int>(31 - n % 32));
                  },
                  order),
              "");
    for (int n = 0; n < 64; ++n) {
      EXPECT_EQ(quads[static_cast<size_t>(n)], n / 4 * 16 + 6);
      EXPECT_EQ(all[static_cast<size_t>(n)], quads[static_cast<size_t>(n / 32 * 32 + 31 - n % 32)]);
    }
  }
}

// --- faults.
TEST(EmulatorFaults, DeadlockNamesWhoWaitsForWhat) {
  const std::string error = run_threads(64, [] {
    if (thread_in_block() == 0) barrier_init(word_address(0), 2);
    sync_block();
    if (thread_in_block() < 32)
      barrier_wait(word_address(0), 0);
    else
      sync_some(3, 64);
  });
  EXPECT_THAT(error, HasSubstr("every thread waits: 0 to 31 for the barrier at"));
  EXPECT_THAT(error, HasSubstr("parity 0; 32 to 63 at barrier 3"));
}
TEST(EmulatorFaults, DivergedLanes) {
  EXPECT_THAT(run_threads(32,
                          [] {
                            if (thread_in_block() < 16)
                              sync_lanes(~0u);
                            else
                              shuffle(~0u, 1, 0);
                          }),
              HasSubstr("a shuffle of lanes FFFFFFFF meets thread 0, which is at __syncwarp"));
}
TEST(EmulatorFaults, LaneThatEnded) {
  EXPECT_THAT(run_threads(32,
                          [] {
                            if (thread_in_block() > 0) sync_lanes(~0u);
                          }),
              HasSubstr("which has ended"));
}
TEST(EmulatorFaults, SharedAddresses) {
  EXPECT_THAT(run_threads(1, [] { shared_at(word_address(0) + 2, 4, 4); }), HasSubstr("no multiple of 4"));
  EXPECT_THAT(run_threads(1, [] { shared_at(word_address(1 << 20), 4, 4); }), HasSubstr("outside"));
  EXPECT_THAT(run_threads(1, [] { dynamic_shared(16)[4096] = 1; }), HasSubstr("signal 11"));
}
TEST(EmulatorFaults, Barriers) {
  EXPECT_THAT(run_threads(1, [] { barrier_arrive(word_address(0)); }), HasSubstr("was not initialised"));
  EXPECT_THAT(run_threads(1, [] { sync_some(0, 32); }), HasSubstr("1 to 15"));
}

// --- barriers with phases, and copies.
TEST(EmulatorBarrier, PhasesAlternate) {
  for (const Order order : kOrders)
    EXPECT_EQ(run_threads(
                  2,
                  [] {
                    const uint32_t barrier = word_address(0);
                    if (thread_in_block() == 0) {
                      barrier_init(barrier, 1);
                      if (barrier_passed(barrier, 0) || !barrier_passed(barrier, 1)) fail("phase 0 is under way");
                    }
                    sync_block();
                    for (uint32_t phase = 0; phase < 5; ++phase) {
                      if (thread_in_block() == 0) word(4) = phase, barrier_arrive(barrier);
                      barrier_wait(barrier, phase % 2);
                      if (word(4) != phase) fail("too early");
                      sync_block();
                    }
                  },
                  order),
              "");
}

TEST(EmulatorBarrier, CountsArrivalsAndBytes) {
  alignas(16) static std::array<uint32_t, 64> source;
  for (uint32_t i = 0; i < 64; ++i) source[i] = 100 + i;
  for (const Order order : kOrders) {
    std::vector<uint32_t> early(32), late(32);
    EXPECT_EQ(run_threads(
                  32,
                  [&] {
                    const uint32_t n = thread_in_block(), barrier = word_address(0), to = word_address(16);
                    if (n == 0) barrier_init(barrier, 1);
                    sync_block();
                    if (n == 0) {
                      barrier_announce(barrier, 256);
                      barrier_arrive(barrier);
                      for (uint32_t i = 0; i < 2; ++i) copy_bulk(to + 128 * i, source.data() + 32 * i, 128, barrier);
                    }
                    sync_block();
                    early[n] = word(16 + n);
                    barrier_wait(barrier, 0);
                    late[n] = word(16 + 32 + n);
                  },
                  order),
              "");
    // The descending order shows who does not wait.
    EXPECT_EQ(early[31], order == Order::ascending ? 131 : 0xFFFFFFFF);
    for (uint32_t i = 0; i < 32; ++i) EXPECT_EQ(late[i], 132 + i);
  }
}

TEST(EmulatorBarrier, BoxesOfATensorMap) {
  // [3 panels][5 rows][8 halves]; a box of 2 rows of one panel.
  alignas(16) static std::array<uint16_t, 3 * 5 * 8> source;
  for (uint16_t i = 0; i < source.size(); ++i) source[i] = i;
  static CUtensorMap map;
  const cuuint64_t sizes[3] = {8, 5, 3}, strides[2] = {16, 80};
  const cuuint32_t box[3] = {8, 2, 1}, steps[3] = {1, 1, 1};
  ASSERT_EQ(encode_map(&map, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 3, source.data(), sizes, strides, box, steps,
                       CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_L2_PROMOTION_NONE,
                       CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE),
            CUDA_SUCCESS);
  EXPECT_EQ(run_threads(1,
                        [] {
                          uint8_t* to = dynamic_shared(128);
                          const uint32_t at = shared_address(to), barrier = at + 1024;
                          barrier_init(barrier, 1);
                          barrier_announce(barrier, 32);
                          barrier_arrive(barrier);
                          copy_box(at, &map, {0, 4, 2}, barrier);  // its second row is outside: zeros
                          barrier_wait(barrier, 0);
                          std::array<uint16_t, 16> got;
                          std::memcpy(got.data(), to, 32);
                          for (uint16_t i = 0; i < 16; ++i)
                            if (got[i] != (i < 8 ? 2 * 40 + 4 * 8 + i : 0)) fail("element " + std::to_string(i));
                        }),
            "");
}

}  // namespace
}  // namespace tokamak::cuda::emulator
