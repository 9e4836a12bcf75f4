// Packers of the types of types_grid.h.
#include "backend/cuda/matvec/pack_types.h"
#include "backend/cuda/matvec/types_grid.h"
#include "quant/iq_tables.h"

namespace tokamak::cuda {

namespace {

uint32_t nibble_at(const uint8_t* packed, int i) { return packed[i / 2] >> (4 * (i % 2)) & 15u; }
uint32_t load_u32(const void* bytes) {
  uint32_t word;
  std::memcpy(&word, bytes, sizeof word);
  return word;
}

// signs(j), j = 0..31 -> the order of types_grid.h. With 28 stored signs the spare places stay 0.
template <class Sign>
uint32_t sign_word(Sign&& sign) {
  uint32_t word = 0;
  for (int j = 0; j < 32; ++j) word |= (sign(j) & 1u) << (8 * (j % 4) + 7 - j / 4);
  return word;
}
// Seven bits per eight weights, group i in bits 7i and above, and four bits in the spare places.
uint32_t sign_word_7(uint32_t signs, uint32_t number) {
  uint32_t word = sign_word([&](int j) { return j % 8 == 7 ? 0 : signs >> (7 * (j / 8) + j % 8); });
  for (int i = 0; i < 4; ++i) word |= (number >> i & 1) << (24 + 2 * i);
  return word;
}

void put_grid_of_8(std::span<const uint16_t> grid, uint32_t* table) {
  for (size_t p = 0; p < grid.size(); ++p)
    for (int half = 0; half < 2; ++half) {
      uint32_t word = 0;
      for (int k = 0; k < 4; ++k)
        word |= static_cast<uint32_t>(kIq2Values[grid[p] >> (2 * (4 * half + k)) & 3]) << (8 * k);
      table[2 * p + static_cast<size_t>(half)] = word;
    }
}
void put_grid_of_4(std::span<const uint16_t> grid, const uint8_t (&values)[8], uint32_t* table) {
  for (size_t p = 0; p < grid.size(); ++p) {
    table[p] = 0;
    for (int k = 0; k < 4; ++k) table[p] |= static_cast<uint32_t>(values[grid[p] >> (3 * k) & 7]) << (8 * k);
  }
}
void put_iq1_grid(uint32_t* table) {
  for (size_t p = 0; p < kIq1Grid.size(); ++p) {
    table[p] = 0;
    for (int k = 0; k < 8; ++k) table[p] |= (kIq1Grid[p] >> (2 * k) & 3u) * 4 << (k < 4 ? 8 * k : 8 * (k - 4) + 4);
  }
}

struct PackIQ2_XXS {
  using Type = IQ2_XXS;
  using Block = BlockIQ2_XXS;
  static constexpr int kBlockElems = 256;
  static void table(uint32_t* out) { put_grid_of_8(kIq2XxsGrid, out); }
  static void unit(const Block& b, int part, const UnitOut<Type>& out) {
    const uint32_t signs = load_u32(b.qs + 4 * part + 2);
    put_row_words<0>(out, {load_u32(b.qs + 4 * part), sign_word_7(signs, signs >> 28)});
    out.put<1>(out.row, b.d);
  }
};
struct PackIQ2_XS {
  using Type = IQ2_XS;
  using Block = BlockIQ2_XS;
  static constexpr int kBlockElems = 256;
  static void table(uint32_t* out) { put_grid_of_8(kIq2XsGrid, out); }
  static void unit(const Block& b, int part, const UnitOut<Type>& out) {
    uint32_t index = 0, signs = 0, high = 0;
    for (int i = 0; i < 4; ++i) {
      const uint32_t word = b.qs[4 * part + i];
      index |= (word & 255) << (8 * i);
      high |= (word >> 8 & 1) << i;
      signs |= (word >> 9) << (7 * i);
    }
    put_row_words<0>(out, {index, sign_word_7(signs, high)});
    out.put<1>(out.row, b.d);
    out.put<2>(out.row, b.scales[part]);
  }
};
struct PackIQ2_S {
  using Type = IQ2_S;
  using Block = BlockIQ2_S;
  static constexpr int kBlockElems = 256;
  static void table(uint32_t* out) { put_grid_of_8(kIq2SGrid, out); }
  static void unit(const Block& b, int part, const UnitOut<Type>& out) {
    const uint32_t signs = load_u32(b.signs + 4 * part);
    put_row_words<0>(out, {load_u32(b.qs + 4 * part), sign_word([&](int j) { return signs >> j; })});
    out.put<1>(2 * out.row, b.qh[part]);
    out.put<1>(2 * out.row + 1, b.scales[part]);
    out.put<2>(out.row, b.d);
  }
};
struct PackIQ3_XXS {
  using Type = IQ3_XXS;
  using Block = BlockIQ3_XXS;
  static constexpr int kBlockElems = 256;
  static void table(uint32_t* out) { put_grid_of_4(kIq3XxsGrid, kIq3XxsValues, out); }
  static void unit(const Block& b, int part, const UnitOut<Type>& out) {
    const uint32_t signs = load_u32(b.scales + 4 * part);
    put_row_words<0>(out, {load_u32(b.qs + 8 * part), load_u32(b.qs + 8 * part + 4)});
    out.put<1>(out.row, sign_word_7(signs, signs >> 28));
    out.put<2>(out.row, b.d);
  }
};
struct PackIQ3_S {
  using Type = IQ3_S;
  using Block = BlockIQ3_S;
  static constexpr int kBlockElems = 256;
  static void table(uint32_t* out) { put_grid_of_4(kIq3SGrid, kIq3SValues, out); }
  static void unit(const Block& b, int part, const UnitOut<Type>& out) {
    const uint32_t signs = load_u32(b.signs + 4 * part);
    put_row_words<0>(out, {load_u32(b.qs + 8 * part), load_u32(b.qs + 8 * part + 4)});
    out.put<1>(out.row, sign_word([&](int j) { return signs >> j; }));
    out.put<2>(out.row, b.d);
    out.put<3>(out.row, b.qh[part]);
    out.add_bits<4>(0, static_cast<uint16_t>(nibble_at(b.scales, part) << (4 * out.row)));
  }
};
struct PackIQ1_S {
  using Type = IQ1_S;
  using Block = BlockIQ1_S;
  static constexpr int kBlockElems = 256;
  static void table(uint32_t* out) { put_iq1_grid(out); }
  static void unit(const Block& b, int part, const UnitOut<Type>& out) {
    put_row_words<0>(out, {load_u32(b.qs + 4 * part)});
    out.put<1>(out.row, b.qh[part]);
    out.put<2>(out.row, b.d);
  }
};
struct PackIQ1_M {
  using Type = IQ1_M;
  using Block = BlockIQ1_M;
  static constexpr int kBlockElems = 256;
  static void table(uint32_t* out) { put_iq1_grid(out); }
  static void unit(const Block& b, int part, const UnitOut<Type>& out) {
    uint32_t d = 0;
    for (int i = 0; i < 4; ++i) d |= static_cast<uint32_t>(b.scales[i] >> 12) << (4 * i);
    const auto scale = [&](int g) { return b.scales[g / 4] >> (3 * (g % 4)) & 7u; };  // of 16 weights
    put_row_words<0>(out, {load_u32(b.qs + 4 * part)});
    out.put<1>(out.row, static_cast<uint16_t>(b.qh[2 * part] | b.qh[2 * part + 1] << 8));
    out.put<2>(out.row, static_cast<uint16_t>(d));
    out.put<3>(out.row, static_cast<uint8_t>(scale(2 * part) | scale(2 * part + 1) << 4));
  }
};

}  // namespace

void add_grid_layouts(std::vector<MatvecLayout>& layouts) {
  layouts.push_back(layout_of<PackIQ2_XXS>(DType::iq2_xxs, "matvec_iq2_xxs"));
  layouts.push_back(layout_of<PackIQ2_XS>(DType::iq2_xs, "matvec_iq2_xs"));
  layouts.push_back(layout_of<PackIQ2_S>(DType::iq2_s, "matvec_iq2_s"));
  layouts.push_back(layout_of<PackIQ3_XXS>(DType::iq3_xxs, "matvec_iq3_xxs"));
  layouts.push_back(layout_of<PackIQ3_S>(DType::iq3_s, "matvec_iq3_s"));
  layouts.push_back(layout_of<PackIQ1_S>(DType::iq1_s, "matvec_iq1_s"));
  layouts.push_back(layout_of<PackIQ1_M>(DType::iq1_m, "matvec_iq1_m"));
}

}  // namespace tokamak::cuda
