// Runs the threads of a block, one after another, in one thread of the host: each runs until it waits for others.
//
// Everything here is deterministic. A block in which all threads wait, or in which one does what a GPU does not define,
// fails with a sentence that says who and where.
#pragma once

#include <vector_types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

// Of the thread that runs. Global names, as device code has them.
extern uint3 threadIdx, blockIdx;
extern dim3 blockDim, gridDim;

namespace tokamak::cuda::emulator {

// Two orders that correct kernels cannot tell apart. Ascending: copies are done when they are begun, and products of
// tensor cores when they are waited for (memory that is given back too early has changed by then). Descending: products
// when they are begun, and copies when no thread can go on (memory that is read too early has not changed yet).
enum class Order { ascending, descending };

struct Grid {
  dim3 grid, block;
  size_t shared_bytes;
  std::function<void()> kernel;  // called once per thread
};
// Runs all blocks in turn; empty, or what went wrong.
std::string run(const Grid& grid, Order order);

// --- for kernels.
uint32_t thread_in_block();  // x first, then y, then z
inline uint32_t lane() { return thread_in_block() % 32; }
[[noreturn]] void fail(const std::string& what);
void sync_block();  // __syncthreads
void sync_some(int barrier, int n_threads);

// What threads do together: the last one that comes calls it with what all have brought, by lane, null for others.
struct Instruction {
  const char* name;
  void (*together)(void* const* brought);
};
// The threads of `lanes` of the calling warp meet at the same instruction, and go on when it is done.
void meet_warp(uint32_t lanes, const Instruction& instruction, void* bring);
// The same of the 128 threads of a warpgroup.
void meet_warpgroup(const Instruction& instruction, void* bring);

// --- shared memory: addresses are those of the window of 32 bits.
inline constexpr uint32_t kSharedWindow = 1024;  // address of its first byte
inline constexpr size_t kMostShared = 227 * 1024;
uint8_t* dynamic_shared(size_t align);
uint32_t shared_address(const void* p);
// n_bytes at an address that is a multiple of `align`.
uint8_t* shared_at(uint32_t address, size_t n_bytes, size_t align);

// --- barriers in shared memory (mbarrier).
void barrier_init(uint32_t barrier, uint32_t n_arrivals);
void barrier_arrive(uint32_t barrier);
void barrier_announce(uint32_t barrier, uint32_t n_bytes);
bool barrier_passed(uint32_t barrier, uint32_t parity);
void barrier_wait(uint32_t barrier, uint32_t parity);
// Work of n_bytes that goes on behind the thread and then counts into the barrier.
void copy_behind(uint32_t barrier, uint32_t n_bytes, std::function<void()> copy);

// --- products of the calling thread's warpgroup that go on behind it; for what is called in meet_warpgroup.
void product_behind(std::function<void()> product);
void end_product_group();
void finish_product_groups(size_t n_left);

}  // namespace tokamak::cuda::emulator
