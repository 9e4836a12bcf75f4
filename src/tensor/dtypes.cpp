#include "tensor/dtypes.h"

#include <algorithm>
#include <cctype>

namespace tokamak {

namespace {
bool is_named(const DTypeRow& row, std::string_view name) {
  const auto same_letter = [](char a, char b) {
    return std::toupper(static_cast<unsigned char>(a)) == std::toupper(static_cast<unsigned char>(b));
  };
  return std::ranges::equal(row.name, name, same_letter);
}
}  // namespace

const DTypeRow* find_dtype(std::string_view name) {
  for (const DTypeRow& row : kDTypes)
    if (is_named(row, name)) return &row;
  return nullptr;
}

const DTypeRow* find_cache_dtype(std::string_view name) {
  for (const DType type : kCacheDTypes)
    if (is_named(dtype_row(type), name)) return &dtype_row(type);
  return nullptr;
}

}  // namespace tokamak
