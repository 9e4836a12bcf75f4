// Error rules of element-wise and row-wise ops.
#include <algorithm>
#include <numeric>

#include "base/check.h"
#include "check/error_analysis.h"

namespace tokamak::check {

using ir::Attr;
using ir::Node;
using ir::Op;

namespace {
size_t rows_of(const Shape& s) { return static_cast<size_t>(s.n_rows()); }
size_t width_of(const Shape& s) { return static_cast<size_t>(s.row_elems()); }

// Slope of a function, at most, and what its evaluation may lose: some units of the result, one more for each unit of
// an exponent's argument, and units of x where 1 + tanh or erf cancel.
double slope(ir::Unary f, double x, double e) {
  switch (f) {
    case ir::Unary::silu:
    case ir::Unary::gelu:
    case ir::Unary::gelu_erf:
    case ir::Unary::gelu_quick:
      return 1.2;
    case ir::Unary::relu:
    case ir::Unary::tanh:
    case ir::Unary::softplus:
    case ir::Unary::sin:
      return 1;
    case ir::Unary::sigmoid:
      return 0.25;
    case ir::Unary::exp:
      return std::exp(x + e);
    case ir::Unary::sqr:
      return 2 * std::abs(x) + e;
    case ir::Unary::sqrt:
      return e == 0 ? 0 : 1 / std::sqrt(std::max(x - e, e));
  }
  return 0;
}
double function_error(ir::Unary f, double x, double y) {
  if (f == ir::Unary::relu || f == ir::Unary::sqr || f == ir::Unary::sqrt) return kUnit * std::abs(y);
  if (f == ir::Unary::sin) return 8 * kUnit * (1 + std::abs(x));
  return kUnit * ((32 + 16 * std::abs(x) * (1 + x * x / 16)) * std::abs(y) + 4 * std::abs(x));
}
double activation(ir::Glu kind, double x) {
  constexpr double kGelu = 0.7978845608028654;  // sqrt(2 / pi)
  switch (kind) {
    case ir::Glu::reglu:
      return std::max(x, 0.0);
    case ir::Glu::geglu:
      return 0.5 * x * (1 + std::tanh(kGelu * (x + 0.044715 * x * x * x)));
    case ir::Glu::geglu_erf:
      return 0.5 * x * std::erfc(-x / std::sqrt(2.0));
    case ir::Glu::geglu_quick:
      return x / (1 + std::exp(-1.702 * x));
    case ir::Glu::swiglu:
    case ir::Glu::swiglu_oai:
      break;
  }
  return x / (1 + std::exp(-x));
}
}  // namespace

// Exact: decoding has one result.
void error_get_rows(Analysis& a, const Node& node) {
  const Numbers &table = a.of(node.inputs[0]), &ids = a.of(node.inputs[1]);
  const Shape& shape = a.shape(node.inputs[0]);
  const size_t width = width_of(shape), n_ids = ids.i.size();
  const size_t per_token = width_of(a.shape(node.inputs[1]));
  Numbers& out = a.of(node.output);
  out.x.resize(n_ids * width);
  out.e.resize(n_ids * width);
  for (size_t k = 0; k < n_ids; ++k) {
    size_t row = static_cast<size_t>(ids.i[k]);
    if (shape.rank() == 3) row += k / per_token * static_cast<size_t>(shape[1]);
    std::copy_n(table.x.begin() + static_cast<ptrdiff_t>(row * width), width,
                out.x.begin() + static_cast<ptrdiff_t>(k * width));
    std::copy_n(table.e.begin() + static_cast<ptrdiff_t>(row * width), width,
                out.e.begin() + static_cast<ptrdiff_t>(k * width));
  }
}

void error_binary(Analysis& a, const Node& node) {
  const Numbers &left = a.of(node.inputs[0]), &right = a.of(node.inputs[1]);
  const Shape& shape = a.shape(node.inputs[0]);
  const ir::Broadcast how = ir::broadcast_of(shape, a.shape(node.inputs[1]));
  const size_t width = width_of(shape);
  Numbers& out = a.of(node.output);
  for (size_t i = 0; i < out.x.size(); ++i) {
    const size_t k = how == ir::Broadcast::column ? i / width : i % right.x.size();
    const double x = left.x[i], y = right.x[k], ex = left.e[i], ey = right.e[k];
    double e = ex + ey;
    if (node.op == Op::mul) e = std::abs(x) * ey + std::abs(y) * ex + ex * ey;
    if (node.op == Op::div) e = (ex + std::abs(double{out.x[i]}) * ey) / std::max(std::abs(y) - ey, 1e-300);
    // A quotient may be a product with the reciprocal.
    out.e[i] = e + stored(double{out.x[i]}) + (node.op == Op::div ? stored(double{out.x[i]}) : 0);
  }
}

void error_scale(Analysis& a, const Node& node) {
  const Numbers& in = a.of(node.inputs[0]);
  const double s = node.attrs.number(Attr::scale), bias = node.attrs.number(Attr::bias);
  Numbers& out = a.of(node.output);
  // The attributes themselves become f32.
  for (size_t i = 0; i < out.x.size(); ++i)
    out.e[i] =
        std::abs(s) * in.e[i] + rounding(2, std::abs(s * double{in.x[i]}) + std::abs(bias)) + stored(double{out.x[i]});
}

void error_clamp(Analysis& a, const Node& node) {
  Numbers& out = a.of(node.output);
  const Numbers& in = a.of(node.inputs[0]);
  for (size_t i = 0; i < out.x.size(); ++i) out.e[i] = in.e[i] + (out.x[i] == in.x[i] ? 0 : stored(double{out.x[i]}));
}

void error_unary(Analysis& a, const Node& node) {
  const auto f = node.attrs.keyword<ir::Unary>(Attr::unary);
  const Numbers& in = a.of(node.inputs[0]);
  Numbers& out = a.of(node.output);
  for (size_t i = 0; i < out.x.size(); ++i) {
    const double x = in.x[i], y = out.x[i];
    out.e[i] = slope(f, x, in.e[i]) * in.e[i] + function_error(f, x, y) + stored(y);
  }
}

void error_glu(Analysis& a, const Node& node) {
  const auto kind = node.attrs.keyword<ir::Glu>(Attr::glu);
  const double alpha = node.attrs.number(Attr::alpha), limit = node.attrs.number(Attr::limit);
  const bool split = node.inputs.size() == 1, oai = kind == ir::Glu::swiglu_oai;
  const Numbers &first = a.of(node.inputs[0]), &second = a.of(node.inputs[split ? 0 : 1]);
  Numbers& out = a.of(node.output);
  const size_t width = width_of(a.shape(node.output));
  for (size_t i = 0; i < out.x.size(); ++i) {
    const size_t g = split ? i / width * 2 * width + i % width : i, k = split ? g + width : i;
    double gate = first.x[g], up = second.x[k], act = 0, error = 0;
    if (oai) {
      gate = std::min(gate, limit);
      up = std::clamp(up, -limit, limit) + 1;
      act = gate / (1 + std::exp(-alpha * gate));
      error = function_error(ir::Unary::silu, gate * (1 + alpha), act) + kUnit * std::abs(act);
    } else {
      act = activation(kind, gate);
      error = function_error(ir::Unary::gelu, gate, act);
    }
    error += 1.2 * first.e[g];
    out.e[i] = error * (std::abs(up) + second.e[k] + kUnit) + std::abs(act) * (second.e[k] + (oai ? stored(up) : 0)) +
               stored(double{out.x[i]});
  }
}

// y = (x - mean) / root: the mean and the square sum lose n*u of what they add, the root half of that.
void error_norm(Analysis& a, const Node& node) {
  const Numbers& in = a.of(node.inputs[0]);
  Numbers& out = a.of(node.output);
  const double eps = node.attrs.number(Attr::eps);
  const size_t width = width_of(a.shape(node.output));
  const auto n = static_cast<double>(width);
  for (size_t begin = 0; begin < out.x.size(); begin += width) {
    double mean = 0, mean_error = 0, sum = 0, sum_error = 0;
    if (node.op == Op::norm)
      for (size_t i = begin; i < begin + width; ++i) {
        mean += double{in.x[i]} / n;
        mean_error += (in.e[i] + rounding(n, std::abs(double{in.x[i]}))) / n;
      }
    for (size_t i = begin; i < begin + width; ++i) {
      const double x = in.x[i] - mean, e = in.e[i] + mean_error + kUnit * std::abs(x);
      sum += x * x;
      sum_error += 2 * std::abs(x) * e + e * e + rounding(n + 2, x * x);
    }
    const double scale = node.op == Op::l2_norm ? 1 : n;
    const double square = sum / scale + eps;
    const double relative = square == 0 ? 0 : 0.5 * (sum_error / scale) / square + 6 * kUnit;
    for (size_t i = begin; i < begin + width; ++i) {
      const double e = in.e[i] + mean_error + (node.op == Op::norm ? kUnit * std::abs(double{in.x[i]}) : 0);
      const double factor = square == 0 ? 0 : 1 / std::sqrt(square);
      out.e[i] = factor * e * (1 + relative) + std::abs(double{out.x[i]}) * relative + stored(double{out.x[i]});
    }
  }
}

void error_soft_max(Analysis& a, const Node& node) {
  const Numbers& in = a.of(node.inputs[0]);
  Numbers& out = a.of(node.output);
  const size_t width = width_of(a.shape(node.output));
  for (size_t begin = 0; begin < out.x.size(); begin += width) {
    const float maximum = *std::max_element(in.x.begin() + static_cast<ptrdiff_t>(begin),
                                            in.x.begin() + static_cast<ptrdiff_t>(begin + width));
    double largest_error = 0;
    for (size_t i = begin; i < begin + width; ++i) largest_error = std::max(largest_error, in.e[i]);
    for (size_t i = begin; i < begin + width; ++i) {
      const double distance = std::abs(double{in.x[i]} - double{maximum});
      const double relative = std::expm1(2 * largest_error + kUnit * (static_cast<double>(width) + 32 + 16 * distance));
      // Far below the maximum a result may vanish.
      out.e[i] = std::abs(double{out.x[i]}) * relative + stored(double{out.x[i]}) + 1e-37;
    }
  }
}

void error_sum_rows(Analysis& a, const Node& node) {
  const Numbers& in = a.of(node.inputs[0]);
  Numbers& out = a.of(node.output);
  const size_t width = width_of(a.shape(node.inputs[0]));
  for (size_t r = 0; r < out.x.size(); ++r) {
    double e = 0;
    for (size_t i = r * width; i < (r + 1) * width; ++i)
      e += in.e[i] + rounding(static_cast<double>(width), std::abs(double{in.x[i]}));
    out.e[r] = e + stored(double{out.x[r]});
  }
}

// There is one order where inexact values lie further apart than their bounds.
void error_argsort(Analysis& a, const Node& node) {
  const Numbers& in = a.of(node.inputs[0]);
  Numbers& out = a.of(node.output);
  const size_t width = width_of(a.shape(node.output));
  out.i.resize(in.x.size());
  for (size_t begin = 0; begin < in.x.size(); begin += width) {
    const auto row = out.i.begin() + static_cast<ptrdiff_t>(begin);
    std::iota(row, row + static_cast<ptrdiff_t>(width), 0);
    std::stable_sort(row, row + static_cast<ptrdiff_t>(width), [&](int32_t i, int32_t k) {
      return in.x[begin + static_cast<size_t>(i)] > in.x[begin + static_cast<size_t>(k)];
    });
    for (size_t i = 1; i < width; ++i) {
      const size_t larger = begin + static_cast<size_t>(row[static_cast<ptrdiff_t>(i) - 1]),
                   smaller = begin + static_cast<size_t>(row[static_cast<ptrdiff_t>(i)]);
      const double e = in.e[larger] + in.e[smaller];
      if (e > 0 && double{in.x[larger]} - double{in.x[smaller]} <= e) a.is_ambiguous = true;
    }
  }
}

// Copies. Which groups are kept must not depend on rounding.
void error_mask_groups(Analysis& a, const Node& node) {
  const Numbers& in = a.of(node.inputs[0]);
  error_same(a, node);
  const size_t width = width_of(a.shape(node.output));
  const auto n_group = static_cast<size_t>(node.attrs.integer(Attr::n_group));
  const auto n_used = static_cast<size_t>(node.attrs.integer(Attr::n_group_used));
  const auto n_best = static_cast<ptrdiff_t>(node.attrs.integer(Attr::n_best));
  for (size_t begin = 0; begin < in.x.size(); begin += width) {
    const double error =
        static_cast<double>(n_best) * *std::max_element(in.e.begin() + static_cast<ptrdiff_t>(begin),
                                                        in.e.begin() + static_cast<ptrdiff_t>(begin + width));
    std::vector<double> groups;
    for (size_t g = 0; g < n_group; ++g) {
      const auto first = in.x.begin() + static_cast<ptrdiff_t>(begin + g * width / n_group);
      std::vector<float> scores(first, first + static_cast<ptrdiff_t>(width / n_group));
      std::ranges::sort(scores, std::greater());
      groups.push_back(std::accumulate(scores.begin(), scores.begin() + n_best, 0.0));
    }
    std::ranges::sort(groups, std::greater());
    if (error > 0 && n_used < n_group && groups[n_used - 1] - groups[n_used] <= 2 * error + 4 * kUnit)
      a.is_ambiguous = true;
  }
}

// CONT: copies.
void error_same(Analysis& a, const Node& node) { a.of(node.output).e = a.of(node.inputs[0]).e; }

void error_concat(Analysis& a, const Node& node) {
  const std::vector<double>&left = a.of(node.inputs[0]).e, &right = a.of(node.inputs[1]).e;
  const size_t n_left = width_of(a.shape(node.inputs[0])), n_right = width_of(a.shape(node.inputs[1]));
  Numbers& out = a.of(node.output);
  for (size_t i = 0; i < out.e.size(); ++i) {
    const size_t row = i / (n_left + n_right), column = i % (n_left + n_right);
    out.e[i] = column < n_left ? left[row * n_left + column] : right[row * n_right + column - n_left];
  }
}

void error_attn_temp(Analysis& a, const Node& node) {
  const Numbers& in = a.of(node.inputs[0]);
  Numbers& out = a.of(node.output);
  for (size_t i = 0; i < out.x.size(); ++i) {
    const double factor = in.x[i] == 0 ? 1 : std::abs(double{out.x[i]} / double{in.x[i]});
    out.e[i] = factor * in.e[i] + rounding(4, std::abs(double{out.x[i]})) + stored(double{out.x[i]});
  }
}

void error_cross_entropy(Analysis& a, const Node& node) {
  const Numbers &logits = a.of(node.inputs[0]), &labels = a.of(node.inputs[1]);
  const size_t width = width_of(a.shape(node.inputs[0])), n_rows = rows_of(a.shape(node.inputs[0]));
  double total = 0;
  for (size_t r = 0; r < n_rows; ++r) {
    double largest = 0, error = 0, weight = 0;
    for (size_t i = r * width; i < (r + 1) * width; ++i) {
      largest = std::max(largest, std::abs(double{logits.x[i]}));
      error = std::max(error, logits.e[i]);
      weight += std::abs(double{labels.x[i]}) + labels.e[i];
    }
    const auto n = static_cast<double>(width);
    total += weight * (2 * error + rounding(2 * n + 32, 2 * largest + std::log(n) + 1));
  }
  Numbers& out = a.of(node.output);
  out.e[0] = total / static_cast<double>(n_rows) + rounding(static_cast<double>(n_rows), std::abs(double{out.x[0]}));
}

void error_view(Analysis& a, const Node& node) {
  const Numbers& in = a.of(node.inputs[0]);
  Numbers& out = a.of(node.output);
  const Shape &from = a.shape(node.inputs[0]), &to = a.shape(node.output);
  const bool is_slice = node.op == Op::view;
  const size_t n_in = is_slice ? width_of(from) : 1, n_out = is_slice ? width_of(to) : 1;
  const size_t offset = is_slice ? static_cast<size_t>(node.attrs.integer(Attr::offset)) : 0;
  const auto n = static_cast<size_t>(to.n_elements());
  const auto take = [&]<class T>(const std::vector<T>& all, std::vector<T>& part) {
    if (all.empty()) return;
    part.resize(n);
    for (size_t i = 0; i < n; ++i) part[i] = all[i / n_out * n_in + offset + i % n_out];
  };
  take(in.x, out.x);
  take(in.e, out.e);
  take(in.i, out.i);
}

}  // namespace tokamak::check
