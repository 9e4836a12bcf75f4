#include "tensor/shape.h"

namespace tokamak {

std::string Shape::to_string() const {
  std::string out = "[";
  for (int i = 0; i < rank_; ++i) out += (i ? ", " : "") + std::to_string((*this)[i]);
  return out + "]";
}

}  // namespace tokamak
