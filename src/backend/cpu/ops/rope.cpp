#include "backend/cpu/ops/rope.h"

#include <array>
#include <cmath>

#include "backend/rope_frequencies.h"
#include "base/check.h"

namespace tokamak::cpu {

namespace {

constexpr int64_t kLow = 64;  // positions of the low part
constexpr int64_t kMaxPairs = 512;

}  // namespace

RopeTable::RopeTable(const RopeParams& params, std::span<const float> factors) : params_(params) {
  const int64_t n_rot = params.frequency.n_rot;
  CHECK(n_rot >= 0 && n_rot % 2 == 0 && n_rot / 2 <= kMaxPairs, n_rot);
  CHECK(factors.empty() || static_cast<int64_t>(factors.size()) == n_rot / 2, factors.size(), n_rot);
  frequencies_ = rope_frequencies(params.frequency, factors);
  low_.reserve(static_cast<size_t>(kLow) * frequencies_.size());
  for (int64_t position = 0; position < kLow; ++position)
    for (double f : frequencies_) {
      const double angle = static_cast<double>(position) * f;
      low_.push_back({std::cos(angle), std::sin(angle)});
    }
}

void RopeTable::fill(std::span<const int32_t> positions, float* rows, int64_t begin, int64_t end) const {
  std::array<Turn, kMaxPairs> base;
  int64_t base_position = -1;
  for (int64_t t = begin; t < end; ++t) {
    const int64_t position = positions[static_cast<size_t>(t)], low = position % kLow;
    if (position - low != base_position) {
      base_position = position - low;
      for (size_t i = 0; i < frequencies_.size(); ++i) {
        const double angle = static_cast<double>(base_position) * frequencies_[i];
        base[i] = {std::cos(angle), std::sin(angle)};
      }
    }
    fill_row({base.data(), frequencies_.size()}, low, rows + t * row_floats());
  }
}

void RopeTable::fill_row(std::span<const Turn> base, int64_t low, float* row) const {
  const size_t n_pairs = base.size();
  float* partner = row + params_.frequency.n_rot;
  const Turn* low_turns = low_.data() + static_cast<size_t>(low) * n_pairs;
  for (size_t i = 0; i < n_pairs; ++i) {
    const Turn a = base[i], b = low_turns[i];
    const auto cosine = static_cast<float>((a.cosine * b.cosine - a.sine * b.sine) * params_.attn_factor);
    const auto sine = static_cast<float>((a.sine * b.cosine + a.cosine * b.sine) * params_.attn_factor);
    const bool neox = params_.pairing == RopePairing::neox;
    const size_t first = neox ? i : 2 * i, second = neox ? i + n_pairs : 2 * i + 1;
    row[first] = row[second] = cosine;
    partner[first] = -sine;
    partner[second] = sine;
  }
}

}  // namespace tokamak::cpu
