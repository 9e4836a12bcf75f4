// Tokens sorted by expert: what lets one launch multiply every expert with all of its columns. Device pointers.
#pragma once

#include <cstdint>

#include "base/round_up.h"

namespace tokamak::cuda {

inline constexpr int kMostExperts = 2048;

// Columns lie in units of so many: those of an expert begin with one of their own.
inline constexpr int kColumnUnit = 8;

// Columns that one CTA takes at a time: n_cols of them from first_col (the first of a unit) on, of one expert.
struct GemmTile {
  int32_t expert, first_col, n_cols;
};

// Sizes: n_pairs = n_tokens * n_used columns go to n_expert experts.
struct RouteShape {
  int n_tokens = 0, n_used = 1, n_expert = 1;
  int tile_cols = 64;  // most columns of a tile

  constexpr int n_pairs() const { return n_tokens * n_used; }
  constexpr int n_touched() const { return n_pairs() < n_expert ? n_pairs() : n_expert; }
  constexpr int n_columns() const { return round_up(n_pairs() + (kColumnUnit - 1) * n_touched(), kColumnUnit); }
  constexpr int most_tiles() const { return n_pairs() / tile_cols + n_touched(); }
};

// Of a buffer of `bytes(shape)`, 16-byte aligned.
struct Route {
  int32_t* n_tiles;      // [1]
  int32_t* positions;    // [n_tokens, n_used]: the column of each pair, in the order of pairs; -1: no expert
  int32_t* destination;  // [n_columns]: the pair of each column; padding: undefined
  GemmTile* tiles;       // [n_tiles], by expert

  static constexpr int kHeader = 4;  // int32s in front of positions, of which n_tiles is the first
  static constexpr int64_t bytes(const RouteShape& s) {
    return int64_t{sizeof(int32_t)} * (kHeader + s.n_pairs() + s.n_columns()) +
           int64_t{sizeof(GemmTile)} * s.most_tiles();
  }
  static Route at(void* buffer, const RouteShape& s) {
    auto* words = static_cast<int32_t*>(buffer);
    Route r{words, words + kHeader, words + kHeader + s.n_pairs(), nullptr};
    r.tiles = reinterpret_cast<GemmTile*>(r.destination + s.n_columns());
    return r;
  }
};

}  // namespace tokamak::cuda
