#include "synth/weights.h"

#include "base/fnv1a.h"
#include "base/random.h"

namespace tokamak {

namespace {
// The first row whose part the name holds decides.
struct RangeRow {
  std::string_view part;
  ValueRange range;
};
constexpr RangeRow kRanges[] = {
    {".bias", {0, 0x1p-3}},
    {".scale", {0x1p-8, 0x1p-11}},
    {"norm", {1, 0x1p-3}},
    {"rope_f", {1, 0x1p-3}},  // rope_freqs, rope_factors_*: divisors
    {"attn_sinks", {0, 1}},
    {"exp_probs_b", {0, 0x1p-3}},
    {"ffn_gate_inp", {0, 0x1p-3}},  // routers: clear choices
    {"ssm_conv1d", {0, 0x1p-2}},
    {"ssm_alpha", {0, 0x1p-5}},
    {"ssm_a", {-1, 0x1p-3}},  // decay rates
    {"", {0, 0x1p-5}},
};

// Irwin-Hall: the sum of eight uniform numbers of 16 bits is nearly normal; its mean taken off and scaled to -4..4.
// Every step is exact in double, so that no platform rounds it differently.
double bell(uint64_t key, uint64_t index) {
  const auto words = philox4x32({static_cast<uint32_t>(index), static_cast<uint32_t>(index >> 32), 0, 0},
                                {static_cast<uint32_t>(key), static_cast<uint32_t>(key >> 32)});
  int64_t sum = 0;
  for (uint32_t word : words) sum += (word & 0xFFFF) + (word >> 16);
  constexpr int64_t kMean2 = 8 * 0xFFFF;  // twice the mean
  return static_cast<double>(2 * sum - kMean2) * 0x1p-17;
}
}  // namespace

ValueRange value_range(std::string_view tensor) {
  for (const RangeRow& row : kRanges)
    if (tensor.find(row.part) != tensor.npos) return row.range;
  return {};
}

WeightStream::WeightStream(std::string_view tensor, uint64_t seed) : range_(value_range(tensor)) {
  Fnv1a hash;
  hash.add(tensor);
  hash.add(seed);
  key_ = hash.value();
}

float WeightStream::operator()(uint64_t index) const {
  return static_cast<float>((range_.mean + range_.spread * bell(key_, index)) * factor_);
}

}  // namespace tokamak
