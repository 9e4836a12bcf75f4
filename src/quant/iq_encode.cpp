// Encoders of the types that draw whole vectors from a grid: IQ2, IQ3, IQ1. Every point is the nearest one of its grid
// for the weighted squared error; scales are searched, and chosen once more for the super-scale as stored.
#include <algorithm>
#include <bit>
#include <cmath>

#include "quant/grid_search.h"
#include "quant/iq.h"
#include "quant/iq_tables.h"
#include "quant/scale_search.h"

namespace tokamak {

namespace {

constexpr int kElems = 256;

// How a type uses its grid.
template <class Shape_, int groups_>
struct GridType {
  using Shape = Shape_;
  using Levels = typename Grid<Shape>::Levels;
  static constexpr int groups = groups_;  // of elements under one scale
  static constexpr int group_elems = kElems / groups, vectors = kElems / Shape::elems, group_vectors = vectors / groups;

  const Grid<Shape>& grid;
  std::array<Levels, 2> values;  // element values per variant (IQ1: shifted up, shifted down)
  int n_variants;
  bool variant_per_vector;  // else per group
  float unit;               // scale of a group = d * unit * (2 code + 1)
  int code_max;
};

// What is stored of a block.
template <class Type>
struct GridBlock {
  F16Scale d;
  int code[Type::groups] = {};
  int index[Type::vectors] = {};
  int variant[Type::vectors] = {};
};

template <class Type>
class GridFit {
 public:
  // x, w: [kElems] signed as the grid sees them.
  GridFit(const Type& type, const float* x, const float* w, int exponent)
      : type_(type), x_(x), w_(w), exponent_(exponent) {}

  GridBlock<Type> fit(std::span<const float> candidates) {
    for (int g = 0; g < Type::groups; ++g) fit_group(g, candidates);
    GridBlock<Type> best;
    const float step = super_scale();
    if (step == 0.0f) return best;
    best.d = rounded_scale(static_cast<double>(step) / static_cast<double>(type_.unit), exponent_);
    const Outcome first = assign(best, 1);
    if (!(first.qq > 0.0)) return best;
    GridBlock<Type> again;
    again.d = rounded_scale(first.xq / first.qq / static_cast<double>(type_.unit), exponent_);
    return assign(again, 2).error < first.error ? again : best;
  }

 private:
  struct Group {
    float xq = 0.0f, qq = 0.0f, error = 0.0f;  // as Moments, and sum w (x - s q)^2
    int index[Type::group_vectors] = {}, variant[Type::group_vectors] = {};
  };

  // Variants [first, end); gives up, with an error >= limit, when the group cannot come below it.
  Group evaluate(int g, float scale, int first, int end, float limit) const {
    Group out;
    for (int v = 0; v < Type::group_vectors && out.error < limit; ++v) {
      const int begin = Type::group_elems * g + Type::Shape::elems * v;
      typename Grid<typename Type::Shape>::Found best{0, INFINITY};
      out.variant[v] = first;
      for (int variant = first; variant < end; ++variant) {
        const auto found =
            type_.grid.nearest(x_ + begin, w_ + begin, scale, type_.values[static_cast<size_t>(variant)], best.error);
        if (found.error < best.error) best = found, out.variant[v] = variant;
      }
      out.index[v] = best.index;
      out.error += best.error;
      const auto& values = type_.values[static_cast<size_t>(out.variant[v])];
      for (int k = 0; k < Type::Shape::elems; ++k) {
        const float q = values[static_cast<size_t>(type_.grid.level(best.index, k))], wq = w_[begin + k] * q;
        out.xq += wq * x_[begin + k];
        out.qq += wq * q;
      }
    }
    return out;
  }
  // The best choice for a group at this scale.
  Group evaluate(int g, float scale, float limit = INFINITY) const {
    if (type_.variant_per_vector) return evaluate(g, scale, 0, type_.n_variants, limit);
    Group best = evaluate(g, scale, 0, 1, limit);
    for (int variant = 1; variant < type_.n_variants; ++variant) {
      const Group other = evaluate(g, scale, variant, variant + 1, std::min(best.error, limit));
      if (other.error < best.error) best = other;
    }
    return best;
  }

  void fit_group(int g, std::span<const float> candidates) {
    float squares = 0.0f, weights = 0.0f;
    for (int i = Type::group_elems * g; i < Type::group_elems * (g + 1); ++i)
      squares += w_[i] * x_[i] * x_[i], weights += w_[i];
    wanted_[g] = 0.0f;
    moments_[g] = {};
    const float rms = std::sqrt(squares / weights);
    if (rms == 0.0f) return;
    const auto consider = [&](float scale) {
      const Group group = evaluate(g, scale);
      const Moments m{group.xq, group.qq};
      if (!(m.scale() > 0.0f && m.gain() > moments_[g].gain())) return false;
      moments_[g] = m;
      wanted_[g] = m.scale();
      return true;
    };
    for (const float candidate : candidates) consider(rms * candidate);
    for (int round = 0; round < 2 && consider(wanted_[g]); ++round) {
    }
  }

  // d * unit for which the rounded scales of the groups lose least, by the moments of the wanted scales.
  float super_scale() const {
    const float top = static_cast<float>(2 * type_.code_max + 1);
    const float largest = *std::max_element(wanted_, wanted_ + Type::groups);
    float best_step = 0.0f;
    double best_gain = -1.0;
    for (int i = -6; i <= 6; ++i) {
      const float step = largest / top * (1.0f + 0.03f * static_cast<float>(i));
      double gain = 0.0;
      for (int g = 0; step > 0.0f && g < Type::groups; ++g)
        gain += static_cast<double>(moments_[g].gain_of(step * static_cast<float>(2 * code_near(g, step) + 1)));
      if (step > 0.0f && gain > best_gain) best_gain = gain, best_step = step;
    }
    return best_step;
  }
  int code_near(int g, float step) const {
    const float code = (wanted_[g] * inverse_or_zero(step) - 1.0f) / 2.0f;
    return static_cast<int>(std::nearbyint(std::clamp(code, 0.0f, static_cast<float>(type_.code_max))));
  }

  struct Outcome {
    double error = 0.0, xq = 0.0, qq = 0.0;
  };
  // Chooses codes and points for block.d: each group takes the best of the n_codes codes around its wanted scale.
  Outcome assign(GridBlock<Type>& block, int n_codes) const {
    Outcome total;
    const float step = block.d.value * type_.unit;
    for (int g = 0; g < Type::groups; ++g) {
      const float wanted =
          std::clamp((wanted_[g] * inverse_or_zero(step) - 1.0f) / 2.0f, 0.0f, static_cast<float>(type_.code_max));
      const int low = static_cast<int>(n_codes == 1 ? std::nearbyint(wanted) : std::floor(wanted));
      Group best;
      best.error = INFINITY;
      for (int c = low; c < low + n_codes && c <= type_.code_max; ++c) {
        const Group group = evaluate(g, step * static_cast<float>(2 * c + 1), best.error);
        if (group.error < best.error) best = group, block.code[g] = c;
      }
      if (best.error == INFINITY) continue;  // d overflows f16: refused by its fault function
      std::copy_n(best.index, Type::group_vectors, block.index + Type::group_vectors * g);
      std::copy_n(best.variant, Type::group_vectors, block.variant + Type::group_vectors * g);
      const double factor = 2 * block.code[g] + 1;
      total.error += static_cast<double>(best.error);
      total.xq += factor * static_cast<double>(best.xq);
      total.qq += factor * factor * static_cast<double>(best.qq);
    }
    return total;
  }

  const Type& type_;
  const float *x_, *w_;
  int exponent_;
  float wanted_[Type::groups] = {};
  Moments moments_[Type::groups] = {};
};

// Magnitudes and signs, apart. signs[i]: bit k set when element 8 i + k is negated.
struct Magnitudes {
  float x[kElems];
  uint8_t signs[kElems / 8];
};
// even: the number of negated elements of every eight must be even, so the one that costs least is negated in vain
// and its magnitude becomes negative.
Magnitudes magnitudes_of(const Samples<kElems>& samples, bool even) {
  Magnitudes out{};
  for (int i = 0; i < kElems / 8; ++i) {
    unsigned signs = 0;
    int cheapest = 8 * i;
    for (int j = 8 * i; j < 8 * i + 8; ++j) {
      out.x[j] = std::fabs(samples.x[j]);
      signs |= static_cast<unsigned>(samples.x[j] < 0.0f) << (j % 8);
      if (samples.w[j] * out.x[j] < samples.w[cheapest] * out.x[cheapest]) cheapest = j;
    }
    if (even && std::popcount(signs) % 2 != 0) {
      signs ^= 1u << (cheapest % 8);
      out.x[cheapest] = -out.x[cheapest];
    }
    out.signs[i] = static_cast<uint8_t>(signs);
  }
  return out;
}

template <class Shape, size_t n_points>
const Grid<Shape>& grid_of(const std::array<uint16_t, n_points>& points) {
  static const Grid<Shape> grid{points};  // one per table: the size identifies it
  return grid;
}

constexpr std::array<float, 3> kValues2{8.0f, 25.0f, 43.0f};
template <class Values>
std::array<float, 8> values3(const Values& values) {
  std::array<float, 8> out{};
  std::copy_n(values, 8, out.begin());
  return out;
}

// Scales to try, as multiples of the root mean square of a group.
constexpr float kScales2[] = {0.03f, 0.038f, 0.049f, 0.062f, 0.08f};
constexpr float kScales3Xxs[] = {0.02f, 0.025f, 0.031f, 0.039f, 0.048f, 0.06f};
constexpr float kScales3S[] = {0.08f, 0.1f, 0.128f, 0.163f, 0.208f, 0.265f};
constexpr float kScales1[] = {0.9f, 1.2f, 1.6f};

using TypeIQ2Wide = GridType<EightOfThree, 8>;
using TypeIQ2 = GridType<EightOfThree, 16>;
using TypeIQ3 = GridType<FourOfEight, 8>;

void encode_block_iq2_xxs(const Samples<kElems>& samples, BlockIQ2_XXS& block) {
  const TypeIQ2Wide type{grid_of<EightOfThree>(kIq2XxsGrid), {kValues2, {}}, 1, false, 0.125f, 15};
  const Magnitudes m = magnitudes_of(samples, true);
  const auto fit = GridFit(type, m.x, samples.w, samples.exponent).fit(kScales2);
  block.d = fit.d.code;
  for (int g = 0; g < 8; ++g) {
    uint32_t word = static_cast<uint32_t>(fit.code[g]) << 28;
    for (int i = 0; i < 4; ++i) {
      block.qs[4 * g + i / 2] |= static_cast<uint16_t>(fit.index[4 * g + i] << (8 * (i % 2)));
      word |= (m.signs[4 * g + i] & 127u) << (7 * i);
    }
    block.qs[4 * g + 2] = static_cast<uint16_t>(word);
    block.qs[4 * g + 3] = static_cast<uint16_t>(word >> 16);
  }
}

void encode_block_iq2_xs(const Samples<kElems>& samples, BlockIQ2_XS& block) {
  const TypeIQ2 type{grid_of<EightOfThree>(kIq2XsGrid), {kValues2, {}}, 1, false, 0.125f, 15};
  const Magnitudes m = magnitudes_of(samples, true);
  const auto fit = GridFit(type, m.x, samples.w, samples.exponent).fit(kScales2);
  block.d = fit.d.code;
  for (int i = 0; i < 32; ++i) block.qs[i] = static_cast<uint16_t>(fit.index[i] | (m.signs[i] & 127) << 9);
  for (int g = 0; g < 16; ++g) block.scales[g / 2] |= static_cast<uint8_t>(fit.code[g] << (4 * (g % 2)));
}

void encode_block_iq2_s(const Samples<kElems>& samples, BlockIQ2_S& block) {
  const TypeIQ2 type{grid_of<EightOfThree>(kIq2SGrid), {kValues2, {}}, 1, false, 0.125f, 15};
  const Magnitudes m = magnitudes_of(samples, false);
  const auto fit = GridFit(type, m.x, samples.w, samples.exponent).fit(kScales2);
  block.d = fit.d.code;
  for (int i = 0; i < 32; ++i) {
    block.qs[i] = static_cast<uint8_t>(fit.index[i]);
    block.signs[i] = m.signs[i];
    block.qh[i / 4] |= static_cast<uint8_t>((fit.index[i] >> 8) << (2 * (i % 4)));
  }
  for (int g = 0; g < 16; ++g) block.scales[g / 2] |= static_cast<uint8_t>(fit.code[g] << (4 * (g % 2)));
}

void encode_block_iq3_xxs(const Samples<kElems>& samples, BlockIQ3_XXS& block) {
  const TypeIQ3 type{grid_of<FourOfEight>(kIq3XxsGrid), {values3(kIq3XxsValues), {}}, 1, false, 0.25f, 15};
  const Magnitudes m = magnitudes_of(samples, true);
  const auto fit = GridFit(type, m.x, samples.w, samples.exponent).fit(kScales3Xxs);
  block.d = fit.d.code;
  for (int i = 0; i < 64; ++i) block.qs[i] = static_cast<uint8_t>(fit.index[i]);
  for (int g = 0; g < 8; ++g) {
    uint32_t word = static_cast<uint32_t>(fit.code[g]) << 28;
    for (int i = 0; i < 4; ++i) word |= (m.signs[4 * g + i] & 127u) << (7 * i);
    std::memcpy(block.scales + 4 * g, &word, sizeof word);
  }
}

void encode_block_iq3_s(const Samples<kElems>& samples, BlockIQ3_S& block) {
  const TypeIQ3 type{grid_of<FourOfEight>(kIq3SGrid), {values3(kIq3SValues), {}}, 1, false, 1.0f, 15};
  const Magnitudes m = magnitudes_of(samples, false);
  const auto fit = GridFit(type, m.x, samples.w, samples.exponent).fit(kScales3S);
  block.d = fit.d.code;
  for (int i = 0; i < 64; ++i) {
    block.qs[i] = static_cast<uint8_t>(fit.index[i]);
    block.qh[i / 8] |= static_cast<uint8_t>((fit.index[i] >> 8) << (i % 8));
  }
  std::copy_n(m.signs, 32, block.signs);
  for (int g = 0; g < 8; ++g) block.scales[g / 2] |= static_cast<uint8_t>(fit.code[g] << (4 * (g % 2)));
}

constexpr std::array<float, 3> kValues1Up{-0.875f, 0.125f, 1.125f}, kValues1Down{-1.125f, -0.125f, 0.875f};

void encode_block_iq1_s(const Samples<kElems>& samples, BlockIQ1_S& block) {
  const TypeIQ2Wide type{grid_of<EightOfThree>(kIq1Grid), {kValues1Up, kValues1Down}, 2, false, 1.0f, 7};
  const auto fit = GridFit(type, samples.x, samples.w, samples.exponent).fit(kScales1);
  block.d = fit.d.code;
  for (int i = 0; i < 32; ++i) {
    block.qs[i] = static_cast<uint8_t>(fit.index[i]);
    block.qh[i / 4] |= static_cast<uint16_t>((fit.index[i] >> 8) << (3 * (i % 4)));
  }
  for (int g = 0; g < 8; ++g) block.qh[g] |= static_cast<uint16_t>(fit.code[g] << 12 | fit.variant[4 * g] << 15);
}

void encode_block_iq1_m(const Samples<kElems>& samples, BlockIQ1_M& block) {
  const TypeIQ2 type{grid_of<EightOfThree>(kIq1Grid), {kValues1Up, kValues1Down}, 2, true, 1.0f, 7};
  const auto fit = GridFit(type, samples.x, samples.w, samples.exponent).fit(kScales1);
  for (int i = 0; i < 32; ++i) {
    block.qs[i] = static_cast<uint8_t>(fit.index[i]);
    block.qh[i / 2] |= static_cast<uint8_t>((fit.index[i] >> 8 | fit.variant[i] << 3) << (4 * (i % 2)));
  }
  for (int g = 0; g < 16; ++g) block.scales[g / 4] |= static_cast<uint16_t>(fit.code[g] << (3 * (g % 4)));
  for (int i = 0; i < 4; ++i) block.scales[i] |= static_cast<uint16_t>((fit.d.code >> (4 * i) & 15) << 12);
}

}  // namespace

void encode_iq2_xxs(const float* x, int64_t n_blocks, const float* importance, std::byte* blocks) {
  encode_samples<kElems, BlockIQ2_XXS, DType::iq2_xxs>(x, n_blocks, importance, blocks, encode_block_iq2_xxs);
}
void encode_iq2_xs(const float* x, int64_t n_blocks, const float* importance, std::byte* blocks) {
  encode_samples<kElems, BlockIQ2_XS, DType::iq2_xs>(x, n_blocks, importance, blocks, encode_block_iq2_xs);
}
void encode_iq2_s(const float* x, int64_t n_blocks, const float* importance, std::byte* blocks) {
  encode_samples<kElems, BlockIQ2_S, DType::iq2_s>(x, n_blocks, importance, blocks, encode_block_iq2_s);
}
void encode_iq3_xxs(const float* x, int64_t n_blocks, const float* importance, std::byte* blocks) {
  encode_samples<kElems, BlockIQ3_XXS, DType::iq3_xxs>(x, n_blocks, importance, blocks, encode_block_iq3_xxs);
}
void encode_iq3_s(const float* x, int64_t n_blocks, const float* importance, std::byte* blocks) {
  encode_samples<kElems, BlockIQ3_S, DType::iq3_s>(x, n_blocks, importance, blocks, encode_block_iq3_s);
}
void encode_iq1_s(const float* x, int64_t n_blocks, const float* importance, std::byte* blocks) {
  encode_samples<kElems, BlockIQ1_S, DType::iq1_s>(x, n_blocks, importance, blocks, encode_block_iq1_s);
}
void encode_iq1_m(const float* x, int64_t n_blocks, const float* importance, std::byte* blocks) {
  encode_samples<kElems, BlockIQ1_M, DType::iq1_m>(x, n_blocks, importance, blocks, encode_block_iq1_m);
}

}  // namespace tokamak
