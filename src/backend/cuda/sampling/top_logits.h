// The best logits of each row, so that only they leave the device.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "backend/top_logits.h"

namespace tokamak::cuda {

struct TopLogitsArgs {
  const float* logits = nullptr;  // [n_rows, n_vocab], contiguous
  int64_t n_rows = 0, n_vocab = 0;
  void* scratch = nullptr;  // top_logits_scratch(n_rows) bytes, 8-byte aligned
  // [n_rows, kTopLogits], best first, ties by lowest id; NaN and +infinity, equal among themselves, before all others.
  // May lie in pinned memory of the host.
  TopLogit* top = nullptr;
};
uint64_t top_logits_scratch(int64_t n_rows);

// Two launches; each begins while the kernel before it still runs and waits for it before it reads. The result does not
// depend on the grid. Asynchronous, can be captured.
cudaError_t launch_top_logits(const TopLogitsArgs& args, cudaStream_t stream);

}  // namespace tokamak::cuda
