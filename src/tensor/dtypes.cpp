#include "tensor/dtypes.h"

#include <algorithm>
#include <cctype>

namespace tokamak {

const DTypeRow* find_dtype(std::string_view name) {
  const auto same_letter = [](char a, char b) {
    return std::toupper(static_cast<unsigned char>(a)) == std::toupper(static_cast<unsigned char>(b));
  };
  for (const DTypeRow& row : kDTypes)
    if (std::ranges::equal(row.name, name, same_letter)) return &row;
  return nullptr;
}

}  // namespace tokamak
