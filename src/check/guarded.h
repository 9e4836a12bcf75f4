// Bytes between sentinels: a kernel that writes beyond its buffer is found, and one that computes with what it reads
// there gets NaN.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/fnv1a.h"

namespace tokamak::check {

class GuardedBytes {
 public:
  static constexpr size_t kGuard = 64;                     // bytes on each side
  static constexpr std::byte kSentinel = std::byte{0xFF};  // NaN in every float type

  GuardedBytes() = default;
  // Zeros. The address is a multiple of 32 and no more, which is all that a model file promises.
  explicit GuardedBytes(size_t n_bytes) : storage_(n_bytes + 2 * kGuard + 128, kSentinel), n_bytes_(n_bytes) {
    const auto address = reinterpret_cast<uintptr_t>(storage_.data()) + kGuard;
    begin_ = kGuard + (64 - address % 64) % 64 + 32;
    std::ranges::fill(bytes(), std::byte{0});
  }
  GuardedBytes(GuardedBytes&&) = default;
  GuardedBytes& operator=(GuardedBytes&&) = default;

  std::span<std::byte> bytes() { return {storage_.data() + begin_, n_bytes_}; }
  std::span<const std::byte> bytes() const { return {storage_.data() + begin_, n_bytes_}; }
  std::span<float> floats() { return {reinterpret_cast<float*>(bytes().data()), n_bytes_ / sizeof(float)}; }
  std::span<const float> floats() const {
    return {reinterpret_cast<const float*>(bytes().data()), n_bytes_ / sizeof(float)};
  }
  bool is_intact() const {
    const auto is_sentinel = [](std::byte b) { return b == kSentinel; };
    const std::span<const std::byte> all = storage_;
    return std::ranges::all_of(all.first(begin_), is_sentinel) &&
           std::ranges::all_of(all.subspan(begin_ + n_bytes_), is_sentinel);
  }

 private:
  std::vector<std::byte> storage_;
  size_t begin_ = 0, n_bytes_ = 0;
};

}  // namespace tokamak::check
