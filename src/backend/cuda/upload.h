// The way of weights to the device: pieces are made by all cores in pinned memory while the pieces before travel.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "backend/cuda/device.h"
#include "backend/cuda/weight_image.h"
#include "base/thread_pool.h"

namespace tokamak::cuda {

class Uploader {
 public:
  // Of an image of n_bytes at `to`. Errors: out_of_memory, device_failed.
  static Result<std::unique_ptr<Uploader>> create(Device& device, std::byte* to, uint64_t n_bytes);
  ~Uploader();  // waits for what travels
  Uploader(const Uploader&) = delete;
  Uploader& operator=(const Uploader&) = delete;

  // In ascending order of offsets; bytes between two pieces become zero. Made when many have come together.
  // Errors: device_failed, out_of_memory (of the host, for a piece that is larger than all before).
  Result<void> add(ImagePiece piece);
  // After this everything added was made: the sources are no longer read. Errors: device_failed.
  Result<void> flush();
  // Everything is on the device. Errors: device_failed.
  Result<void> finish();

  uint64_t n_flushed() const { return n_flushed_; }  // how often pieces were made so far

 private:
  struct Slot {
    PinnedBuffer memory;
    cudaEvent_t copied = nullptr;
  };
  Uploader(Device& device, std::byte* to) : device_(device), to_(to) {}
  Result<void> reserve(uint64_t n_bytes);
  void make(std::byte* out);

  Device& device_;
  std::byte* to_;
  uint64_t slot_bytes_ = 0, n_flushed_ = 0;
  std::array<Slot, 2> slots_;
  std::unique_ptr<ThreadPool> pool_;
  std::vector<ImagePiece> pieces_;
};

}  // namespace tokamak::cuda
