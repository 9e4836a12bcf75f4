// Copies into shared memory that go on behind the thread, and tensor maps.
#pragma once

#include <cuda.h>

#include <array>
#include <cstddef>
#include <cstdint>

namespace tokamak::cuda::emulator {

// p itself; fails where its bytes cannot be read or p is no multiple of `align`.
const void* readable(const void* p, size_t n_bytes, size_t align);
void copy_bulk(uint32_t to, const void* from, uint32_t n_bytes, uint32_t barrier);
// at: coordinates, the one that lies along memory first.
void copy_box(uint32_t to, const void* map, std::array<int, 3> at, uint32_t barrier);
// The driver's cuTensorMapEncodeTiled for maps of three dimensions of two-byte elements, without swizzle.
CUresult encode_map(CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank, void* memory, const cuuint64_t* sizes,
                    const cuuint64_t* strides, const cuuint32_t* box, const cuuint32_t* steps,
                    CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle, CUtensorMapL2promotion promotion,
                    CUtensorMapFloatOOBfill fill);

}  // namespace tokamak::cuda::emulator
