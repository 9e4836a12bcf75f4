// Host side of a type: file rows -> tiles, and the kernel's arithmetic for tests. Packers (pack_*.cpp) write one unit:
//   struct PackQ4_0 { using Type = Q4_0; using Block = BlockQ4_0;
//     static void unit(const Block& block, int part, const UnitOut<Q4_0>& out); }   part: which 32 weights of the block
#pragma once

#include <cstring>

#include "backend/cuda/matvec/activations.h"
#include "backend/cuda/matvec/geometry.h"
#include "backend/cuda/matvec/layout.h"
#include "backend/cuda/matvec/types_plain.h"
#include "base/check.h"
#include "quant/blocks.h"

namespace tokamak::cuda {

template <class P>
struct UnitOut {
  std::byte* tile;
  int row, unit, n_units;

  // Value `index` of the unit's entry in plane i, an array of T.
  template <int i, class T>
  void put(int index, T value) const {
    std::byte* p = tile + plane_offset<P, i>(n_units) + unit / P::kPlanes[i].units * P::kPlanes[i].bytes;
    std::memcpy(p + index * static_cast<int>(sizeof(T)), &value, sizeof value);
  }
  // Several rows share a T.
  template <int i, class T>
  void add_bits(int index, T bits) const {
    std::byte* p = tile + plane_offset<P, i>(n_units) + unit / P::kPlanes[i].units * P::kPlanes[i].bytes +
                   index * static_cast<int>(sizeof(T));
    T value;
    std::memcpy(&value, p, sizeof value);
    value = static_cast<T>(value | bits);
    std::memcpy(p, &value, sizeof value);
  }
  // Word `word` of the row's entry in a plane that holds kWords words per row, unit and part.
  template <int i, int kWords>
  void put_row_word(int word, uint32_t value, int part = 0, int n_parts = 1) const {
    std::byte* p = tile + plane_offset<P, i>(n_units) + ((row * n_parts + part) * n_units + unit) * 4 * kWords;
    std::memcpy(p + 4 * word, &value, 4);
  }
};

template <class Packer>
constexpr int64_t block_elems() {
  return Packer::kBlockElems;
}

template <class Packer>
uint64_t packed_bytes_of(int64_t n_matrices, int64_t n_rows, int64_t k) {
  using P = typename Packer::Type;
  return static_cast<uint64_t>(P::kTableBytes + n_matrices * geometry_of<P>(n_rows, k).matrix_bytes);
}

// Row r of matrix m: its units to the row block at `block`.
template <class Packer>
void pack_row(const PackMatricesTask& task, const Geometry& g, int64_t m, int64_t r, std::byte* block) {
  using P = typename Packer::Type;
  using Block = typename Packer::Block;
  const int64_t row_bytes = task.k / Packer::kBlockElems * static_cast<int64_t>(sizeof(Block));
  const std::byte* in = task.rows + (m * task.n_rows + r) * row_bytes;
  for (int u = 0; u < g.n_units; ++u) {
    const int slice = u / kSliceUnits;
    const UnitOut<P> out{block + static_cast<int64_t>(slice) * g.tile_bytes, static_cast<int>(r % P::kRows),
                         u % kSliceUnits, slice + 1 == g.n_slices ? g.last_units : kSliceUnits};
    if constexpr (P::kQuantized) {
      constexpr int kParts = Packer::kBlockElems / P::kUnit;
      Packer::unit(load_block<Block>(in + u / kParts * static_cast<int64_t>(sizeof(Block))), u % kParts, out);
    } else {
      Packer::unit(in + u * P::kUnit * static_cast<int64_t>(sizeof(Block)), task.k - u * P::kUnit, out);
    }
  }
}

template <class Packer>
void pack_rows_of(const PackMatricesTask& task) {
  using P = typename Packer::Type;
  const Geometry g = geometry_of<P>(task.n_rows, task.k);
  const int64_t n_blocks = task.n_matrices * g.n_row_blocks;
  const int64_t end = task.block_end < 0 ? n_blocks : task.block_end;
  if constexpr (P::kTableBytes > 0)
    if (task.block_begin == 0) Packer::table(reinterpret_cast<uint32_t*>(task.out));
  for (int64_t b = task.block_begin; b < end; ++b) {
    std::byte* block = task.out + P::kTableBytes + b * g.row_block_bytes;
    std::memset(block, 0, static_cast<size_t>(g.row_block_bytes));
    const int64_t m = b / g.n_row_blocks, first_row = b % g.n_row_blocks * P::kRows;
    for (int64_t r = first_row; r < first_row + P::kRows && r < task.n_rows; ++r)
      pack_row<Packer>(task, g, m, r, block);
  }
}

template <class P>
typename P::Acts host_acts(const void* x, int64_t k, int unit) {
  if constexpr (P::kQuantized) {
    const auto* bytes = static_cast<const std::byte*>(x);
    Words<8> codes;
    std::memcpy(&codes, bytes + 32 * unit, sizeof codes);
    GroupQ8 group;
    std::memcpy(&group, bytes + k + unit * static_cast<int64_t>(sizeof group), sizeof group);
    if constexpr (kReadsLow<P>) {
      const std::byte* rest = bytes + q8_low_offset(k);
      Words<8> low;
      std::memcpy(&low, rest + 32 * unit, sizeof low);
      GroupLow sums;
      std::memcpy(&sums, rest + k + unit * static_cast<int64_t>(sizeof sums), sizeof sums);
      return make_acts<P>(codes, group.d, group.s0, group.s1, low, sums.s0, sums.s1);
    } else {
      return make_acts<P>(codes, group.d, group.s0, group.s1);
    }
  } else {
    ActsF32 acts;
    for (int i = 0; i < P::kUnit; ++i)
      acts.x[i] = unit * P::kUnit + i < k ? static_cast<const float*>(x)[unit * P::kUnit + i] : 0.0f;
    return acts;
  }
}

template <class Packer>
void multiply_of(const std::byte* packed, int64_t matrix, int64_t n_rows, int64_t k, const void* x, float* y) {
  using P = typename Packer::Type;
  const Geometry g = geometry_of<P>(n_rows, k);
  const Lookup lookup{reinterpret_cast<const uint32_t*>(packed), 0};
  const auto* base = reinterpret_cast<const uint8_t*>(packed) + P::kTableBytes + matrix * g.matrix_bytes;
  for (int64_t r = 0; r < n_rows; ++r) {
    double sum = 0.0;
    for (int u = 0; u < g.n_units; ++u) {
      const int slice = u / kSliceUnits;
      const uint8_t* tile = base + r / P::kRows * g.row_block_bytes + static_cast<int64_t>(slice) * g.tile_bytes;
      const Unit unit = make_unit<P>(tile, u % kSliceUnits, slice + 1 == g.n_slices ? g.last_units : kSliceUnits);
      const int row = static_cast<int>(r % P::kRows);
      const typename P::Codes codes = P::load_codes(unit, row);
      const auto scales = P::prepare(P::load_scales(unit));
      const typename P::Acts acts = host_acts<P>(x, k, u);
      const float value = dot_once<P>(codes, scales, row, lookup, acts);
      CHECK(value == dot_of<P>(decode_unit<P>(codes, scales, row, lookup), acts) || value != value, value);
      sum += value;
    }
    y[r] = static_cast<float>(sum);
  }
}

template <class Packer>
constexpr MatvecLayout layout_of(DType dtype, std::string_view kernel) {
  using P = typename Packer::Type;
  return {dtype,
          kernel,
          kReadsLow<P>    ? ActivationForm::q15
          : P::kQuantized ? ActivationForm::q8
                          : ActivationForm::f32,
          P::kRows,
          packed_bytes_of<Packer>,
          pack_rows_of<Packer>,
          multiply_of<Packer>};
}

// --- orders of codes in words.
// code(j), j = 0..31.
template <class Code>
void put_halves_nibbles(Code&& code, uint32_t (&w)[4]) {
  for (int i = 0; i < 4; ++i) {
    w[i] = 0;
    for (int b = 0; b < 4; ++b)
      w[i] |= (code(4 * i + b) & 15u) << (8 * b) | (code(16 + 4 * i + b) & 15u) << (8 * b + 4);
  }
}
template <class Code>
void put_pick_nibbles(Code&& code, uint32_t (&w)[4]) {
  for (int i = 0; i < 4; ++i) {
    w[i] = 0;
    for (int n = 0; n < 8; ++n) w[i] |= (code(8 * i + n) & 15u) << (4 * n);
  }
}
template <class Code>
uint32_t put_one_bit(Code&& code) {  // bit 8b + i: code 4i + b
  uint32_t word = 0;
  for (int j = 0; j < 32; ++j) word |= (code(j) & 1u) << (8 * (j % 4) + j / 4);
  return word;
}
template <class Code>
void put_two_bits(Code&& code, uint32_t (&w)[2]) {
  for (int h = 0; h < 2; ++h) {
    w[h] = 0;
    for (int j = 0; j < 16; ++j) w[h] |= (code(16 * h + j) & 3u) << (8 * (j % 4) + 2 * (j / 4));
  }
}
// Words of codes of 3, 5 and 6 bits; see their readers in types_k.h and types_nibble.h.
template <class Code>
void put_three_bits(Code&& code, uint32_t (&w)[3]) {
  for (uint32_t& word : w) word = 0;
  for (int b = 0; b < 4; ++b) {
    const uint32_t c6 = code(24 + b), c7 = code(28 + b);
    const uint32_t tops[3] = {c6 & 3, c7 & 3, c6 >> 2 << 1 | c7 >> 2};
    for (int j = 0; j < 3; ++j) w[j] |= (code(8 * j + b) | code(8 * j + 4 + b) << 3 | tops[j] << 6) << (8 * b);
  }
}
template <class Code>
void put_five_bits(Code&& code, uint32_t (&w)[5]) {
  for (uint32_t& word : w) word = 0;
  for (int b = 0; b < 4; ++b) {
    const uint32_t c5 = code(20 + b), c6 = code(24 + b), c7 = code(28 + b);
    const uint32_t tops[5] = {c5 & 7, c6 & 7, c7 & 7, c5 >> 3 | (c7 >> 3 & 1) << 2, c6 >> 3 | c7 >> 4 << 2};
    for (int j = 0; j < 5; ++j) w[j] |= (code(4 * j + b) | tops[j] << 5) << (8 * b);
  }
}
template <class Code>
void put_six_bits(Code&& code, uint32_t (&w)[6]) {
  for (uint32_t& word : w) word = 0;
  for (int b = 0; b < 4; ++b)
    for (int j = 0; j < 6; ++j)
      w[j] |= (code(4 * j + b) | (code(24 + j / 3 * 4 + b) >> (2 * (j % 3)) & 3u) << 6) << (8 * b);
}

template <int i, int n, class P>
void put_row_words(const UnitOut<P>& out, const uint32_t (&w)[n]) {
  for (int j = 0; j < n; ++j) out.template put_row_word<i, n>(j, w[j]);
}

}  // namespace tokamak::cuda
