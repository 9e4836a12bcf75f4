// Routing and experts.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "backend/reference/ops.h"
#include "backend/reference/parallel.h"

namespace tokamak::reference {

using ir::Attr;

namespace {
// Falling order, NaN last: an order even where a model holds NaN.
bool ranks_before(double a, double b) { return a > b || (std::isnan(b) && !std::isnan(a)); }
}  // namespace

void soft_max(const OpContext& c) {
  const int64_t n = c.output.row_elems();
  for (int64_t r = 0; r < c.output.n_rows(); ++r) {
    const float* x = c.inputs[0].row(r);
    const double maximum = *std::max_element(x, x + n);
    double sum = 0;
    for (int64_t i = 0; i < n; ++i) sum += std::exp(x[i] - maximum);
    for (int64_t i = 0; i < n; ++i) c.output.row(r)[i] = static_cast<float>(std::exp(x[i] - maximum) / sum);
  }
}

void sum_rows(const OpContext& c) {
  for (int64_t r = 0; r < c.inputs[0].n_rows(); ++r) {
    const float* x = c.inputs[0].row(r);
    *c.output.row(r) = static_cast<float>(std::accumulate(x, x + c.inputs[0].row_elems(), 0.0));
  }
}

void argsort(const OpContext& c) {
  const int64_t n = c.output.row_elems();
  for (int64_t r = 0; r < c.output.n_rows(); ++r) {
    const float* x = c.inputs[0].row(r);
    int32_t* out = c.output.i32_out + r * c.output.value->row_stride_elems;
    std::iota(out, out + n, 0);
    std::stable_sort(out, out + n, [x](int32_t a, int32_t b) { return ranks_before(x[a], x[b]); });
  }
}

// DeepSeek-V2 and V3 (arXiv:2412.19437, section 2.1.2): node-limited routing.
void mask_groups(const OpContext& c) {
  const int64_t n_expert = c.output.row_elems(), n_group = c.node.attrs.integer(Attr::n_group);
  const int64_t size = n_expert / n_group, n_best = c.node.attrs.integer(Attr::n_best);
  const auto n_used = static_cast<size_t>(c.node.attrs.integer(Attr::n_group_used));
  for (int64_t r = 0; r < c.output.n_rows(); ++r) {
    const float* x = c.inputs[0].row(r);
    std::vector<std::pair<double, int64_t>> groups;
    for (int64_t g = 0; g < n_group; ++g) {
      std::vector<float> scores(x + g * size, x + (g + 1) * size);
      std::ranges::sort(scores, ranks_before);
      groups.emplace_back(std::accumulate(scores.begin(), scores.begin() + n_best, 0.0), g);
    }
    std::ranges::stable_sort(groups, [](const auto& a, const auto& b) { return ranks_before(a.first, b.first); });
    std::fill_n(c.output.row(r), n_expert, -INFINITY);
    for (size_t i = 0; i < n_used; ++i) {
      const int64_t begin = groups[i].second * size;
      std::copy_n(x + begin, size, c.output.row(r) + begin);
    }
  }
}

void mul_mat_id(const OpContext& c) {
  const Tensor &weights = c.inputs[0], &x = c.inputs[1], &ids = c.inputs[2];
  const int64_t n_in = weights.row_elems(), n_out = weights.value->shape[1], n_used = ids.row_elems();
  const bool shared_input = x.value->shape[1] == 1;
  parallel_ranges(c.output.n_rows(), [&](int64_t begin, int64_t end) {
    std::vector<float> w(static_cast<size_t>(n_in));
    for (int64_t r = begin; r < end; ++r) {
      const int64_t expert = ids.i32_row(r / n_used)[r % n_used];
      const float* input = x.row(shared_input ? r / n_used : r);
      for (int64_t o = 0; o < n_out; ++o) {
        read_row(weights, expert * n_out + o, w.data());
        c.output.row(r)[o] = static_cast<float>(dot(w.data(), input, n_in));
      }
    }
  });
}

void add_id(const OpContext& c) {
  const Tensor &a = c.inputs[0], &ids = c.inputs[2];
  const int64_t n_used = ids.row_elems();
  std::vector<float> addend(static_cast<size_t>(a.row_elems()));
  for (int64_t r = 0; r < a.n_rows(); ++r) {
    read_row(c.inputs[1], ids.i32_row(r / n_used)[r % n_used], addend.data());
    for (int64_t i = 0; i < a.row_elems(); ++i)
      c.output.row(r)[i] = static_cast<float>(double{a.row(r)[i]} + double{addend[static_cast<size_t>(i)]});
  }
}

void cross_entropy_loss(const OpContext& c) {
  const Tensor &logits = c.inputs[0], &labels = c.inputs[1];
  const int64_t n = logits.row_elems();
  double total = 0;
  for (int64_t r = 0; r < logits.n_rows(); ++r) {
    const float *x = logits.row(r), *label = labels.row(r);
    const double maximum = *std::max_element(x, x + n);
    double sum = 0;
    for (int64_t i = 0; i < n; ++i) sum += std::exp(x[i] - maximum);
    for (int64_t i = 0; i < n; ++i) total -= label[i] * (x[i] - maximum - std::log(sum));
  }
  *c.output.f32 = static_cast<float>(total / static_cast<double>(logits.n_rows()));
}

}  // namespace tokamak::reference
