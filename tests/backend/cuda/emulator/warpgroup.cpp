#include "backend/cuda/emulator/warpgroup.h"

#include <array>
#include <cstring>

#include "backend/cuda/emulator/block.h"
#include "backend/cuda/emulator/number.h"

namespace tokamak::cuda::emulator {

namespace {
constexpr uint32_t kPanel = 128;  // bytes of a row
constexpr size_t kThreads = 128, kRows = 64, kDepth = 16, kMostColumns = 256;

// What a thread brings to a product.
struct Part {
  float* sums;
  uint32_t a[4];
  uint64_t a_at;  // where there are no registers
  bool a_is_shared;
  int n;
  Operand b;
  bool adds;
};
using Parts = std::array<Part, kThreads>;

// Element (row, k) of a, as the warps' registers hold it.
float from_registers(const Parts& parts, size_t row, size_t k) {
  const size_t thread = row / 16 * 32 + row % 8 * 4 + k % 8 / 2;
  return half_to_float(parts[thread].a[row % 16 / 8 + k / 8 * 2] >> (16 * (k % 2)) & 0xFFFF);
}

void multiply(const Parts& parts) {
  const Part& all = parts[0];
  const auto n = static_cast<size_t>(all.n);
  static double b[kDepth][kMostColumns], sums[kMostColumns];
  for (size_t k = 0; k < kDepth; ++k)
    for (size_t column = 0; column < n; ++column)
      b[k][column] = all.b.at(static_cast<uint32_t>(column), static_cast<uint32_t>(k));
  for (size_t row = 0; row < kRows; ++row) {
    const auto place = [&](size_t column) -> float& {
      const size_t thread = row / 16 * 32 + row % 8 * 4 + column % 8 / 2;
      return parts[thread].sums[column / 8 * 4 + row % 16 / 8 * 2 + column % 2];
    };
    for (size_t column = 0; column < n; ++column) sums[column] = all.adds ? place(column) : 0.0;
    for (size_t k = 0; k < kDepth; ++k) {
      const double a = all.a_is_shared
                           ? Operand{all.a_at, false}.at(static_cast<uint32_t>(row), static_cast<uint32_t>(k))
                           : from_registers(parts, row, k);
      for (size_t column = 0; column < n; ++column) sums[column] += a * b[k][column];
    }
    for (size_t column = 0; column < n; ++column) place(column) = static_cast<float>(sums[column]);
  }
}

void begin(const Part& part) {
  Part mine = part;
  meet_warpgroup({"wgmma",
                  [](void* const* brought) {
                    Parts parts;
                    for (size_t i = 0; i < kThreads; ++i) parts[i] = *static_cast<const Part*>(brought[i]);
                    product_behind([parts] { multiply(parts); });
                  }},
                 &mine);
}
}  // namespace

void sync_warpgroup() {
  char nothing = 0;
  meet_warpgroup({"an instruction of a warpgroup", [](void* const*) {}}, &nothing);
}

// Fields of a descriptor, in units of 16 bytes: start (bits 0 to 13), leading and stride offsets (16 to 29, 32 to 45);
// base offset (49 to 51), swizzle (62 and 63; 1 is that of 128 bytes). Eight rows of 128 bytes are a unit; the swizzle
// takes bits of the address itself: chunk ^= row.
float Operand::at(uint32_t n, uint32_t k) const {
  const auto field = [&](int shift, int bits) {
    return static_cast<uint32_t>(descriptor >> shift & ((uint64_t{1} << bits) - 1));
  };
  const uint32_t start = field(0, 14) * 16, leading = field(16, 14) * 16, stride = field(32, 14) * 16;
  if (field(62, 2) != 1 || field(49, 3) != 0) fail("an operand without the 128-byte swizzle");
  const uint32_t along = transposed ? n : k, across = transposed ? k : n;
  uint32_t address = start + across / 8 * stride + across % 8 * kPanel + along % 64 * 2;
  if (transposed) address += along / 64 * leading;
  address ^= (address / kPanel % 8) * 16;
  uint16_t half;
  std::memcpy(&half, shared_at(address, 2, 2), 2);
  return half_to_float(half);
}

void multiply_registers(float* sums, int n, const uint32_t (&a)[4], Operand b, bool adds) {
  begin({sums, {a[0], a[1], a[2], a[3]}, 0, false, n, b, adds});
}
void multiply_shared(float* sums, int n, uint64_t a, Operand b, bool adds) { begin({sums, {}, a, true, n, b, adds}); }

void products_end() {
  char nothing = 0;
  meet_warpgroup({"wgmma.commit_group", [](void* const*) { end_product_group(); }}, &nothing);
}
void products_wait(size_t n_left) {
  size_t n = n_left;
  meet_warpgroup({"wgmma.wait_group",
                  [](void* const* brought) { finish_product_groups(*static_cast<const size_t*>(brought[0])); }},
                 &n);
}

}  // namespace tokamak::cuda::emulator
