// 16 rows x NC columns of the weight types with blocks of 32: Q8_0, Q4_0, Q4_1, Q5_0, Q5_1. Layouts: formats.h.
// Per block, in ascending k:  f = fma(sum, dw * da, f);  with mins then:  f = fma(m, da * sum(a), f).
#pragma once

#include "backend/cpu/matmul/tile_common.h"

namespace tokamak::cpu {
namespace {

// Which start value of the activation block a type's code offset needs (formats.h).
enum class Start { none, minus8, minus16, minus128 };

// One block of 32 for the NC columns of a tile.
template <class V, int NC>
struct Group32 {
  TilePosition<V, NC> at;
  const std::byte* base;  // of the panel's block: [n_cols][32] codes, then five arrays of 4 bytes per column

  explicit Group32(const TileColumns& a) : at(a), base(a.panel) {}
  void next() { base += activation_format(ActivationKind::int8_group32).block_bytes_per_col * at.n_cols(); }
  const std::byte* codes() const { return base + 32 * at.first(); }  // columns 32 bytes apart
  const std::byte* array(int i, int c) const { return base + (32 + 4 * i) * at.n_cols() + 4 * (at.first() + c); }
  float d(int c) const { return load_scalar<float>(array(0, c)); }
  float scaled_sum(int c) const { return load_scalar<float>(array(1, c)); }
  template <Start kStart>
  int32_t start(int c) const {
    if constexpr (kStart == Start::none) return 0;
    return load_scalar<int32_t>(array(1 + static_cast<int>(kStart), c));
  }
};

template <class V, int kBits, Start kStart, int NC>
[[gnu::always_inline]] inline void start_sums(typename V::template Acc<kBits> (&s)[NC], const Group32<V, NC>& a) {
#pragma GCC unroll 8
  for (int c = 0; c < NC; ++c) s[c] = V::template start<kBits>(a.template start<kStart>(c));
}

template <class V, int kBits, Start kStart, int NC>
[[gnu::always_inline]] inline void add_scaled(typename V::F (&f)[NC], typename V::template Acc<kBits> (&s)[NC],
                                              const typename V::F& dw, const Group32<V, NC>& a) {
#pragma GCC unroll 8
  for (int c = 0; c < NC; ++c) {
    const auto sum = V::to_f32(V::template sum<kBits>(s[c], a.template start<kStart>(c)));
    f[c] = V::fma(sum, V::mul(dw, V::set1(a.d(c))), f[c]);
  }
}

template <class V, int NC>
[[gnu::always_inline]] inline void add_mins(typename V::F (&f)[NC], const typename V::F& m, const Group32<V, NC>& a) {
#pragma GCC unroll 8
  for (int c = 0; c < NC; ++c) f[c] = V::fma(m, V::set1(a.scaled_sum(c)), f[c]);
}

// 32 codes of 8 bits: V[0..7].
template <class V, Start kStart, int NC>
[[gnu::always_inline]] inline void block_8bit(const std::byte* w, const typename V::F& dw, const Group32<V, NC>& a,
                                              typename V::F (&f)[NC]) {
  typename V::template Acc<8> s[NC];
  start_sums<V, 8, kStart>(s, a);
#pragma GCC unroll 4
  for (int j = 0; j < 8; j += 2)
    V::template dot2<8, NC>(s, V::load_codes(w + 64 * j), V::load_codes(w + 64 * j + 64), a.codes() + 4 * j,
                            a.codes() + 4 * j + 4, 32);
  add_scaled<V, 8, kStart>(f, s, dw, a);
}

// 32 codes of 4 bits: V[0..3].
template <class V, Start kStart, int NC>
[[gnu::always_inline]] inline void block_4bit(const std::byte* w, const typename V::F& dw, const Group32<V, NC>& a,
                                              typename V::F (&f)[NC]) {
  typename V::template Acc<4> s[NC];
  start_sums<V, 4, kStart>(s, a);
#pragma GCC unroll 4
  for (int t = 0; t < 4; ++t) {
    const auto x = V::load_codes(w + 64 * t);
    V::template dot2<4, NC>(s, V::template mask<0x0F>(x), V::template mask<0x0F>(V::template shr<4>(x)),
                            a.codes() + 4 * t, a.codes() + 4 * t + 16, 32);
  }
  add_scaled<V, 4, kStart>(f, s, dw, a);
}

template <class V, int t, int NC>
[[gnu::always_inline]] inline void quads_5bit(typename V::template Acc<5> (&s)[NC], const std::byte* w,
                                              const typename V::B& high, const Group32<V, NC>& a) {
  const auto x = V::load_codes(w + 64 * t);
  const auto h = V::template mask<0x11>(V::template shr<t>(high));  // bit 0: quad t, bit 4: quad t + 4
  V::template dot2<5, NC>(s, V::join_nibbles(x, V::template shl<4>(h)), V::join_nibbles(V::template shr<4>(x), h),
                          a.codes() + 4 * t, a.codes() + 4 * t + 16, 32);
}

// 32 codes of 5 bits: H, V[0..3].
template <class V, Start kStart, int NC>
[[gnu::always_inline]] inline void block_5bit(const std::byte* w, const typename V::F& dw, const Group32<V, NC>& a,
                                              typename V::F (&f)[NC]) {
  typename V::template Acc<5> s[NC];
  start_sums<V, 5, kStart>(s, a);
  const auto high = V::load_codes(w);
  quads_5bit<V, 0>(s, w + 64, high, a);
  quads_5bit<V, 1>(s, w + 64, high, a);
  quads_5bit<V, 2>(s, w + 64, high, a);
  quads_5bit<V, 3>(s, w + 64, high, a);
  add_scaled<V, 5, kStart>(f, s, dw, a);
}

template <class V>
struct TileQ8_0 {
  static constexpr const PackedFormat& kFormat = *find_packed_format(DType::q8_0);
  template <int NC>
  static void run(const std::byte* w, const TileColumns& cols, int64_t n_chunks, typename V::F (&f)[NC]) {
    Group32<V, NC> a(cols);
    for (int64_t i = 0; i < n_chunks; ++i, w += kFormat.chunk_bytes) {
      prefetch_chunk<NC, kFormat.chunk_bytes>(w);
      block_8bit<V, Start::minus128>(w + 64, V::load_f16(w), a, f);
      a.next();
      block_8bit<V, Start::minus128>(w + 576, V::load_f16(w + 32), a, f);
      a.next();
    }
  }
};

template <class V>
struct TileQ4_0 {
  static constexpr const PackedFormat& kFormat = *find_packed_format(DType::q4_0);
  template <int NC>
  static void run(const std::byte* w, const TileColumns& cols, int64_t n_chunks, typename V::F (&f)[NC]) {
    Group32<V, NC> a(cols);
    for (int64_t i = 0; i < n_chunks; ++i, w += kFormat.chunk_bytes) {
      prefetch_chunk<NC, kFormat.chunk_bytes>(w);
      block_4bit<V, Start::minus8>(w + 64, V::load_f16(w), a, f);
      a.next();
      block_4bit<V, Start::minus8>(w + 320, V::load_f16(w + 32), a, f);
      a.next();
    }
  }
};

template <class V>
struct TileQ5_0 {
  static constexpr const PackedFormat& kFormat = *find_packed_format(DType::q5_0);
  template <int NC>
  static void run(const std::byte* w, const TileColumns& cols, int64_t n_chunks, typename V::F (&f)[NC]) {
    Group32<V, NC> a(cols);
    for (int64_t i = 0; i < n_chunks; ++i, w += kFormat.chunk_bytes) {
      prefetch_chunk<NC, kFormat.chunk_bytes>(w);
      block_5bit<V, Start::minus16>(w + 64, V::load_f16(w), a, f);
      a.next();
      block_5bit<V, Start::minus16>(w + 384, V::load_f16(w + 32), a, f);
      a.next();
    }
  }
};

template <class V>
struct TileQ4_1 {
  static constexpr const PackedFormat& kFormat = *find_packed_format(DType::q4_1);
  template <int NC>
  static void run(const std::byte* w, const TileColumns& cols, int64_t n_chunks, typename V::F (&f)[NC]) {
    Group32<V, NC> a(cols);
    for (int64_t i = 0; i < n_chunks; ++i, w += kFormat.chunk_bytes, a.next()) {
      prefetch_chunk<NC, kFormat.chunk_bytes>(w);
      block_4bit<V, Start::none>(w + 64, V::load_f16(w), a, f);
      add_mins<V>(f, V::load_f16(w + 32), a);
    }
  }
};

template <class V>
struct TileQ5_1 {
  static constexpr const PackedFormat& kFormat = *find_packed_format(DType::q5_1);
  template <int NC>
  static void run(const std::byte* w, const TileColumns& cols, int64_t n_chunks, typename V::F (&f)[NC]) {
    Group32<V, NC> a(cols);
    for (int64_t i = 0; i < n_chunks; ++i, w += kFormat.chunk_bytes, a.next()) {
      prefetch_chunk<NC, kFormat.chunk_bytes>(w);
      block_5bit<V, Start::none>(w + 64, V::load_f16(w), a, f);
      add_mins<V>(f, V::load_f16(w + 32), a);
    }
  }
};

}  // namespace
}  // namespace tokamak::cpu
