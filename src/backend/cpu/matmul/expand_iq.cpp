// Expands panels of the codebook types: grid points by table, 16 codes of four rows at a time, signs by xor and
// subtract, then a transposition. Vector types of the compiler: the same code is good on x86-64 and ARM.
// File blocks: quant/blocks.h; values: quant/iq.cpp; expanded chunks: formats.h.
#include "backend/cpu/matmul/pack.h"
#include "base/half.h"
#include "quant/blocks.h"
#include "quant/iq_tables.h"

namespace tokamak::cpu {
namespace {

using Bytes16 = uint8_t __attribute__((vector_size(16)));
using Dwords4 = uint32_t __attribute__((vector_size(16)));
using Qwords2 = uint64_t __attribute__((vector_size(16)));

// A point of 8 elements as bytes 128 + value; fn(code) is the value.
template <int kBitsPerCode, class T, size_t n, class Value>
std::array<T, n> widen_grid(const std::array<uint16_t, n>& grid, Value value) {
  std::array<T, n> points{};
  for (size_t i = 0; i < n; ++i)
    for (unsigned j = 0; j < sizeof(T); ++j) {
      const unsigned code = (grid[i] >> (kBitsPerCode * j)) & ((1u << kBitsPerCode) - 1);
      points[i] |= static_cast<T>(static_cast<uint8_t>(128 + value(code))) << (8 * j);
    }
  return points;
}
int iq2_value(unsigned code) { return kIq2Values[code]; }

// Byte j is 255 where bit j of the index is set.
std::array<uint64_t, 256> make_sign_masks() {
  std::array<uint64_t, 256> masks{};
  for (size_t i = 0; i < 256; ++i)
    for (size_t j = 0; j < 8; ++j)
      if ((i >> j) & 1) masks[i] |= uint64_t{255} << (8 * j);
  return masks;
}

// Built on first use (55 KB together with the grids), read-only afterwards.
struct Tables {
  std::array<uint64_t, 256> signs = make_sign_masks();
  std::array<uint64_t, 128> even_signs{};
  std::array<uint64_t, 256> iq2_xxs = widen_grid<2, uint64_t>(kIq2XxsGrid, iq2_value);
  std::array<uint64_t, 512> iq2_xs = widen_grid<2, uint64_t>(kIq2XsGrid, iq2_value);
  std::array<uint64_t, 1024> iq2_s = widen_grid<2, uint64_t>(kIq2SGrid, iq2_value);
  std::array<uint32_t, 256> iq3_xxs =
      widen_grid<3, uint32_t>(kIq3XxsGrid, [](unsigned code) { return int{kIq3XxsValues[code]}; });
  std::array<uint32_t, 512> iq3_s =
      widen_grid<3, uint32_t>(kIq3SGrid, [](unsigned code) { return int{kIq3SValues[code]}; });
  std::array<uint64_t, 2048> iq1 =  // 8 (code - 1); the shift of +-1/8 is added later
      widen_grid<2, uint64_t>(kIq1Grid, [](unsigned code) { return 8 * (static_cast<int>(code) - 1); });

  Tables() {
    for (unsigned i = 0; i < 128; ++i) even_signs[i] = signs[eight_signs(i)];
  }
};
const Tables& tables() {
  static const Tables t;
  return t;
}

unsigned nibble_of(const uint8_t* packed, int i) { return (packed[i / 2] >> (4 * (i % 2))) & 15u; }
// d times an odd number of eighths: exact, as is every other form of it.
float odd_scale(float d, unsigned code) {
  static constexpr float kOddEighths[16] = {0.125f, 0.375f, 0.625f, 0.875f, 1.125f, 1.375f, 1.625f, 1.875f,
                                            2.125f, 2.375f, 2.625f, 2.875f, 3.125f, 3.375f, 3.625f, 3.875f};
  return d * kOddEighths[code];
}
uint32_t load_u32(const void* p) { return cpu::load_u32(static_cast<const std::byte*>(p)); }

Bytes16 join(uint64_t first, uint64_t second) { return (Bytes16)Qwords2{first, second}; }
Bytes16 join(uint32_t a, uint32_t b, uint32_t c, uint32_t d) { return (Bytes16)Dwords4{a, b, c, d}; }
// 128 + code -> 128 - code in the bytes where `negative` is 255.
Bytes16 with_signs(Bytes16 codes, Bytes16 negative) { return (codes ^ negative) - negative; }

// Per type: scale(i) of the i-th run of 32 / kScales elements; codes(i), 128 + the codes of elements 16i .. 16i + 15.
struct ExpandIQ2_XXS {
  static constexpr int kScales = 1;
  using Block = BlockIQ2_XXS;
  const Tables& t;
  const Block& block;
  float d = f16_to_f32(block.d);

  uint32_t signs_and_scale(int g) const { return load_u32(block.qs + 4 * g + 2); }
  float scale(int i) const { return odd_scale(d, signs_and_scale(i) >> 28); }
  Bytes16 codes(int i) const {
    const uint32_t indices = block.qs[4 * (i / 2) + i % 2], signs = signs_and_scale(i / 2) >> (14 * (i % 2));
    return with_signs(join(t.iq2_xxs[indices & 255], t.iq2_xxs[indices >> 8]),
                      join(t.even_signs[signs & 127], t.even_signs[(signs >> 7) & 127]));
  }
};

struct ExpandIQ2_XS {
  static constexpr int kScales = 2;
  using Block = BlockIQ2_XS;
  const Tables& t;
  const Block& block;
  float d = f16_to_f32(block.d);

  float scale(int i) const { return odd_scale(d, nibble_of(block.scales, i)); }
  Bytes16 codes(int i) const {
    const unsigned first = block.qs[2 * i], second = block.qs[2 * i + 1];
    return with_signs(join(t.iq2_xs[first & 511], t.iq2_xs[second & 511]),
                      join(t.even_signs[first >> 9], t.even_signs[second >> 9]));
  }
};

struct ExpandIQ2_S {
  static constexpr int kScales = 2;
  using Block = BlockIQ2_S;
  const Tables& t;
  const Block& block;
  float d = f16_to_f32(block.d);

  float scale(int i) const { return odd_scale(d, nibble_of(block.scales, i)); }
  Bytes16 codes(int i) const {
    const unsigned high = nibble_of(block.qh, i) << 8;
    return with_signs(join(t.iq2_s[block.qs[2 * i] | (high & 768)], t.iq2_s[block.qs[2 * i + 1] | (high >> 2 & 768)]),
                      join(t.signs[block.signs[2 * i]], t.signs[block.signs[2 * i + 1]]));
  }
};

struct ExpandIQ3_XXS {
  static constexpr int kScales = 1;
  using Block = BlockIQ3_XXS;
  const Tables& t;
  const Block& block;
  float d = f16_to_f32(block.d);

  float scale(int i) const { return 2.0f * odd_scale(d, load_u32(block.scales + 4 * i) >> 28); }
  Bytes16 codes(int i) const {
    const uint8_t* q = block.qs + 4 * i;
    const uint32_t signs = load_u32(block.scales + 4 * (i / 2)) >> (14 * (i % 2));
    return with_signs(join(t.iq3_xxs[q[0]], t.iq3_xxs[q[1]], t.iq3_xxs[q[2]], t.iq3_xxs[q[3]]),
                      join(t.even_signs[signs & 127], t.even_signs[(signs >> 7) & 127]));
  }
};

struct ExpandIQ3_S {
  static constexpr int kScales = 1;
  using Block = BlockIQ3_S;
  const Tables& t;
  const Block& block;
  float d = f16_to_f32(block.d);

  float scale(int i) const { return 8.0f * odd_scale(d, nibble_of(block.scales, i)); }
  Bytes16 codes(int i) const {
    const uint8_t* q = block.qs + 4 * i;
    const unsigned high = nibble_of(block.qh, i) << 8;
    return with_signs(join(t.iq3_s[q[0] | (high & 256)], t.iq3_s[q[1] | (high >> 1 & 256)],
                           t.iq3_s[q[2] | (high >> 2 & 256)], t.iq3_s[q[3] | (high >> 3 & 256)]),
                      join(t.signs[block.signs[2 * i]], t.signs[block.signs[2 * i + 1]]));
  }
};

// The codes of both IQ1 types are 8 (point + shift), their scales an eighth of d times an odd number.
constexpr uint64_t kPlus = 0x0101010101010101, kMinus = 0xFFFFFFFFFFFFFFFF;  // shift +-1/8

struct ExpandIQ1_S {
  static constexpr int kScales = 1;
  using Block = BlockIQ1_S;
  const Tables& t;
  const Block& block;
  float d = f16_to_f32(block.d);

  float scale(int i) const { return odd_scale(d, (block.qh[i] >> 12) & 7); }
  Bytes16 codes(int i) const {
    const unsigned word = block.qh[i / 2], high = word >> (6 * (i % 2));
    const uint64_t shift = word & 0x8000 ? kMinus : kPlus;
    return join(t.iq1[block.qs[2 * i] | (high & 7) << 8], t.iq1[block.qs[2 * i + 1] | (high >> 3 & 7) << 8]) +
           join(shift, shift);
  }
};

struct ExpandIQ1_M {
  static constexpr int kScales = 2;
  using Block = BlockIQ1_M;
  const Tables& t;
  const Block& block;
  float d = f16_to_f32(super_scale(block));

  static uint16_t super_scale(const Block& block) {  // the top nibbles of the scale words
    unsigned bits = 0;
    for (int i = 0; i < 4; ++i) bits |= static_cast<unsigned>(block.scales[i] >> 12) << (4 * i);
    return static_cast<uint16_t>(bits);
  }
  float scale(int i) const { return odd_scale(d, (block.scales[i / 4] >> (3 * (i % 4))) & 7); }
  Bytes16 codes(int i) const {
    const unsigned high = block.qh[i];  // per 8 elements: three bits of the index, the sign of the shift
    return join(t.iq1[block.qs[2 * i] | (high & 7) << 8], t.iq1[block.qs[2 * i + 1] | (high >> 4 & 7) << 8]) +
           join(high & 8 ? kMinus : kPlus, high & 128 ? kMinus : kPlus);
  }
};

// 16 codes of four rows -> their four dwords of V[0..3], which lie 64 bytes apart.
void store_transposed(std::byte* out, Bytes16 a, Bytes16 b, Bytes16 c, Bytes16 d) {
  const auto ab_low = __builtin_shufflevector((Dwords4)a, (Dwords4)b, 0, 4, 1, 5);
  const auto ab_high = __builtin_shufflevector((Dwords4)a, (Dwords4)b, 2, 6, 3, 7);
  const auto cd_low = __builtin_shufflevector((Dwords4)c, (Dwords4)d, 0, 4, 1, 5);
  const auto cd_high = __builtin_shufflevector((Dwords4)c, (Dwords4)d, 2, 6, 3, 7);
  const Qwords2 quads[4] = {__builtin_shufflevector((Qwords2)ab_low, (Qwords2)cd_low, 0, 2),
                            __builtin_shufflevector((Qwords2)ab_low, (Qwords2)cd_low, 1, 3),
                            __builtin_shufflevector((Qwords2)ab_high, (Qwords2)cd_high, 0, 2),
                            __builtin_shufflevector((Qwords2)ab_high, (Qwords2)cd_high, 1, 3)};
  for (int i = 0; i < 4; ++i) std::memcpy(out + 64 * i, &quads[i], sizeof quads[i]);
}

// One block of each of four rows -> their 16 bytes of every vector of 8 chunks.
template <class Type>
void expand_four(const Tables& t, const typename Type::Block (&blocks)[4], std::byte* out) {
  constexpr int kChunk = 64 * Type::kScales + 512;
  const Type rows[4] = {{t, blocks[0]}, {t, blocks[1]}, {t, blocks[2]}, {t, blocks[3]}};
  for (int i = 0; i < 8 * Type::kScales; ++i)
    for (int r = 0; r < 4; ++r) {
      const float scale = rows[r].scale(i);
      std::memcpy(out + i / Type::kScales * kChunk + i % Type::kScales * 64 + 4 * r, &scale, sizeof scale);
    }
#pragma GCC unroll 2
  for (int i = 0; i < 16; ++i)
    store_transposed(out + i / 2 * kChunk + 64 * Type::kScales + i % 2 * 256, rows[0].codes(i), rows[1].codes(i),
                     rows[2].codes(i), rows[3].codes(i));
}

// Rows past the last are blocks of zeros: their scales are zero.
template <class Type>
void expand(const ExpandTask& task) {
  using Block = typename Type::Block;
  constexpr int kChunks = 8 * (64 * Type::kScales + 512);  // bytes of a block of 16 rows
  const Tables& t = tables();
  for (int64_t b = 0; b < task.k / 256; ++b)
    for (int first = 0; first < kPanelRows; first += 4) {
      const std::byte* rows = task.rows + first * task.row_bytes + b * static_cast<int64_t>(sizeof(Block));
      Block blocks[4];
      for (int r = 0; r < 4; ++r)
        blocks[r] = first + r < task.n_rows ? load_block<Block>(rows + r * task.row_bytes) : Block{};
      expand_four<Type>(t, blocks, task.out + b * kChunks + 4 * first);
    }
}

}  // namespace

void expand_iq2_xxs(const ExpandTask& task) { expand<ExpandIQ2_XXS>(task); }
void expand_iq2_xs(const ExpandTask& task) { expand<ExpandIQ2_XS>(task); }
void expand_iq2_s(const ExpandTask& task) { expand<ExpandIQ2_S>(task); }
void expand_iq3_xxs(const ExpandTask& task) { expand<ExpandIQ3_XXS>(task); }
void expand_iq3_s(const ExpandTask& task) { expand<ExpandIQ3_S>(task); }
void expand_iq1_s(const ExpandTask& task) { expand<ExpandIQ1_S>(task); }
void expand_iq1_m(const ExpandTask& task) { expand<ExpandIQ1_M>(task); }

}  // namespace tokamak::cpu
