// The total validator in front of everything that reads GGUF: foreign bytes in, a complete description or a reason out.
// All arithmetic is checked, declared counts are held against the bytes left before anything is read, and nothing is
// allocated from a declared count: memory grows with entries really present (at most about 10 bytes per byte of file).
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "gguf/value.h"
#include "tensor/dtypes.h"
#include "tensor/shape.h"

namespace tokamak {

struct GgufTensor {
  std::string name;  // 1 to 63 bytes of UTF-8
  DType type = DType::f32;
  Shape shape;           // outermost first: reversed from the file; every dimension >= 1; rank 0 is one element
  uint64_t offset = 0;   // bytes from the start of its part file
  uint64_t n_bytes = 0;  // without padding
  std::span<const std::byte> data;  // n_bytes inside the mapping; 8-byte aligned if the file's bytes are
  uint32_t part = 0;                // index of its part file, from 0
};

// One file's validated content.
struct GgufPart {
  std::shared_ptr<const std::string> name;  // file name for messages
  uint32_t version = 0;
  uint64_t alignment = kDefaultAlignment;
  std::vector<GgufValue> values;    // in file order
  std::vector<GgufTensor> tensors;  // in file order
};

// bytes must outlive the result. Bytes behind the last tensor are ignored.
// Errors: bad_file (not GGUF, truncated, counts too large), unsupported (version, byte order, nested arrays, removed
// tensor types), bad_metadata, bad_tensor. Each names file, key or tensor, and offset.
Result<GgufPart> validate_gguf(std::span<const std::byte> bytes, std::string name, uint32_t part = 0);

// Indices of the items sorted by name(item); equal names keep their order. Sorting instead of hashing: no file can make
// it slow.
template <class Item, class Name>
std::vector<uint32_t> sorted_by_name(const std::vector<Item>& items, Name name) {
  std::vector<uint32_t> order(items.size());
  std::iota(order.begin(), order.end(), 0u);
  std::ranges::stable_sort(order, {}, [&](uint32_t i) { return std::string_view(name(items[i])); });
  return order;
}

// First item that repeats the name of an earlier one, or null. `order` as made by sorted_by_name.
template <class Item, class Name>
const Item* find_duplicate(const std::vector<Item>& items, const std::vector<uint32_t>& order, Name name) {
  for (size_t i = 1; i < order.size(); ++i)
    if (name(items[order[i - 1]]) == name(items[order[i]])) return &items[order[i]];
  return nullptr;
}

}  // namespace tokamak
