// Error rules of matrix products and what goes with them.
#include <algorithm>

#include "check/error_analysis.h"

namespace tokamak::check {

using ir::Node;

namespace {

// Bounds of one row of a product: what its input carries, the codes it is rounded to, and the sums.
class Product {
 public:
  Product(const Analysis& a, const ir::Value& weight, int64_t n_columns)
      : codes_(is_quantized(weight.dtype)),
        halves_(n_columns > a.arithmetic.half_products_above &&
                (weight.dtype == DType::f16 || weight.dtype == DType::bf16)),
        splits_(n_columns >= a.arithmetic.split_products_from && weight.dtype == DType::f32),
        decodes_(halves_ && weight.dtype == DType::bf16),
        arithmetic_(a.arithmetic),
        k_(static_cast<size_t>(weight.shape.row_elems())) {}

  // What |w_i| is multiplied with, for input row x.
  void set_input(const float* x, const double* e) {
    input_.assign(e, e + k_);
    size_.resize(k_);
    for (size_t i = 0; i < k_; ++i) size_[i] = std::abs(double{x[i]});
    if (halves_)
      for (size_t i = 0; i < k_; ++i) input_[i] += 0x1p-11 * (size_[i] + input_[i]);
    if (!codes_) return;
    const auto group = static_cast<size_t>(arithmetic_.group_elems);
    for (size_t begin = 0; begin < k_; begin += group) {
      const size_t end = std::min(begin + group, k_);
      double largest = 0;
      for (size_t i = begin; i < end; ++i) largest = std::max(largest, size_[i] + input_[i]);
      // Half a step, and the rounding of the scaled element before it becomes a code.
      for (size_t i = begin; i < end; ++i) input_[i] += largest / arithmetic_.max_code * 0.5 + 3 * kUnit * size_[i];
    }
  }

  // Integer kernels add code times scale minus a minimum: terms of at most three times the largest weight, one per 16
  // elements. Types that are decoded to f32 first add |w x| element by element.
  double error(const float* w, double y) const {
    double carried = 0, product = 0, input = 0, largest = 0;
    for (size_t i = 0; i < k_; ++i) {
      const double size = std::abs(double{w[i]});
      carried += size * input_[i];
      if (decodes_ && size < kHalfNormal) carried += kHalfTiny * (size_[i] + input_[i]);
      if (splits_) carried += (3 * 0x1p-22 * size + kHalfTiny / 16) * size_[i];
      product += size * size_[i];
      input += size_[i] + input_[i];
      largest = std::max(largest, size);
    }
    const auto k = static_cast<double>(k_);
    const double sums = rounding(k, product);
    return carried + (codes_ ? std::max(sums, rounding(k / 16 + 8, 3 * largest * input)) : sums) + stored(y);
  }

 private:
  bool codes_, halves_, splits_, decodes_;
  Arithmetic arithmetic_;
  size_t k_;
  std::vector<double> input_, size_;
};

}  // namespace

void error_mul_mat(Analysis& a, const Node& node) {
  const Numbers &weight = a.of(node.inputs[0]), &x = a.of(node.inputs[1]);
  const Shape& shape = a.shape(node.inputs[0]);
  const auto k = static_cast<size_t>(shape[-1]), n_out = static_cast<size_t>(shape[-2]);
  const auto n_head = static_cast<size_t>(shape.rank() == 3 ? shape[0] : 1);
  Product product(a, a.graph.value(node.inputs[0]), a.shape(node.inputs[1]).n_rows());
  Numbers& out = a.of(node.output);
  for (size_t r = 0; r < x.x.size() / k; ++r) {
    product.set_input(&x.x[r * k], &x.e[r * k]);
    for (size_t o = 0; o < n_out; ++o) {
      const float* w = &weight.x[(r % n_head * n_out + o) * k];
      double carried = 0;  // a weight may be computed
      for (size_t i = 0; i < k; ++i)
        carried += weight.e[static_cast<size_t>(w - weight.x.data()) + i] * std::abs(double{x.x[r * k + i]});
      out.e[r * n_out + o] = product.error(w, double{out.x[r * n_out + o]}) + carried;
    }
  }
}

void error_mul_mat_id(Analysis& a, const Node& node) {
  const Numbers &weight = a.of(node.inputs[0]), &x = a.of(node.inputs[1]), &ids = a.of(node.inputs[2]);
  const Shape& shape = a.shape(node.inputs[0]);
  const auto k = static_cast<size_t>(shape[2]), n_out = static_cast<size_t>(shape[1]);
  const auto n_used = static_cast<size_t>(a.shape(node.inputs[2])[1]);
  const bool shared = a.shape(node.inputs[1])[1] == 1;
  Product product(a, a.graph.value(node.inputs[0]), a.shape(node.inputs[2])[0]);
  Numbers& out = a.of(node.output);
  for (size_t r = 0; r < ids.i.size(); ++r) {
    const size_t row = shared ? r / n_used : r;
    product.set_input(&x.x[row * k], &x.e[row * k]);
    for (size_t o = 0; o < n_out; ++o)
      out.e[r * n_out + o] =
          product.error(&weight.x[(static_cast<size_t>(ids.i[r]) * n_out + o) * k], double{out.x[r * n_out + o]});
  }
}

void error_add_id(Analysis& a, const Node& node) {
  const Numbers& in = a.of(node.inputs[0]);
  Numbers& out = a.of(node.output);
  for (size_t i = 0; i < out.x.size(); ++i) out.e[i] = in.e[i] + stored(double{out.x[i]});
}

}  // namespace tokamak::check
