// src/backend/cuda/ptx/memory.cuh, emulated. Every address must be a multiple of the size of the access.
#pragma once

#include <cstdint>
#include <cstring>

#include "backend/cuda/emulator/block.h"

namespace tokamak::cuda::ptx {

inline uint32_t shared_address(const void* p) { return emulator::shared_address(p); }
#define TOKAMAK_DYNAMIC_SHARED(alignment, type, name) \
  [[maybe_unused]] auto* const name =                 \
      reinterpret_cast<type*>(::tokamak::cuda::emulator::dynamic_shared(alignment < 16 ? 16 : alignment))

template <class T>
T load_shared(uint32_t at) {
  T v;
  std::memcpy(&v, emulator::shared_at(at, sizeof(T), sizeof(T)), sizeof(T));
  return v;
}
inline void store_shared(uint32_t at, uint4 v) {
  std::memcpy(emulator::shared_at(at, sizeof v, sizeof v), &v, sizeof v);
}
inline uint4 load_shared_16(uint32_t at) { return load_shared<uint4>(at); }
inline uint2 load_shared_8(uint32_t at) { return load_shared<uint2>(at); }
inline uint32_t load_shared_4(uint32_t at) { return load_shared<uint32_t>(at); }
inline uint16_t load_shared_2(uint32_t at) { return load_shared<uint16_t>(at); }

template <class T>
T load_aligned(const void* p) {
  if (reinterpret_cast<uintptr_t>(p) % sizeof(T) != 0) emulator::fail("load from an address that is not aligned");
  T v;
  std::memcpy(&v, p, sizeof(T));
  return v;
}
template <bool kStream>
void load_constant(const void* p, uint32_t (&v)[4]) {
  const auto x = load_aligned<uint4>(p);
  v[0] = x.x, v[1] = x.y, v[2] = x.z, v[3] = x.w;
}
template <bool kStream>
void load_constant(const void* p, uint32_t (&v)[2]) {
  const auto x = load_aligned<uint2>(p);
  v[0] = x.x, v[1] = x.y;
}
inline uint32_t load_constant_4(const void* p) { return load_aligned<uint32_t>(p); }
inline uint16_t load_constant_2(const void* p) { return load_aligned<uint16_t>(p); }
inline uint32_t load_constant_1(const void* p) { return load_aligned<uint8_t>(p); }

}  // namespace tokamak::cuda::ptx
