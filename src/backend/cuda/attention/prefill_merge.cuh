// Long contexts: results over kPrefillSplitKeys keys each are merged in ascending order, as a tile goes along or, where
// each of them is an item of its own, by a kernel of its own. The bits are the same.
#pragma once

#include "backend/cuda/attention/prefill_rows.cuh"

namespace tokamak::cuda::prefill {

// The running softmax of a row over earlier keys, and what makes the sums of both comparable.
struct Merged {
  float largest = -INFINITY, total = 0;

  struct Factors {
    float earlier, later;
  };
  // Takes the next keys in. Keys of which the row sees nothing (-infinity, 0) change nothing.
  __device__ Factors take(float next_largest, float next_total) {
    const float most = fmaxf(largest, next_largest), base = most == -INFINITY ? 0 : most;
    const Factors f{ptx::exp2_fast(largest - base), ptx::exp2_fast(next_largest - base)};
    largest = most;
    total = fmaf(total, f.earlier, next_total * f.later);
    return f;
  }
};
__device__ inline float merged_sum(float earlier, float later, const Merged::Factors& f) {
  return fmaf(earlier, f.earlier, later * f.later);
}

// One row's result over the keys of item `part`: its sums, largest and total.
__device__ inline float* partial_of(const PrefillAttentionArgs& a, int64_t token, int head, int part) {
  return a.partials + ((token * a.n_head + head) * a.n_parts + part) * (a.dv + 2);
}

}  // namespace tokamak::cuda::prefill
