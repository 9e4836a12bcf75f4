// Random weights on the device, in so many copies that launches which take turns find a cold L2.
#pragma once

#include <cstdint>
#include <vector>

#include "backend/cuda/matvec/packed.h"
#include "backend/cuda/matvec/random_weights.h"
#include "base/round_up.h"
#include "cuda_bench.h"

namespace tokamak::cuda {

inline constexpr int64_t kColdWeightBytes = 400'000'000;  // of all copies: far more than an L2 holds

// Packed stacks of matrices whose rows repeat every kPatternRows.
struct ColdWeights {
  static constexpr int64_t kPatternRows = 64;
  static int64_t bytes_of_copy(DType dtype, int64_t n_matrices, int64_t n_rows, int64_t k) {
    return round_up(static_cast<int64_t>(packed_bytes(dtype, n_matrices, n_rows, k)), int64_t{256});
  }

  int64_t copy_bytes;
  int n_copies;
  std::vector<std::byte> pattern;  // one packed matrix of kPatternRows rows
  uint8_t* data;

  ColdWeights(DType dtype, int64_t n_matrices, int64_t n_rows, int64_t k, int64_t copies)
      : copy_bytes(bytes_of_copy(dtype, n_matrices, n_rows, k)),
        n_copies(static_cast<int>(copies)),
        pattern(pack(dtype, testing::random_rows(dtype, kPatternRows, k, 77), 1, kPatternRows, k)),
        data(device_alloc(static_cast<size_t>(copy_bytes * n_copies))) {
    const auto table = static_cast<int64_t>(packed_bytes(dtype, 0, 1, k)),
               body = static_cast<int64_t>(pattern.size()) - table;
    uint8_t* source = upload(pattern);
    const auto copy = [](uint8_t* to, const uint8_t* from, int64_t n_bytes) {
      check(cudaMemcpyAsync(to, from, static_cast<size_t>(n_bytes), cudaMemcpyDeviceToDevice), "copy");
    };
    copy(data, source, table);
    for (int64_t at = table; at + body <= copy_bytes; at += body) copy(data + at, source + table, body);
    for (int c = 1; c < n_copies; ++c) copy(data + c * copy_bytes, data, copy_bytes);
    check(cudaDeviceSynchronize(), "weights");
    device_free(source);
  }
  ~ColdWeights() { device_free(data); }
  ColdWeights(const ColdWeights&) = delete;

  const uint8_t* of(int launch) const { return data + launch % n_copies * copy_bytes; }
};

}  // namespace tokamak::cuda
