#include "base/random.h"

#include <chrono>
#include <random>

namespace tokamak {

uint64_t entropy_seed() {
  constexpr uint64_t kMask = (uint64_t{1} << 53) - 1;
  try {
    std::random_device device;
    return ((uint64_t{device()} << 32) | device()) & kMask;
  } catch (const std::exception&) {  // no entropy source: the clock still tells runs apart
    return static_cast<uint64_t>(std::chrono::system_clock::now().time_since_epoch().count()) & kMask;
  }
}

}  // namespace tokamak
