#include "backend/cuda/emulator/matrix.h"

#include <cstring>

#include "backend/cuda/emulator/block.h"

namespace tokamak::cuda::emulator {

namespace {
constexpr uint32_t kAll = ~0u;

// Element (row, column) of an 8x8 matrix whose lanes hold `word(lane)`.
template <class Word>
uint32_t element(Word word, int row, int column) {
  return word(4 * row + column / 2) >> (16 * (column % 2)) & 0xFFFF;
}

struct Loaded {
  const uint8_t* row;
  uint32_t out[4];
};
template <bool kTransposed>
void load_together(void* const* brought) {
  const auto lane_at = [&](int lane) { return static_cast<Loaded*>(brought[lane]); };
  const auto at = [&](int i, int row, int column) {
    uint16_t x;
    std::memcpy(&x, lane_at(8 * i + row)->row + 2 * column, 2);
    return uint32_t{x};
  };
  for (int lane = 0; lane < 32; ++lane)
    for (int i = 0; i < 4; ++i) {
      const int row = lane / 4, column = lane % 4 * 2;
      lane_at(lane)->out[i] = kTransposed ? at(i, column, row) | at(i, column + 1, row) << 16
                                          : at(i, row, column) | at(i, row, column + 1) << 16;
    }
}

struct Turned {
  uint32_t x, y;
};

struct Multiplied {
  float* c;
  const uint32_t* a;
  std::array<uint32_t, 2> b;
  float (*decode)(uint32_t);
};
void multiply_together(void* const* brought) {
  const auto lane_at = [&](int lane) { return static_cast<Multiplied*>(brought[lane]); };
  const auto decode = lane_at(0)->decode;
  double a[16][16], b[8][16];  // [row][k], [column][k]
  for (int row = 0; row < 16; ++row)
    for (int k = 0; k < 16; ++k)
      a[row][k] = decode(element([&](int lane) { return lane_at(lane)->a[row / 8 + k / 8 * 2]; }, row % 8, k % 8));
  for (int column = 0; column < 8; ++column)
    for (int k = 0; k < 16; ++k)
      b[column][k] =
          decode(element([&](int lane) { return lane_at(lane)->b[static_cast<size_t>(k / 8)]; }, column, k % 8));
  for (int lane = 0; lane < 32; ++lane)
    for (int i = 0; i < 4; ++i) {
      const int row = lane / 4 + i / 2 * 8, column = lane % 4 * 2 + i % 2;
      float& c = lane_at(lane)->c[i];
      double sum = c;
      for (int k = 0; k < 16; ++k) sum += a[row][k] * b[column][k];
      c = static_cast<float>(sum);
    }
}
}  // namespace

void load_matrices(uint32_t (&out)[4], uint32_t at, bool transposed) {
  Loaded mine{shared_at(at, 16, 16), {}};
  meet_warp(kAll, {"ldmatrix", transposed ? load_together<true> : load_together<false>}, &mine);
  std::memcpy(out, mine.out, sizeof out);
}

uint32_t transpose(uint32_t x) {
  Turned mine{x, 0};
  meet_warp(kAll,
            {"movmatrix",
             [](void* const* brought) {
               const auto word = [&](int lane) { return static_cast<Turned*>(brought[lane])->x; };
               for (int lane = 0; lane < 32; ++lane) {
                 const int row = lane / 4, column = lane % 4 * 2;
                 static_cast<Turned*>(brought[lane])->y = element(word, column, row) | element(word, column + 1, row)
                                                                                           << 16;
               }
             }},
            &mine);
  return mine.y;
}

void multiply(float (&c)[4], const uint32_t (&a)[4], std::array<uint32_t, 2> b, float (*decode)(uint32_t)) {
  Multiplied mine{c, a, b, decode};
  meet_warp(kAll, {"mma", multiply_together}, &mine);
}

}  // namespace tokamak::cuda::emulator
