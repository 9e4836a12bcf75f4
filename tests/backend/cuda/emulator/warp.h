// What the lanes of a warp do together.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "backend/cuda/emulator/block.h"

namespace tokamak::cuda::emulator {

inline void sync_lanes(uint32_t lanes) {
  char nothing = 0;
  meet_warp(lanes, {"__syncwarp", [](void* const*) {}}, &nothing);
}

// The x of lane `from`, which must be among `lanes`.
template <class T>
T shuffle(uint32_t lanes, T x, int from) {
  struct Brought {
    T x, y;
    int from;
    bool missing;
  } mine{x, x, from, false};
  meet_warp(lanes,
            {"a shuffle",
             [](void* const* brought) {
               for (int i = 0; i < 32; ++i)
                 if (auto* b = static_cast<Brought*>(brought[i])) {
                   const auto* other = static_cast<const Brought*>(brought[b->from]);
                   b->missing = other == nullptr;
                   if (other) b->y = other->x;
                 }
             }},
            &mine);
  if (mine.missing) fail("shuffle from lane " + std::to_string(from) + ", which does not take part");
  return mine.y;
}

// Over the lanes, ascending.
template <class T, class Combine>
T reduce(uint32_t lanes, T x, Combine) {
  meet_warp(lanes,
            {"a reduction or vote",
             [](void* const* brought) {
               T* all = nullptr;
               for (int i = 0; i < 32; ++i)
                 if (auto* b = static_cast<T*>(brought[i])) {
                   if (all) *all = Combine{}(*all, *b);
                   all = all ? all : b;
                 }
               for (int i = 0; i < 32; ++i)
                 if (auto* b = static_cast<T*>(brought[i])) *b = *all;
             }},
            &x);
  return x;
}
inline uint32_t ballot(uint32_t lanes, bool x) {
  const uint32_t mine = x ? 1u << lane() : 0;
  return reduce(lanes, mine, [](uint32_t a, uint32_t b) { return a | b; });
}

}  // namespace tokamak::cuda::emulator
