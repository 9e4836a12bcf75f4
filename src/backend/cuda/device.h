// One GPU: what it is, its stream, and the ledger through which all of its memory is taken.
//
// Each is a backend of its own. Weights, caches and programs belong to one device each.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace tokamak::cuda {

class Device;

using Ledger = std::map<std::string, uint64_t, std::less<>>;  // bytes by what they are for

// What is said when `n_bytes` for `what` do not fit: what is needed, free, in use here and by others, and what helps.
Error shortage_error(std::string_view what, uint64_t n_bytes, uint64_t n_free, uint64_t n_total, const Ledger& ledger);

// device_failed, saying what was being done and what the driver answered.
Result<void> check_cuda(cudaError_t status, std::string_view doing);

// Memory of a device, given back to its ledger with its owner. Movable, not copyable.
class DeviceBuffer {
 public:
  DeviceBuffer() = default;
  DeviceBuffer(DeviceBuffer&& other) noexcept { swap(other); }
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept {
    swap(other);
    return *this;
  }
  ~DeviceBuffer();

  std::byte* data() const { return data_; }
  uint64_t size() const { return n_bytes_; }

 private:
  friend class Device;
  void swap(DeviceBuffer& other) noexcept;

  Device* device_ = nullptr;
  std::byte* data_ = nullptr;
  uint64_t n_bytes_ = 0;
  std::string what_;
};

// Memory of the host that the device reads and writes directly.
class PinnedBuffer {
 public:
  PinnedBuffer() = default;
  PinnedBuffer(PinnedBuffer&& other) noexcept { swap(other); }
  PinnedBuffer& operator=(PinnedBuffer&& other) noexcept {
    swap(other);
    return *this;
  }
  ~PinnedBuffer();
  // only_plan: without memory behind it. Errors: out_of_memory, device_failed.
  static Result<PinnedBuffer> allocate(uint64_t n_bytes, bool only_plan = false);

  std::byte* data() const { return data_; }
  uint64_t size() const { return n_bytes_; }

 private:
  void swap(PinnedBuffer& other) noexcept;

  std::byte* data_ = nullptr;
  uint64_t n_bytes_ = 0;
};

class Device {
 public:
  // only_plan: memory is counted against what is free now, not taken, and nothing can be run.
  // Errors: device_failed (not usable by this build, or no stream), out_of_memory (none is left for its driver).
  static Result<std::unique_ptr<Device>> open(int index, bool only_plan = false);
  // To plan for a GPU that is not here, with so much memory.
  static std::unique_ptr<Device> imagine(uint64_t n_bytes);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  int index() const { return index_; }
  cudaStream_t stream() const { return stream_; }
  const cudaDeviceProp& properties() const { return properties_; }
  std::string description() const;  // "NVIDIA H200, 132 multiprocessors, 139.8 GiB"
  bool only_plans() const { return plan_.has_value(); }

  // Makes this the calling thread's current device; needed before every call of the CUDA runtime. Errors: lost().
  Result<void> use() const;
  void enter() const {  // the same where no error can be returned
    if (index_ != kImagined) note(cudaSetDevice(index_));
  }
  // Zeroed memory, 256-byte aligned; n_bytes may be 0. Errors: out_of_memory, saying what is in use and by what.
  Result<DeviceBuffer> allocate(std::string what, uint64_t n_bytes);
  // Memory of the host beside it. Errors: out_of_memory, device_failed.
  Result<PinnedBuffer> allocate_pinned(uint64_t n_bytes) const;
  // What allocate() can still take; 0 when the driver does not say.
  uint64_t free_bytes() const;
  // Counts n_bytes that the driver has taken for `what` by itself, and keeps.
  void count(std::string_view what, uint64_t n_bytes) { ledger_[std::string(what)] += n_bytes; }
  // Waits for the stream. Errors: device_failed; then the device is lost.
  Result<void> finish(std::string_view doing);
  // For work that cannot return an error: kept, and returned by the next finish().
  void note(cudaError_t status, std::string_view doing = {}) const;
  // Why nothing more can be run on it by this process: a kernel or the device failed. Does not wait.
  std::optional<Error> lost() const;

 private:
  friend class DeviceBuffer;
  Device() = default;
  Result<void*> take(const std::string& what, uint64_t n_bytes);
  void give_back(std::byte* data, uint64_t n_bytes, std::string_view what);

  static constexpr int kImagined = -1;

  int index_ = 0;
  cudaStream_t stream_ = nullptr;
  cudaDeviceProp properties_ = {};
  struct Plan {
    uint64_t n_free, n_total, next_address;
  };
  std::optional<Plan> plan_;
  Ledger ledger_;
  mutable cudaError_t noted_ = cudaSuccess;  // the first failure
  mutable std::string noted_doing_;
};

// Every GPU that this build can use, in the driver's order; at least one. Errors: device_failed, saying whether there
// is no driver, a driver that is too old, no GPU, or none that the build has code for.
Result<std::vector<std::unique_ptr<Device>>> open_devices(bool only_plan = false);

}  // namespace tokamak::cuda
