// Shapes are written outermost first; the last dimension is contiguous: [n_tokens, n_embd].
// (GGUF lists dimensions the other way round; gguf/ reverses them once.)
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <string>

#include "base/check.h"

namespace tokamak {

inline constexpr int kMaxDims = 4;

class Shape {
 public:
  constexpr Shape() = default;
  constexpr Shape(std::initializer_list<int64_t> dims) {
    CHECK(dims.size() <= kMaxDims);
    for (int64_t d : dims) dims_[static_cast<size_t>(rank_++)] = d;
  }

  constexpr int rank() const { return rank_; }
  // Dimension i from the outside; negative i counts from the inside: shape[-1] is the contiguous one.
  constexpr int64_t operator[](int i) const { return dims_[static_cast<size_t>(i < 0 ? rank_ + i : i)]; }
  constexpr void set(int i, int64_t value) { dims_[static_cast<size_t>(i < 0 ? rank_ + i : i)] = value; }
  constexpr void push_inner(int64_t value) {
    CHECK(rank_ < kMaxDims);
    dims_[static_cast<size_t>(rank_++)] = value;
  }

  constexpr int64_t n_elements() const {  // 1 for rank 0
    int64_t n = 1;
    for (int i = 0; i < rank_; ++i) n *= dims_[static_cast<size_t>(i)];
    return n;
  }
  constexpr int64_t row_elems() const { return rank_ == 0 ? 1 : (*this)[-1]; }
  constexpr int64_t n_rows() const {  // product of all dimensions but the last
    int64_t n = 1;
    for (int i = 0; i + 1 < rank_; ++i) n *= dims_[static_cast<size_t>(i)];
    return n;
  }
  friend constexpr bool operator==(const Shape&, const Shape&) = default;

  std::string to_string() const;  // "[64, 576]"

 private:
  std::array<int64_t, kMaxDims> dims_{};  // unused entries stay 0 so that == compares all
  int rank_ = 0;
};

}  // namespace tokamak
