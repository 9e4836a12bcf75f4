#include "backend/reference/backward.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "backend/reference/ops.h"

namespace tokamak::reference {

using ir::Attr;
using ir::Op;

namespace {

using Numbers = std::vector<double>;

void add_to(const BackwardContext& c, size_t operand, size_t i, double g) {
  if (c.grads[operand] != nullptr) (*c.grads[operand])[i] += g;
}
size_t width_of(const Shape& s) { return static_cast<size_t>(s.row_elems()); }

void get_rows(const BackwardContext& c) {
  const size_t width = width_of(c.shape(0)), per_token = width_of(c.shape(1));
  for (size_t k = 0; k < c.indices[1].size(); ++k) {
    size_t row = static_cast<size_t>(c.indices[1][k]);
    if (c.shape(0).rank() == 3) row += k / per_token * static_cast<size_t>(c.shape(0)[1]);
    for (size_t i = 0; i < width; ++i) add_to(c, 0, row * width + i, c.grad[k * width + i]);
  }
}

// Element of b that element i of a meets.
size_t partner(const BackwardContext& c, size_t i) {
  const bool column = ir::broadcast_of(c.shape(0), c.shape(1)) == ir::Broadcast::column;
  return column ? i / width_of(c.shape(0)) : i % c.inputs[1]->size();
}
void add(const BackwardContext& c) {
  for (size_t i = 0; i < c.grad.size(); ++i) {
    add_to(c, 0, i, c.grad[i]);
    add_to(c, 1, partner(c, i), c.grad[i]);
  }
}
void mul(const BackwardContext& c) {
  for (size_t i = 0; i < c.grad.size(); ++i) {
    const size_t k = partner(c, i);
    add_to(c, 0, i, c.grad[i] * (*c.inputs[1])[k]);
    add_to(c, 1, k, c.grad[i] * (*c.inputs[0])[i]);
  }
}

void scale(const BackwardContext& c) {
  for (size_t i = 0; i < c.grad.size(); ++i) add_to(c, 0, i, c.node.attrs.number(Attr::scale) * c.grad[i]);
}

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double silu_slope(double x) { return sigmoid(x) * (1 + x * (1 - sigmoid(x))); }

bool is_silu(const ir::Node& node) { return node.attrs.keyword<ir::Unary>(Attr::unary) == ir::Unary::silu; }
void unary(const BackwardContext& c) {
  for (size_t i = 0; i < c.grad.size(); ++i) add_to(c, 0, i, silu_slope((*c.inputs[0])[i]) * c.grad[i]);
}

bool is_swiglu(const ir::Node& node) { return node.attrs.keyword<ir::Glu>(Attr::glu) == ir::Glu::swiglu; }
void glu(const BackwardContext& c) {
  const bool split = c.inputs.size() == 1;
  const size_t n = width_of(c.graph.value(c.node.output).shape), up_operand = split ? 0 : 1;
  for (size_t i = 0; i < c.grad.size(); ++i) {
    const size_t g = split ? i / n * 2 * n + i % n : i, u = split ? g + n : i;
    const double gate = (*c.inputs[0])[g], up = (*c.inputs[up_operand])[u];
    add_to(c, 0, g, silu_slope(gate) * up * c.grad[i]);
    add_to(c, up_operand, u, gate * sigmoid(gate) * c.grad[i]);
  }
}

// y = x f, f = (mean x^2 + eps)^-1/2: dx_i = f g_i - f^3 / n x_i sum_j g_j x_j.
void rms_norm(const BackwardContext& c) {
  const Numbers& x = *c.inputs[0];
  const size_t n = width_of(c.shape(0));
  for (size_t begin = 0; begin < x.size(); begin += n) {
    double square = 0, along = 0;
    for (size_t i = begin; i < begin + n; ++i) {
      square += x[i] * x[i];
      along += c.grad[i] * x[i];
    }
    const auto count = static_cast<double>(n);
    const double f = 1 / std::sqrt(square / count + c.node.attrs.number(Attr::eps));
    for (size_t i = begin; i < begin + n; ++i) add_to(c, 0, i, f * c.grad[i] - f * f * f / count * x[i] * along);
  }
}

// dx_i = p_i (g_i - sum_j p_j g_j).
void soft_max(const BackwardContext& c) {
  const size_t n = width_of(c.shape(0));
  for (size_t begin = 0; begin < c.output.size(); begin += n) {
    double mean = 0;
    for (size_t i = begin; i < begin + n; ++i) mean += c.output[i] * c.grad[i];
    for (size_t i = begin; i < begin + n; ++i) add_to(c, 0, i, c.output[i] * (c.grad[i] - mean));
  }
}

void mul_mat(const BackwardContext& c) {
  const Numbers &w = *c.inputs[0], &x = *c.inputs[1];
  const Shape& shape = c.shape(0);
  const auto k = static_cast<size_t>(shape[-1]), n_out = static_cast<size_t>(shape[-2]);
  const auto n_head = static_cast<size_t>(shape.rank() == 3 ? shape[0] : 1);
  for (size_t r = 0; r < x.size() / k; ++r)
    for (size_t o = 0; o < n_out; ++o) {
      const double g = c.grad[r * n_out + o];
      const size_t row = (r % n_head * n_out + o) * k;
      for (size_t i = 0; i < k; ++i) {
        add_to(c, 0, row + i, g * x[r * k + i]);
        add_to(c, 1, r * k + i, g * w[row + i]);
      }
    }
}

// A rotation's transpose turns back.
void rope(const BackwardContext& c) {
  std::vector<float> factors;
  Tensor factor_tensor;
  if (c.inputs.size() > 2) {
    factors.assign(c.inputs[2]->begin(), c.inputs[2]->end());
    factor_tensor = {.value = &c.graph.value(c.node.inputs[2]), .f32 = factors.data()};
  }
  const RopeAngles angles = rope_angles(c.node.attrs, c.inputs.size() > 2 ? &factor_tensor : nullptr);
  const bool neox = c.node.attrs.keyword<ir::RopePairing>(Attr::pairing) == ir::RopePairing::neox;
  const size_t n_pairs = angles.per_position.size(), width = width_of(c.shape(0));
  const auto n_head = static_cast<size_t>(c.shape(0)[1]);
  for (size_t begin = 0; begin < c.grad.size(); begin += width) {
    const double position = c.indices[1][begin / width / n_head];
    for (size_t i = 2 * n_pairs; i < width; ++i) add_to(c, 0, begin + i, c.grad[begin + i]);
    for (size_t i = 0; i < n_pairs; ++i) {
      const size_t p = begin + (neox ? i : 2 * i), q = begin + (neox ? i + n_pairs : 2 * i + 1);
      const double angle = position * angles.per_position[i];
      const double cosine = std::cos(angle) * angles.magnitude, sine = std::sin(angle) * angles.magnitude;
      add_to(c, 0, p, c.grad[p] * cosine + c.grad[q] * sine);
      add_to(c, 0, q, c.grad[q] * cosine - c.grad[p] * sine);
    }
  }
}

// L = -1/R sum_r sum_i l_i log p_i: by the logits 1/R (p_i sum l - l_i), by the labels -1/R log p_i.
void cross_entropy_loss(const BackwardContext& c) {
  const Numbers &x = *c.inputs[0], &labels = *c.inputs[1];
  const size_t n = width_of(c.shape(0));
  const double g = c.grad[0] / static_cast<double>(c.shape(0).n_rows());
  for (size_t begin = 0; begin < x.size(); begin += n) {
    double maximum = x[begin], sum = 0, weight = 0;
    for (size_t i = begin; i < begin + n; ++i) maximum = std::max(maximum, x[i]);
    for (size_t i = begin; i < begin + n; ++i) {
      sum += std::exp(x[i] - maximum);
      weight += labels[i];
    }
    for (size_t i = begin; i < begin + n; ++i) {
      add_to(c, 0, i, g * (std::exp(x[i] - maximum) / sum * weight - labels[i]));
      add_to(c, 1, i, -g * (x[i] - maximum - std::log(sum)));
    }
  }
}

void reshape(const BackwardContext& c) {
  for (size_t i = 0; i < c.grad.size(); ++i) add_to(c, 0, i, c.grad[i]);
}
void view(const BackwardContext& c) {
  const size_t from = width_of(c.shape(0)), to = width_of(c.graph.value(c.node.output).shape);
  const auto offset = static_cast<size_t>(c.node.attrs.integer(Attr::offset));
  for (size_t i = 0; i < c.grad.size(); ++i) add_to(c, 0, i / to * from + offset + i % to, c.grad[i]);
}

constexpr auto kRows = std::to_array<BackwardRow>({
    {Op::get_rows, get_rows},
    {Op::add, add},
    {Op::mul, mul},
    {Op::scale, scale},
    {Op::unary, unary, is_silu},
    {Op::glu, glu, is_swiglu},
    {Op::rms_norm, rms_norm},
    {Op::soft_max, soft_max},
    {Op::mul_mat, mul_mat},
    {Op::rope, rope},
    {Op::cross_entropy_loss, cross_entropy_loss},
    {Op::reshape, reshape},
    {Op::view, view},
});
static_assert(std::ranges::is_sorted(kRows, {}, &BackwardRow::op));

}  // namespace

std::span<const BackwardRow> backward_table() { return kRows; }

const BackwardRow* find_backward(const ir::Node& node) {
  for (const BackwardRow& row : kRows)
    if (row.op == node.op && (row.covers == nullptr || row.covers(node))) return &row;
  return nullptr;
}

}  // namespace tokamak::reference
