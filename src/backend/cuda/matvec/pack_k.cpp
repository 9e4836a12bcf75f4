// Packers of the types of types_k.h.
#include "backend/cuda/matvec/pack_types.h"
#include "backend/cuda/matvec/types_k.h"

namespace tokamak::cuda {

namespace {

uint32_t two_halves(uint16_t low, uint16_t high) { return low | static_cast<uint32_t>(high) << 16; }
uint32_t two_bits(const uint8_t* qs, int j) { return qs[32 * (j / 128) + j % 32] >> (2 * (j % 128 / 32)) & 3u; }
uint32_t k_nibble(const uint8_t* qs, int j) {
  const uint32_t byte = qs[32 * (j / 64) + j % 32];
  return j % 64 < 32 ? byte & 15 : byte >> 4;
}

// Planes i and i + 1 hold a SixBits4.
template <int i, class P>
void put_six_bit_pair(const UnitOut<P>& out, uint32_t first, uint32_t second) {
  out.template put<i>(out.row, static_cast<uint8_t>((first & 15) | (second & 15) << 4));
  const int place = 8 * (out.row / 2) + (out.row % 2 ? 0 : 4);
  out.template add_bits<i + 1>(0, static_cast<uint16_t>((first >> 4 | second >> 4 << 2) << place));
}

struct PackQ4_K {
  using Type = Q4_K;
  using Block = BlockQ4_K;
  static constexpr int kBlockElems = 256;
  static void unit(const Block& b, int part, const UnitOut<Type>& out) {
    uint32_t w[4];
    put_halves_nibbles([&](int j) { return k_nibble(b.qs, 32 * part + j); }, w);
    put_row_words<0>(out, w);
    out.put<1>(out.row, two_halves(b.d, b.dmin));
    const ScaleMin group = unpack_scale_min(b.scales, part);
    put_six_bit_pair<2>(out, group.scale, group.min);
  }
};
struct PackQ5_K {
  using Type = Q5_K;
  using Block = BlockQ5_K;
  static constexpr int kBlockElems = 256;
  static void unit(const Block& b, int part, const UnitOut<Type>& out) {
    uint32_t w[5];
    put_five_bits([&](int j) { return k_nibble(b.qs, 32 * part + j) | (b.qh[j] >> part & 1u) << 4; }, w);
    for (int i = 0; i < 4; ++i) out.put_row_word<0, 4>(i, w[i]);
    out.put<1>(out.row, w[4]);
    out.put<2>(out.row, two_halves(b.d, b.dmin));
    const ScaleMin group = unpack_scale_min(b.scales, part);
    put_six_bit_pair<3>(out, group.scale, group.min);
  }
};
struct PackQ6_K {
  using Type = Q6_K;
  using Block = BlockQ6_K;
  static constexpr int kBlockElems = 256;
  static void unit(const Block& b, int part, const UnitOut<Type>& out) {
    const auto code = [&](int i) {
      const int j = 32 * part + i;
      const uint32_t byte = b.ql[64 * (j / 128) + j % 64];
      return (j % 128 < 64 ? byte & 15 : byte >> 4) | two_bits(b.qh, j) << 4;
    };
    uint32_t w[6];
    put_six_bits(code, w);
    for (int i = 0; i < 4; ++i) out.put_row_word<0, 4>(i, w[i]);
    for (int i = 0; i < 2; ++i) out.put_row_word<1, 2>(i, w[4 + i]);
    for (int i = 0; i < 2; ++i) out.put<2>(2 * out.row + i, static_cast<uint8_t>(b.scales[2 * part + i] + 128));
    out.put<3>(out.row, b.d);
  }
};
struct PackQ2_K {
  using Type = Q2_K;
  using Block = BlockQ2_K;
  static constexpr int kBlockElems = 256;
  static void unit(const Block& b, int part, const UnitOut<Type>& out) {
    uint32_t w[2];
    put_two_bits([&](int j) { return two_bits(b.qs, 32 * part + j); }, w);
    put_row_words<0>(out, w);
    out.put<1>(out.row, two_halves(b.d, b.dmin));
    for (int i = 0; i < 2; ++i) out.put<2>(2 * out.row + i, b.scales[2 * part + i]);
  }
};
struct PackQ3_K {
  using Type = Q3_K;
  using Block = BlockQ3_K;
  static constexpr int kBlockElems = 256;
  static uint32_t scale(const Block& b, int g) {
    const uint32_t low = g < 8 ? b.scales[g] & 15u : b.scales[g - 8] >> 4;
    return low | (b.scales[8 + g % 4] >> (2 * (g / 4)) & 3u) << 4;
  }
  static void unit(const Block& b, int part, const UnitOut<Type>& out) {
    uint32_t w[3];
    put_three_bits([&](int j) { return two_bits(b.qs, 32 * part + j) | (b.hmask[j] >> part & 1u) << 2; }, w);
    for (int i = 0; i < 2; ++i) out.put_row_word<0, 2>(i, w[i]);
    out.put<1>(out.row, w[2]);
    out.put<2>(out.row, b.d);
    put_six_bit_pair<3>(out, scale(b, 2 * part), scale(b, 2 * part + 1));
  }
};

struct PackQ1_0 {
  using Type = Q1_0;
  using Block = BlockQ1_0;
  static constexpr int kBlockElems = 128;
  static void unit(const Block& b, int part, const UnitOut<Type>& out) {
    const uint32_t bits = put_one_bit([&](int j) { return b.qs[4 * part + j / 8] >> (j % 8) & 1u; });
    out.row < 4 ? out.put<0>(out.row, bits) : out.put<1>(out.row - 4, bits);
    out.put<2>(out.row, b.d);
  }
};
struct PackQ2_0 {
  using Type = Q2_0;
  using Block = BlockQ2_0;
  static constexpr int kBlockElems = 64;
  static void unit(const Block& b, int part, const UnitOut<Type>& out) {
    uint32_t w[2];
    put_two_bits([&](int j) { return b.qs[8 * part + j / 4] >> (2 * (j % 4)) & 3u; }, w);
    put_row_words<0>(out, w);
    out.put<1>(out.row, b.d);
  }
};
struct PackTQ2_0 {
  using Type = TQ2_0;
  using Block = BlockTQ2_0;
  static constexpr int kBlockElems = 256;
  static void unit(const Block& b, int part, const UnitOut<Type>& out) {
    uint32_t w[2];
    put_two_bits([&](int j) { return two_bits(b.qs, 32 * part + j); }, w);
    put_row_words<0>(out, w);
    out.put<1>(out.row, b.d);
  }
};
// Base-3 digits become two-bit codes: 2.06 bits per weight instead of 1.69.
struct PackTQ1_0 {
  using Type = TQ2_0;
  using Block = BlockTQ1_0;
  static constexpr int kBlockElems = 256;
  static uint32_t trit(const Block& b, int j) {
    constexpr int kPowersOf3[] = {1, 3, 9, 27, 81};
    const int byte = j < 160 ? b.qs[j % 32] : j < 240 ? b.qs[32 + (j - 160) % 16] : b.qh[(j - 240) % 4];
    const int digit = j < 160 ? j / 32 : j < 240 ? (j - 160) / 16 : (j - 240) / 4;
    return static_cast<uint32_t>((byte * kPowersOf3[digit] & 255) * 3 >> 8);
  }
  static void unit(const Block& b, int part, const UnitOut<Type>& out) {
    uint32_t w[2];
    put_two_bits([&](int j) { return trit(b, 32 * part + j); }, w);
    put_row_words<0>(out, w);
    out.put<1>(out.row, b.d);
  }
};

}  // namespace

void add_k_layouts(std::vector<MatvecLayout>& layouts) {
  layouts.push_back(layout_of<PackQ2_K>(DType::q2_k, "matvec_q2_k"));
  layouts.push_back(layout_of<PackQ3_K>(DType::q3_k, "matvec_q3_k"));
  layouts.push_back(layout_of<PackQ4_K>(DType::q4_k, "matvec_q4_k"));
  layouts.push_back(layout_of<PackQ5_K>(DType::q5_k, "matvec_q5_k"));
  layouts.push_back(layout_of<PackQ6_K>(DType::q6_k, "matvec_q6_k"));
  layouts.push_back(layout_of<PackQ1_0>(DType::q1_0, "matvec_q1_0"));
  layouts.push_back(layout_of<PackQ2_0>(DType::q2_0, "matvec_q2_0"));
  layouts.push_back(layout_of<PackTQ2_0>(DType::tq2_0, "matvec_tq2_0"));
  layouts.push_back(layout_of<PackTQ1_0>(DType::tq1_0, "matvec_tq2_0"));
}

}  // namespace tokamak::cuda
