#include "backend/cuda/emulator/copy.h"

#include <cstring>
#include <string>

#include "backend/cuda/emulator/block.h"

namespace tokamak::cuda::emulator {

namespace {
constexpr size_t kElement = 2;

struct Map {  // what encode_map leaves in a CUtensorMap
  uint64_t magic;
  const std::byte* memory;
  uint64_t sizes[3], strides[2];
  uint32_t box[3];

  static constexpr uint64_t kMagic = 0x50414D524F534E54;
  size_t box_bytes() const { return size_t{box[0]} * box[1] * box[2] * kElement; }
};
static_assert(sizeof(Map) <= sizeof(CUtensorMap));

// Row by row; what lies outside the tensor is 0.
void copy_rows(const Map& map, std::array<int, 3> at, uint8_t* to) {
  for (uint32_t z = 0; z < map.box[2]; ++z)
    for (uint32_t y = 0; y < map.box[1]; ++y, to += map.box[0] * kElement)
      for (uint32_t x = 0; x < map.box[0]; ++x) {
        const int64_t place[3] = {at[0] + int64_t{x}, at[1] + int64_t{y}, at[2] + int64_t{z}};
        bool inside = true;
        for (int i = 0; i < 3; ++i) inside &= place[i] >= 0 && place[i] < static_cast<int64_t>(map.sizes[i]);
        const std::byte* from = map.memory + place[0] * int64_t{kElement} +
                                place[1] * static_cast<int64_t>(map.strides[0]) +
                                place[2] * static_cast<int64_t>(map.strides[1]);
        if (inside)
          std::memcpy(to + x * kElement, from, kElement);
        else
          std::memset(to + x * kElement, 0, kElement);
      }
}
}  // namespace

const void* readable(const void* p, size_t n_bytes, size_t align) {
  const auto* bytes = static_cast<const volatile uint8_t*>(p);
  if (reinterpret_cast<uintptr_t>(p) % align != 0) fail("copy from an address that is not aligned");
  for (size_t i = 0; i < n_bytes; i += 4096) (void)bytes[i];  // a fault here is this thread's
  if (n_bytes > 0) (void)bytes[n_bytes - 1];
  return p;
}

void copy_bulk(uint32_t to, const void* from, uint32_t n_bytes, uint32_t barrier) {
  if (n_bytes % 16 != 0) fail("bulk copy of " + std::to_string(n_bytes) + " bytes");
  uint8_t* target = shared_at(to, n_bytes, 16);
  readable(from, n_bytes, 16);
  copy_behind(barrier, n_bytes, [=] { std::memcpy(target, from, n_bytes); });
}

void copy_box(uint32_t to, const void* map, std::array<int, 3> at, uint32_t barrier) {
  Map m;
  std::memcpy(&m, map, sizeof m);
  if (m.magic != Map::kMagic || reinterpret_cast<uintptr_t>(map) % 64 != 0) fail("no tensor map");
  uint8_t* target = shared_at(to, m.box_bytes(), 128);
  copy_behind(barrier, static_cast<uint32_t>(m.box_bytes()), [=] { copy_rows(m, at, target); });
}

CUresult encode_map(CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank, void* memory, const cuuint64_t* sizes,
                    const cuuint64_t* strides, const cuuint32_t* box, const cuuint32_t* steps, CUtensorMapInterleave,
                    CUtensorMapSwizzle swizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill) {
  Map m{Map::kMagic, static_cast<const std::byte*>(memory), {}, {}, {}};
  bool good = type == CU_TENSOR_MAP_DATA_TYPE_FLOAT16 && rank == 3 && swizzle == CU_TENSOR_MAP_SWIZZLE_NONE &&
              reinterpret_cast<uintptr_t>(memory) % 16 == 0;
  for (size_t i = 0; i < 3; ++i) {
    m.sizes[i] = sizes[i], m.box[i] = box[i];
    good = good && box[i] >= 1 && box[i] <= 256 && steps[i] == 1 && sizes[i] >= 1 && sizes[i] <= uint64_t{1} << 32;
    if (i < 2) m.strides[i] = strides[i], good = good && strides[i] % 16 == 0 && strides[i] < uint64_t{1} << 40;
  }
  if (!good || box[0] * kElement % 16 != 0) return CUDA_ERROR_INVALID_VALUE;
  std::memset(map, 0, sizeof *map);
  std::memcpy(map, &m, sizeof m);
  return CUDA_SUCCESS;
}

}  // namespace tokamak::cuda::emulator
