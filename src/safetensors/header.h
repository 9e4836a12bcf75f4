// The total validator in front of everything that reads safetensors: foreign bytes in, a complete tensor directory or
// one reason out. Layout, little-endian: u64 n, then n bytes of JSON {name: {dtype, shape, data_offsets}, ...,
// "__metadata__": {text: text}}, then the data; offsets count from its start. The tensors must cover the data exactly:
// no gap, no overlap, nothing behind the last one. Source: the format's published description.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "safetensors/number_types.h"

namespace tokamak {

inline constexpr uint64_t kMaxSafetensorsHeader = 100'000'000;  // bytes; the format's own limit
inline constexpr size_t kMaxSafetensorsRank = 8;
inline constexpr size_t kMaxSafetensorsName = 1024;  // bytes

struct SafetensorsTensor {
  std::string name;
  NumberType type = NumberType::f32;
  std::vector<int64_t> shape;       // outermost first; dimensions >= 0; rank 0 is one element
  std::span<const std::byte> data;  // inside the file's bytes, any alignment
  uint32_t file = 0;                // index of its file

  int64_t n_elements() const {
    int64_t n = 1;
    for (int64_t d : shape) n *= d;
    return n;
  }
  std::string shape_text() const;  // "[64, 576]"
};

// bytes must outlive the result. Memory grows with the entries really present.
// Errors: bad_file (not this format, truncated, header too long or malformed, gaps), bad_tensor (shape, offsets,
// overlap, repeated name), unsupported (unknown dtype). Each names file and tensor.
Result<std::vector<SafetensorsTensor>> validate_safetensors(std::span<const std::byte> bytes, const std::string& name,
                                                            uint32_t file = 0);

}  // namespace tokamak
