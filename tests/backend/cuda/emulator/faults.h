// Failures that a test orders: what a GPU or its driver does at the worst moment.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace tokamak::cuda::emulator {

// Calls of the runtime that can fail: those that take memory (of the device, pinned, for graphs), or all.
enum class Calls : uint8_t { taking_memory, all };

// Of these calls the one behind `n_before` others answers `error`. stays: every later call does too, as on a device
// that is lost.
struct Fault {
  Calls calls = Calls::all;
  int64_t n_before = 0;
  cudaError_t error = cudaErrorMemoryAllocation;
  bool stays = false;
};
void order(const Fault& fault);
// A block may ask for so much shared memory, less than an H200 gives: GPUs of 8.6, 8.9 and 12.0 have 99 KB.
void limit_shared(size_t n_bytes);
// As in a new process: ends what was ordered, a lost device too. Whether a fault had come.
bool mend();

// Made and not given back: memory of the device and of the host, streams, events, graphs.
int64_t n_alive();

}  // namespace tokamak::cuda::emulator
