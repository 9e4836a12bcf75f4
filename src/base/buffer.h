// Aligned, uninitialised memory that is freed with its owner.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/result.h"

namespace tokamak {

namespace detail {
struct UnmapBuffer {
  size_t n_bytes = 0;
  void operator()(std::byte* p) const;
};
}  // namespace detail

// addresses: nothing may be read or written; for working out how much memory something would take.
enum class Backing : uint8_t { memory, addresses };

// Page-aligned anonymous memory (zero when first touched). Large buffers ask for 2 MB pages, which make streaming
// reads 1.1 to 1.3 times faster (fewer misses of the address translation cache). Movable, not copyable.
class Buffer {
 public:
  Buffer() = default;
  // Fails with out_of_memory. n_bytes may be 0.
  static Result<Buffer> allocate(size_t n_bytes, Backing backing = Backing::memory);

  std::byte* data() { return data_.get(); }
  const std::byte* data() const { return data_.get(); }
  size_t size() const { return data_.get_deleter().n_bytes; }
  std::span<std::byte> bytes() { return {data(), size()}; }
  std::span<const std::byte> bytes() const { return {data(), size()}; }
  template <class T>
  T* as() {
    return reinterpret_cast<T*>(data());
  }
  template <class T>
  const T* as() const {
    return reinterpret_cast<const T*>(data());
  }

 private:
  std::unique_ptr<std::byte, detail::UnmapBuffer> data_;
};

}  // namespace tokamak
