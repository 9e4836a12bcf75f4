// Error rules of rotations, cache writes and attention.
#include <algorithm>

#include "backend/reference/rounding.h"
#include "check/error_analysis.h"

namespace tokamak::check {

using ir::Attr;
using ir::Node;

// A pair turns: both elements carry what either held. Angles are f64 in both; sines and cosines are rounded to f32.
void error_rope(Analysis& a, const Node& node) {
  const Numbers& in = a.of(node.inputs[0]);
  Numbers& out = a.of(node.output);
  const auto width = static_cast<size_t>(a.shape(node.output)[2]);
  const auto n_pairs = static_cast<size_t>(node.attrs.integer(Attr::n_rot)) / 2;
  const bool neox = node.attrs.keyword<ir::RopePairing>(Attr::pairing) == ir::RopePairing::neox;
  const double magnitude = node.attrs.number(Attr::attn_factor);
  out.e = in.e;
  for (size_t begin = 0; begin < in.x.size(); begin += width)
    for (size_t i = 0; i < n_pairs; ++i) {
      const size_t p = begin + (neox ? i : 2 * i), q = begin + (neox ? i + n_pairs : 2 * i + 1);
      const double size = std::abs(double{in.x[p]}) + std::abs(double{in.x[q]});
      const double e = magnitude * (in.e[p] + in.e[q] + 6 * kUnit * size);
      out.e[p] = e + stored(double{out.x[p]});
      out.e[q] = e + stored(double{out.x[q]});
    }
}

namespace {
// The distance between neighbours of the cache's type around x: what a slightly different x may be rounded to.
double step_of(DType type, double x, double largest) {
  if (type == DType::f16) return std::max(std::abs(x) * 0x1p-10, 0x1p-24);
  if (type == DType::bf16) return std::max(std::abs(x) * 0x1p-7, 0x1p-126);
  if (type == DType::q8_0) return largest / 127 * 1.01;
  if (type == DType::f8_e4m3) return 1.01 * std::max(std::abs(x) / 8, largest / 448 * 0x1p-9);
  return 0;
}
}  // namespace

void error_set_rows(Analysis& a, const Node& node) {
  const Numbers &in = a.of(node.inputs[1]), &slots = a.of(node.inputs[2]);
  const DType type = a.graph.value(node.inputs[0]).dtype;
  const Shape& shape = a.shape(node.inputs[1]);
  const auto head_dim = static_cast<size_t>(shape[2]), row = static_cast<size_t>(shape[1]) * head_dim;
  Numbers& state = a.state(node.inputs[0]);
  for (size_t t = 0; t < slots.i.size(); ++t)
    for (size_t at = 0; at < row; at += head_dim) {
      const size_t to = static_cast<size_t>(slots.i[t]) * row + at;
      std::vector<float> x(in.x.begin() + static_cast<ptrdiff_t>(t * row + at),
                           in.x.begin() + static_cast<ptrdiff_t>(t * row + at + head_dim));
      double largest = 0, worst = 0;
      for (size_t i = 0; i < head_dim; ++i) {
        largest = std::max(largest, std::abs(double{x[i]}));
        worst = std::max(worst, in.e[t * row + at + i]);
      }
      reference::round_to(type, x);
      for (size_t i = 0; i < head_dim; ++i) {
        const double e = in.e[t * row + at + i];
        state.x[to + i] = x[i];
        state.e[to + i] = worst > 0 ? e + step_of(type, double{x[i]}, largest + worst) : 0;
      }
    }
}

namespace {
struct Attention {
  Analysis& a;
  const Node& node;
  const Numbers &q = a.of(node.inputs[0]), &k = a.state(node.inputs[1]), &v = a.state(node.inputs[2]);
  size_t n_head = static_cast<size_t>(a.shape(node.inputs[0])[1]), dk = static_cast<size_t>(a.shape(node.inputs[0])[2]);
  size_t n_head_kv = static_cast<size_t>(a.shape(node.inputs[1])[1]),
         dv = static_cast<size_t>(a.shape(node.inputs[2])[2]);
  double scale = node.attrs.number(Attr::scale), softcap = node.attrs.number(Attr::softcap);

  // Slots of the keys that token t sees.
  std::vector<size_t> visible(size_t t) const {
    const int64_t position = a.step.positions[t], window = node.attrs.integer(Attr::window);
    const int64_t chunk = node.attrs.integer(Attr::chunk), page_size = a.c.kv.page_size;
    int64_t first = window > 0 ? std::max<int64_t>(0, position - window + 1) : 0;
    if (chunk > 0) first = std::max(first, position / chunk * chunk);
    const std::vector<int32_t>& pages = a.step.pages[static_cast<size_t>(a.step.seq_ids[t])];
    std::vector<size_t> slots;
    for (int64_t p = first; p <= position; ++p)
      slots.push_back(static_cast<size_t>(pages[static_cast<size_t>(p / page_size)] * page_size + p % page_size));
    return slots;
  }

  // What decoding cached numbers to binary16 costs them, beside a relative error: below its normal numbers half a step.
  DType type = a.graph.value(node.inputs[1]).dtype;
  bool in_half = a.shape(node.output)[0] > a.arithmetic.half_attention_above;
  bool decodes = in_half && type != DType::f16 && type != DType::f32;
  double lost(double x) const { return decodes && std::abs(x) < kHalfNormal ? kHalfTiny : 0; }

  // A score is off by the roundings of its dot product, a result by twice that and by its own sums.
  void row(size_t t, size_t head, Numbers& out) const {
    const std::vector<size_t> slots = visible(t);
    const size_t head_kv = head / (n_head / n_head_kv), at = (t * n_head + head) * dk;
    std::vector<double> scores;
    double magnitude = 0, carried = 0, maximum = -HUGE_VAL;
    for (size_t slot : slots) {
      const size_t key = (slot * n_head_kv + head_kv) * dk;
      double score = 0, size = 0, e = 0;
      for (size_t i = 0; i < dk; ++i) {
        const double x = q.x[at + i], y = k.x[key + i], k_error = k.e[key + i] + lost(y);
        score += x * y;
        size += std::abs(x * y);
        e += std::abs(x) * k_error + std::abs(y) * q.e[at + i] + q.e[at + i] * k_error;
      }
      score *= scale;
      if (softcap != 0) score = softcap * std::tanh(score / softcap);
      scores.push_back(score);
      maximum = std::max(maximum, score);
      magnitude = std::max(magnitude, std::abs(scale) * size);
      carried = std::max(carried, std::abs(scale) * e);
    }
    double half = in_half ? 2 * 0x1p-11 : 0;  // of a product: both factors
    if (type == DType::bf16) half = std::max(half, a.arithmetic.bf16_attention_error);
    const double score_error =
        carried + ((static_cast<double>(dk) + 8) * kUnit + half) * (magnitude + 1) + 16 * kUnit * softcap;
    const double relative = std::expm1(2 * score_error + (2 * static_cast<double>(slots.size()) + 64) * kUnit + half);
    // One visible key has weight 1 exactly; but scales of F8 may be applied to weights first, those of Q8_0 in
    // binary16.
    const bool one_key = node.inputs.size() < 6 && type != DType::f8_e4m3 && !(in_half && type == DType::q8_0);
    double total = 0;
    for (double score : scores) total += std::exp(score - maximum);
    for (size_t i = 0; i < dv; ++i) {
      double size = 0, e = 0;
      for (size_t j = 0; j < slots.size(); ++j) {
        const size_t value = (slots[j] * n_head_kv + head_kv) * dv + i;
        const double weight = std::exp(scores[j] - maximum) / total;  // at most: a sink makes it smaller
        size += weight * std::abs(double{v.x[value]});
        e += weight * (v.e[value] + lost(v.x[value]));
      }
      const size_t to = (t * n_head + head) * dv + i;
      const bool is_copy = one_key && slots.size() == 1;
      out.e[to] = e * (1 + relative) + (is_copy ? 0 : relative * size + stored(double{out.x[to]}));
    }
  }
};
}  // namespace

void error_flash_attn_ext(Analysis& a, const Node& node) {
  const Attention attention{a, node};
  Numbers& out = a.of(node.output);
  for (size_t t = 0; t < static_cast<size_t>(a.shape(node.output)[0]); ++t)
    for (size_t head = 0; head < attention.n_head; ++head) attention.row(t, head, out);
}

}  // namespace tokamak::check
