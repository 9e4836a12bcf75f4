// Device arrays for tests: guarded by poison on both sides.
#pragma once

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <vector>

namespace tokamak::cuda {

inline bool has_device() {
  int n = 0;
  return cudaGetDeviceCount(&n) == cudaSuccess && n > 0;
}
// Whether it is the emulator (tests/backend/cuda/emulator/): thousands of times slower than a GPU.
inline bool is_emulated() {
  cudaDeviceProp properties;
  return cudaGetDeviceProperties(&properties, 0) == cudaSuccess && std::strcmp(properties.name, "emulator") == 0;
}
// The cases that a test takes: on the emulator fewer.
template <class T>
std::vector<T> choose(std::vector<T> cases, std::vector<T> emulated) {
  return is_emulated() ? emulated : cases;
}
#define REQUIRE_DEVICE() \
  if (!has_device()) GTEST_SKIP() << "no CUDA device"

// Bytes on the device between two zones of 0xFF (NaN as float, -1 as integer); itself 0xFF until written.
class DeviceBytes {
 public:
  explicit DeviceBytes(size_t n_bytes) : n_bytes_(n_bytes) {
    EXPECT_EQ(cudaMalloc(&base_, n_bytes + 2 * kGuard), cudaSuccess);
    EXPECT_EQ(cudaMemset(base_, 0xFF, n_bytes + 2 * kGuard), cudaSuccess);
  }
  template <class T>
  explicit DeviceBytes(const std::vector<T>& values) : DeviceBytes(values.size() * sizeof(T)) {
    EXPECT_EQ(cudaMemcpy(data(), values.data(), n_bytes_, cudaMemcpyHostToDevice), cudaSuccess);
  }
  ~DeviceBytes() { cudaFree(base_); }
  DeviceBytes(const DeviceBytes&) = delete;
  DeviceBytes& operator=(const DeviceBytes&) = delete;

  std::byte* data() { return static_cast<std::byte*>(base_) + kGuard; }
  template <class T>
  T* as() {
    return reinterpret_cast<T*>(data());
  }
  // The contents, after everything enqueued; fails when a guard was written.
  template <class T>
  std::vector<T> read() {
    std::vector<std::byte> all(n_bytes_ + 2 * kGuard);
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    EXPECT_EQ(cudaMemcpy(all.data(), base_, all.size(), cudaMemcpyDeviceToHost), cudaSuccess);
    for (size_t i = 0; i < kGuard; ++i)
      if (all[i] != std::byte{0xFF} || all[kGuard + n_bytes_ + i] != std::byte{0xFF}) {
        ADD_FAILURE() << "written outside: byte " << i << " of a guard";
        break;
      }
    std::vector<T> values(n_bytes_ / sizeof(T));
    std::memcpy(values.data(), all.data() + kGuard, n_bytes_);
    return values;
  }

 private:
  static constexpr size_t kGuard = 4096;
  void* base_ = nullptr;
  size_t n_bytes_;
};

}  // namespace tokamak::cuda
