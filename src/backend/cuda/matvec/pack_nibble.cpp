// Packers of the types of types_nibble.h.
#include "backend/cuda/matvec/pack_types.h"
#include "backend/cuda/matvec/types_nibble.h"

namespace tokamak::cuda {

namespace {

uint32_t nibble_of(const uint8_t* qs, int j) { return j < 16 ? qs[j] & 15u : qs[j - 16] >> 4; }
template <class P>
void put_nibbles(const uint8_t* qs, const UnitOut<P>& out) {
  uint32_t w[4];
  put_halves_nibbles([&](int j) { return nibble_of(qs, j); }, w);
  put_row_words<0>(out, w);
}
template <class P>
void put_picked(const uint8_t* qs, const UnitOut<P>& out) {
  uint32_t w[4];
  put_pick_nibbles([&](int j) { return nibble_of(qs, j); }, w);
  put_row_words<0>(out, w);
}
template <class P>
void put_fives(const uint8_t* qs, const uint8_t* qh, const UnitOut<P>& out) {
  uint32_t w[5];
  put_five_bits([&](int j) { return nibble_of(qs, j) | (qh[j / 8] >> (j % 8) & 1u) << 4; }, w);
  for (int i = 0; i < 4; ++i) out.template put_row_word<0, 4>(i, w[i]);
  out.template put<1>(out.row, w[4]);
}
uint32_t two_halves(uint16_t low, uint16_t high) { return low | static_cast<uint32_t>(high) << 16; }

struct PackQ4_0 {
  using Type = Q4_0;
  using Block = BlockQ4_0;
  static constexpr int kBlockElems = 32;
  static void unit(const Block& b, int, const UnitOut<Type>& out) {
    put_nibbles(b.qs, out);
    out.put<1>(out.row, b.d);
  }
};
struct PackQ4_1 {
  using Type = Q4_1;
  using Block = BlockQ4_1;
  static constexpr int kBlockElems = 32;
  static void unit(const Block& b, int, const UnitOut<Type>& out) {
    put_nibbles(b.qs, out);
    out.put<1>(out.row, two_halves(b.d, b.m));
  }
};
struct PackQ5_0 {
  using Type = Q5_0;
  using Block = BlockQ5_0;
  static constexpr int kBlockElems = 32;
  static void unit(const Block& b, int, const UnitOut<Type>& out) {
    put_fives(b.qs, b.qh, out);
    out.put<2>(out.row, b.d);
  }
};
struct PackQ5_1 {
  using Type = Q5_1;
  using Block = BlockQ5_1;
  static constexpr int kBlockElems = 32;
  static void unit(const Block& b, int, const UnitOut<Type>& out) {
    put_fives(b.qs, b.qh, out);
    out.put<2>(out.row, two_halves(b.d, b.m));
  }
};
struct PackQ8_0 {
  using Type = Q8_0;
  using Block = BlockQ8_0;
  static constexpr int kBlockElems = 32;
  static void unit(const Block& b, int, const UnitOut<Type>& out) {
    uint32_t w[8];
    std::memcpy(w, b.qs, sizeof w);
    for (int i = 0; i < 8; ++i) out.put_row_word<0, 4>(i % 4, w[i], i / 4, 2);
    out.put<1>(out.row, b.d);
  }
};
struct PackMXFP4 {
  using Type = MXFP4;
  using Block = BlockMXFP4;
  static constexpr int kBlockElems = 32;
  static void unit(const Block& b, int, const UnitOut<Type>& out) {
    put_picked(b.qs, out);
    out.put<1>(out.row, b.e);
  }
};
struct PackNVFP4 {
  using Type = NVFP4;
  using Block = BlockNVFP4;
  static constexpr int kBlockElems = 64;
  static void unit(const Block& b, int part, const UnitOut<Type>& out) {
    uint32_t w[4];
    put_pick_nibbles(
        [&](int j) {
          const uint8_t* run = b.qs + 8 * (2 * part + j / 16);
          return j % 16 < 8 ? run[j % 8] & 15u : run[j % 8] >> 4;
        },
        w);
    put_row_words<0>(out, w);
    for (int i = 0; i < 2; ++i) {
      const uint8_t code = b.scales[2 * part + i];
      out.put<1>(2 * out.row + i, static_cast<uint8_t>(code == 0x7F ? 0 : code & 0x7F));
    }
  }
};
struct PackIQ4_NL {
  using Type = IQ4_NL;
  using Block = BlockIQ4_NL;
  static constexpr int kBlockElems = 32;
  static void unit(const Block& b, int, const UnitOut<Type>& out) {
    put_picked(b.qs, out);
    out.put<1>(out.row, b.d);
  }
};
struct PackIQ4_XS {
  using Type = IQ4_XS;
  using Block = BlockIQ4_XS;
  static constexpr int kBlockElems = 256;
  static void unit(const Block& b, int part, const UnitOut<Type>& out) {
    put_picked(b.qs + 16 * part, out);
    const uint32_t low = b.scales_l[part / 2] >> (4 * (part % 2)) & 15u, high = b.scales_h >> (2 * part) & 3u;
    out.put<1>(out.row, b.d);
    out.add_bits<2>(0, static_cast<uint16_t>(low << (4 * out.row)));
    out.add_bits<3>(0, static_cast<uint8_t>(high << (2 * out.row)));
  }
};

}  // namespace

void add_nibble_layouts(std::vector<MatvecLayout>& layouts) {
  layouts.push_back(layout_of<PackQ4_0>(DType::q4_0, "matvec_q4_0"));
  layouts.push_back(layout_of<PackQ4_1>(DType::q4_1, "matvec_q4_1"));
  layouts.push_back(layout_of<PackQ5_0>(DType::q5_0, "matvec_q5_0"));
  layouts.push_back(layout_of<PackQ5_1>(DType::q5_1, "matvec_q5_1"));
  layouts.push_back(layout_of<PackQ8_0>(DType::q8_0, "matvec_q8_0"));
  layouts.push_back(layout_of<PackMXFP4>(DType::mxfp4, "matvec_mxfp4"));
  layouts.push_back(layout_of<PackNVFP4>(DType::nvfp4, "matvec_nvfp4"));
  layouts.push_back(layout_of<PackIQ4_NL>(DType::iq4_nl, "matvec_iq4_nl"));
  layouts.push_back(layout_of<PackIQ4_XS>(DType::iq4_xs, "matvec_iq4_xs"));
}

}  // namespace tokamak::cuda
