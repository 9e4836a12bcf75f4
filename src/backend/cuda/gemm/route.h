// Tokens sorted by expert: what lets one launch multiply every expert with all of its columns. Device pointers.
#pragma once

#include <cstdint>

namespace tokamak::cuda {

inline constexpr int kMostExperts = 2048;

// Columns that one CTA takes at a time: n_cols of them from first_col (a multiple of 8) on, of one expert.
struct GemmTile {
  int32_t expert, first_col, n_cols;
};

// Sizes: n_pairs = n_tokens * n_used columns go to n_expert experts, each to columns of its own that begin at a
// multiple of 8.
struct RouteShape {
  int n_tokens = 0, n_used = 1, n_expert = 1;
  int tile_cols = 64;  // most columns of a tile

  constexpr int n_pairs() const { return n_tokens * n_used; }
  constexpr int n_touched() const { return n_pairs() < n_expert ? n_pairs() : n_expert; }
  constexpr int n_columns() const { return (n_pairs() + 7 * n_touched() + 7) / 8 * 8; }
  constexpr int most_tiles() const { return n_pairs() / tile_cols + n_touched(); }
};

// Of a buffer of `bytes(shape)`, 16-byte aligned.
struct Route {
  int32_t* n_tiles;      // [1]
  int32_t* positions;    // [n_tokens, n_used]: the column of each pair, in the order of pairs; -1: no expert
  int32_t* destination;  // [n_columns]: the pair of each column; padding: undefined
  GemmTile* tiles;       // [n_tiles], by expert

  static constexpr int64_t bytes(const RouteShape& s) {
    return 16 + 4 * (int64_t{s.n_pairs()} + s.n_columns() + 3 * int64_t{s.most_tiles()});
  }
  static Route at(void* buffer, const RouteShape& s) {
    auto* words = static_cast<int32_t*>(buffer);
    Route r{words, words + 4, words + 4 + s.n_pairs(), nullptr};
    r.tiles = reinterpret_cast<GemmTile*>(r.destination + s.n_columns());
    return r;
  }
};

}  // namespace tokamak::cuda
