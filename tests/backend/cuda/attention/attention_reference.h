// One head of one token in double: what the kernels of few and of many tokens are compared with.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "backend/cuda/attention/layout.h"

namespace tokamak::cuda {

inline constexpr const char* kKvTypeNames[] = {"f32", "f16", "bf16", "q8_0", "f8"};  // by KvType

// Adds a case for caches of `type`, which its name then begins with.
template <class Shape>
void add_shape(std::vector<Shape>& shapes, KvType type, Shape shape) {
  shape.type = type;
  shape.name = std::string(kKvTypeNames[static_cast<size_t>(type)]) + "_" + shape.name;
  shapes.push_back(std::move(shape));
}

struct KeyRange {
  int64_t begin, end;
};
// shape: has window, chunk and causal. n_keys: of the sequence.
template <class Shape>
KeyRange visible_keys(const Shape& shape, int64_t position, int64_t n_keys) {
  KeyRange keys{0, shape.causal ? position + 1 : n_keys};
  if (shape.window > 0) keys = {std::max<int64_t>(0, position - shape.window + 1), std::min(keys.end, position + 1)};
  if (shape.chunk > 0) keys.begin = std::max(keys.begin, position / shape.chunk * shape.chunk);
  return keys;
}

struct Attended {
  std::vector<double> y, magnitude;                   // sums of p v and of p |v|
  double largest_score = -HUGE_VAL, largest_sum = 0;  // of a key: its score; its sum of scale |q k|
};
// shape: has dk, dv, scale() and softcap. sink: -infinity for none. key_row, value_row: (key) -> const double*.
template <class Shape, class KeyRow, class ValueRow>
Attended attend(const Shape& shape, const float* q, KeyRange keys, double sink, KeyRow key_row, ValueRow value_row) {
  Attended out{.y = std::vector<double>(static_cast<size_t>(shape.dv)), .magnitude = {}};
  out.magnitude = out.y;
  std::vector<double> probs;
  for (int64_t key = keys.begin; key < keys.end; ++key) {
    const double* k = key_row(key);
    double score = 0, sum = 0;
    for (int64_t i = 0; i < shape.dk; ++i) score += double{q[i]} * k[i], sum += std::abs(double{q[i]} * k[i]);
    score *= shape.scale();
    if (shape.softcap > 0) score = shape.softcap * std::tanh(score / shape.softcap);
    probs.push_back(score);
    out.largest_sum = std::max(out.largest_sum, shape.scale() * sum);
    out.largest_score = std::max(out.largest_score, score);
  }
  double total = std::exp(sink - out.largest_score);
  for (double& p : probs) total += p = std::exp(p - out.largest_score);
  for (int64_t key = keys.begin; key < keys.end; ++key) {
    const double* v = value_row(key);
    const double p = probs[static_cast<size_t>(key - keys.begin)] / total;
    for (size_t i = 0; i < out.y.size(); ++i) out.y[i] += p * v[i], out.magnitude[i] += p * std::abs(v[i]);
  }
  return out;
}

}  // namespace tokamak::cuda
