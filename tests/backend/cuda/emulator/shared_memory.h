// The shared memory of the block that runs, all 0xFF (NaN, -1) when a block begins.
//
// A kernel's own __shared__ arrays are thread-local variables of the program: the blocks of a launch run in one thread
// of the host that does nothing else. What a launch asks for beside them ends at a page that cannot be accessed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace tokamak::cuda::emulator {

class SharedMemory {
 public:
  explicit SharedMemory(size_t dynamic_bytes);
  ~SharedMemory();
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  void clear();
  uint8_t* dynamic(size_t align) const;  // the last place that is so aligned
  std::span<uint8_t> window() const { return {base_, size_}; }

 private:
  uint8_t* base_ = nullptr;
  size_t size_ = 0, dynamic_bytes_;
};

}  // namespace tokamak::cuda::emulator
