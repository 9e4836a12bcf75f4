// One model on several devices: a backend that divides every graph between child backends.
//
// Each child compiles its pieces as if they were whole graphs; values pass from piece to piece through the host's
// memory. Where everything fits on one child, that child does everything and nothing is in between.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "backend/split/placement.h"

namespace tokamak {

namespace split {
struct Child {
  std::string device;  // for people: "GPU", "CPU"
  std::unique_ptr<Backend> backend;
};

// Of each device, left to the driver, to graphs of launches, partial results of attention and what else runs there.
inline constexpr uint64_t kReserveBytes = uint64_t{512} << 20;

struct SplitOptions {
  PlacementOptions placement;
  uint64_t max_bytes = 0;       // of memory on each device; 0: what is free there, less kReserveBytes
  bool allow_fallback = false;  // a node that a child has no kernel for runs on one behind it in the list
};
}  // namespace split

// Children with the fastest first; the last is the host, the others tell free_bytes(). Its name is that of the first.
// load() decides what lies where, so it comes before make_kv() and compile(). Its graph shows what room caches and
// intermediate values need: that of the largest step. Errors of load() besides those of the children: out_of_memory
// (what was asked for does not fit).
std::unique_ptr<Backend> make_split_backend(std::vector<split::Child> children, split::SplitOptions options);

}  // namespace tokamak
