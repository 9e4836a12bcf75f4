#include "backend/reference/ops.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <numbers>

#include "backend/reference/parallel.h"
#include "backend/reference/rounding.h"
#include "quant/codec.h"

namespace tokamak::reference {

namespace {
using ir::Attr;
using ir::Op;

void get_rows(const OpContext& c) {
  const Tensor &table = c.inputs[0], &ids = c.inputs[1];
  const int64_t per_token = ids.value->shape.rank() == 2 ? ids.row_elems() : 1;
  const bool own_part = table.value->shape.rank() == 3;  // of the table, for every token
  for (int64_t r = 0; r < c.output.n_rows(); ++r) {
    const int64_t token = r / per_token;
    const int32_t* chosen =
        per_token == 1 && ids.value->shape.rank() == 1 ? ids.i32 + r : ids.i32_row(token) + r % per_token;
    read_row(table, (own_part ? token * table.value->shape[1] : 0) + *chosen, c.output.row(r));
  }
}

template <class F>
void binary(const OpContext& c, F f) {
  const Tensor &a = c.inputs[0], &b = c.inputs[1];
  const ir::Broadcast broadcast = ir::broadcast_of(a.value->shape, b.value->shape);
  const bool one_number = broadcast == ir::Broadcast::column || broadcast == ir::Broadcast::scalar;
  std::vector<float> b_row(static_cast<size_t>(b.row_elems()));
  for (int64_t r = 0; r < c.output.n_rows(); ++r) {
    read_row(b, r % b.n_rows(), b_row.data());
    const float* x = a.row(r);
    float* y = c.output.row(r);
    for (int64_t i = 0; i < a.row_elems(); ++i)
      y[i] = static_cast<float>(f(double{x[i]}, double{b_row[one_number ? 0 : static_cast<size_t>(i)]}));
  }
}
void add(const OpContext& c) {
  binary(c, [](double a, double b) { return a + b; });
}
void sub(const OpContext& c) {
  binary(c, [](double a, double b) { return a - b; });
}
void mul(const OpContext& c) {
  binary(c, [](double a, double b) { return a * b; });
}
void div(const OpContext& c) {
  binary(c, [](double a, double b) { return a / b; });
}

template <class F>
void map(const OpContext& c, F f) {
  for (int64_t r = 0; r < c.output.n_rows(); ++r) {
    const float* x = c.inputs[0].row(r);
    float* y = c.output.row(r);
    for (int64_t i = 0; i < c.output.row_elems(); ++i) y[i] = static_cast<float>(f(double{x[i]}));
  }
}

void scale(const OpContext& c) {
  const double factor = c.node.attrs.number(Attr::scale), bias = c.node.attrs.number(Attr::bias);
  map(c, [=](double x) { return factor * x + bias; });
}

void clamp(const OpContext& c) {
  const double low = c.node.attrs.number(Attr::min), high = c.node.attrs.number(Attr::max);
  map(c, [=](double x) { return std::min(std::max(x, low), high); });
}
void cont(const OpContext& c) {
  map(c, [](double x) { return x; });
}

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double silu(double x) { return x * sigmoid(x); }
// Hendrycks & Gimpel 2016 (arXiv:1606.08415): the tanh form, the exact form, and the quick form.
double gelu_tanh(double x) {
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
}
double gelu_erf(double x) { return 0.5 * x * (1 + std::erf(x / std::numbers::sqrt2)); }
double gelu_quick(double x) { return x * sigmoid(1.702 * x); }
double relu(double x) { return x > 0 ? x : 0; }
double tanh_of(double x) { return std::tanh(x); }
double softplus(double x) { return x > 0 ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x)); }
double exp_of(double x) { return std::exp(x); }
double square(double x) { return x * x; }
double root(double x) { return std::sqrt(x); }
double sine(double x) { return std::sin(x); }

using Scalar = double (*)(double);
constexpr std::array<Scalar, ir::kUnaries.size()> kUnaryFunctions = {
    silu, gelu_tanh, gelu_erf, gelu_quick, relu, sigmoid, tanh_of, softplus, exp_of, square, root, sine};

using Gated = double (*)(double gate, double up, const ir::Attrs& attrs);
template <Scalar act>
double gated(double gate, double up, const ir::Attrs&) {
  return act(gate) * up;
}
// gpt-oss: both lanes are cut, and up is shifted by one.
double swiglu_oai(double gate, double up, const ir::Attrs& attrs) {
  const double alpha = attrs.number(Attr::alpha), limit = attrs.number(Attr::limit);
  gate = std::min(gate, limit);
  return (std::clamp(up, -limit, limit) + 1) * gate * sigmoid(alpha * gate);
}
constexpr std::array<Gated, ir::kGlus.size()> kGluFunctions = {gated<relu>,     gated<gelu_tanh>,  gated<silu>,
                                                               gated<gelu_erf>, gated<gelu_quick>, swiglu_oai};

void unary(const OpContext& c) { map(c, kUnaryFunctions[static_cast<size_t>(c.node.attrs.integer(Attr::unary))]); }

void glu(const OpContext& c) {
  const Gated function = kGluFunctions[static_cast<size_t>(c.node.attrs.integer(Attr::glu))];
  const bool split = c.inputs.size() == 1;  // one tensor: gate in the first half of each row
  const int64_t n = c.output.row_elems();
  for (int64_t r = 0; r < c.output.n_rows(); ++r) {
    const float* gate = c.inputs[0].row(r);
    const float* up = split ? gate + n : c.inputs[1].row(r);
    float* y = c.output.row(r);
    for (int64_t i = 0; i < n; ++i) y[i] = static_cast<float>(function(gate[i], up[i], c.node.attrs));
  }
}

void concat(const OpContext& c) {
  for (int64_t r = 0; r < c.output.n_rows(); ++r) {
    const int64_t n = c.inputs[0].row_elems();
    std::copy_n(c.inputs[0].row(r), n, c.output.row(r));
    std::copy_n(c.inputs[1].row(r), c.inputs[1].row_elems(), c.output.row(r) + n);
  }
}

void attn_temp(const OpContext& c) {
  const ir::Attrs& attrs = c.node.attrs;
  const int64_t per_token = c.output.n_rows() / c.output.value->shape[0];
  const auto length = static_cast<double>(attrs.integer(Attr::temp_length));
  for (int64_t r = 0; r < c.output.n_rows(); ++r) {
    const auto position = static_cast<double>(c.inputs[1].i32[r / per_token] + attrs.integer(Attr::temp_offset));
    const double factor = 1 + attrs.number(Attr::temp_scale) * std::log(1 + std::floor(position / length));
    const float* x = c.inputs[0].row(r);
    for (int64_t i = 0; i < c.output.row_elems(); ++i) c.output.row(r)[i] = static_cast<float>(x[i] * factor);
  }
}

void norm_rows(const OpContext& c, bool centred) {
  const double eps = c.node.attrs.number(Attr::eps);
  const int64_t n = c.output.row_elems();
  for (int64_t r = 0; r < c.output.n_rows(); ++r) {
    const float* x = c.inputs[0].row(r);
    float* y = c.output.row(r);
    double mean = 0, square = 0;
    if (centred) {
      for (int64_t i = 0; i < n; ++i) mean += x[i];
      mean /= static_cast<double>(n);
    }
    for (int64_t i = 0; i < n; ++i) square += (x[i] - mean) * (x[i] - mean);
    const double factor = 1 / std::sqrt(square / static_cast<double>(n) + eps);
    for (int64_t i = 0; i < n; ++i) y[i] = static_cast<float>((x[i] - mean) * factor);
  }
}
void norm(const OpContext& c) { norm_rows(c, true); }
void rms_norm(const OpContext& c) { norm_rows(c, false); }
void l2_norm(const OpContext& c) {
  const double eps = c.node.attrs.number(Attr::eps);
  for (int64_t r = 0; r < c.output.n_rows(); ++r) {
    const float* x = c.inputs[0].row(r);
    const double factor = 1 / std::sqrt(dot(x, x, c.output.row_elems()) + eps);
    for (int64_t i = 0; i < c.output.row_elems(); ++i) c.output.row(r)[i] = static_cast<float>(x[i] * factor);
  }
}
}  // namespace

double dot(const float* a, const float* b, int64_t n) {
  std::array<double, 8> sums{};
  int64_t i = 0;
  for (; i + 8 <= n; i += 8)
    for (size_t lane = 0; lane < 8; ++lane)
      sums[lane] += double{a[i + static_cast<int64_t>(lane)]} * double{b[i + static_cast<int64_t>(lane)]};
  double total = 0;
  for (double s : sums) total += s;
  for (; i < n; ++i) total += double{a[i]} * double{b[i]};
  return total;
}

namespace {
void mul_mat(const OpContext& c) {
  const Tensor &weight = c.inputs[0], &x = c.inputs[1];
  const int64_t n_in = weight.row_elems(), n_rows = weight.n_rows();
  const int64_t n_head = weight.value->shape.rank() == 3 ? weight.value->shape[0] : 1, n_out = n_rows / n_head;
  parallel_ranges(n_rows, [&](int64_t begin, int64_t end) {
    std::vector<float> w(static_cast<size_t>(n_in));
    for (int64_t o = begin; o < end; ++o) {
      read_row(weight, o, w.data());
      for (int64_t r = o / n_out; r < x.n_rows(); r += n_head)
        c.output.row(r)[o % n_out] = static_cast<float>(dot(w.data(), x.row(r), n_in));
    }
  });
}

}  // namespace

// Su et al. 2021 (arXiv:2104.09864); YaRN: Peng et al. 2023 (arXiv:2309.00071), section 3.
RopeAngles rope_angles(const ir::Attrs& attrs, const Tensor* factors) {
  const auto n_rot = static_cast<double>(attrs.integer(Attr::n_rot));
  const double theta = attrs.number(Attr::theta), freq_scale = attrs.number(Attr::freq_scale);
  const double ext = attrs.number(Attr::ext_factor);
  const auto n_ctx = static_cast<double>(attrs.integer(Attr::n_ctx_orig));
  const auto pair_of_turns = [&](double turns) {  // the pair that makes `turns` turns over the original context
    return n_rot * std::log(n_ctx / (turns * 2 * std::numbers::pi)) / (2 * std::log(theta));
  };
  RopeAngles out{.per_position = std::vector<double>(static_cast<size_t>(attrs.integer(Attr::n_rot) / 2)),
                 .magnitude = attrs.number(Attr::attn_factor)};
  std::vector<float> factor_row(out.per_position.size());
  if (factors) read_row(*factors, 0, factor_row.data());
  double low = 0, high = 1;
  if (ext != 0) {
    low = pair_of_turns(attrs.number(Attr::beta_fast));
    high = pair_of_turns(attrs.number(Attr::beta_slow));
    if (attrs.integer(Attr::round_range) != 0) low = std::floor(low), high = std::ceil(high);
    low = std::max(0.0, low);
    high = std::min(n_rot - 1, high);
  }
  for (size_t i = 0; i < out.per_position.size(); ++i) {
    double extrapolated = std::pow(theta, -2.0 * static_cast<double>(i) / n_rot);
    if (factors) extrapolated /= double{factor_row[i]};
    double angle = freq_scale * extrapolated;
    if (ext != 0) {
      const double ramp = std::clamp((static_cast<double>(i) - low) / std::max(0.001, high - low), 0.0, 1.0);
      const double keep = (1 - ramp) * ext;
      angle = angle * (1 - keep) + extrapolated * keep;
    }
    out.per_position[i] = angle;
  }
  return out;
}

namespace {
void rope(const OpContext& c) {
  const Tensor &x = c.inputs[0], &positions = c.inputs[1];
  const RopeAngles angles = rope_angles(c.node.attrs, c.inputs.size() > 2 ? &c.inputs[2] : nullptr);
  const bool neox = c.node.attrs.keyword<ir::RopePairing>(Attr::pairing) == ir::RopePairing::neox;
  const size_t n_pairs = angles.per_position.size();
  const int64_t n_head = x.value->shape[1];
  for (int64_t r = 0; r < x.n_rows(); ++r) {
    const float* in = x.row(r);
    float* out = c.output.row(r);
    std::copy_n(in, x.row_elems(), out);
    const double position = positions.i32[r / n_head];
    for (size_t i = 0; i < n_pairs; ++i) {
      const size_t a = neox ? i : 2 * i, b = neox ? i + n_pairs : 2 * i + 1;
      const double angle = position * angles.per_position[i];
      const double cosine = std::cos(angle) * angles.magnitude, sine = std::sin(angle) * angles.magnitude;
      const double xa = in[a], xb = in[b];
      out[a] = static_cast<float>(xa * cosine - xb * sine);
      out[b] = static_cast<float>(xa * sine + xb * cosine);
    }
  }
}

void set_rows(const OpContext& c) {
  StateTensor& state = *c.inputs[0].state;
  const Tensor &x = c.inputs[1], &slots = c.inputs[2];
  const int64_t row = state.n_head_kv * state.head_dim;
  for (int64_t t = 0; t < x.value->shape[0]; ++t) {
    float* out = state.data.data() + slots.i32[t] * row;
    for (int64_t h = 0; h < state.n_head_kv; ++h) {
      std::copy_n(x.row(t * state.n_head_kv + h), state.head_dim, out + h * state.head_dim);
      round_to(state.type, {out + h * state.head_dim, static_cast<size_t>(state.head_dim)});
    }
  }
}

// One query row against its visible keys. Vaswani et al. 2017; sinks: gpt-oss (an extra logit whose probability is
// dropped); softcap: Gemma 2 (arXiv:2408.00118).
void attend_row(const OpContext& c, int64_t token, int64_t head, float* out) {
  const Tensor& q = c.inputs[0];
  const StateTensor &keys = *c.inputs[1].state, &values = *c.inputs[2].state;
  const ir::Attrs& attrs = c.node.attrs;
  const int64_t position = c.inputs[3].i32[token], window = attrs.integer(Attr::window);
  const std::span<const int32_t> pages = c.step.sequences[static_cast<size_t>(c.inputs[4].i32[token])].pages;
  const int64_t kv_head = head / (q.value->shape[1] / keys.n_head_kv);
  const int64_t chunk = attrs.integer(Attr::chunk);
  int64_t first = window > 0 ? std::max<int64_t>(0, position - window + 1) : 0;
  if (chunk > 0) first = std::max(first, position / chunk * chunk);
  const double softcap = attrs.number(Attr::softcap), scale_by = attrs.number(Attr::scale);
  const float* query = q.row(token * q.value->shape[1] + head);

  const auto slot_of = [&](int64_t p) {
    return pages[static_cast<size_t>(p / c.page_size)] * c.page_size + p % c.page_size;
  };
  std::vector<double> scores;
  double maximum = -HUGE_VAL, sum = 0;
  for (int64_t p = first; p <= position; ++p) {
    double score = scale_by * dot(query, keys.data.data() + (slot_of(p) * keys.n_head_kv + kv_head) * keys.head_dim,
                                  keys.head_dim);
    if (softcap != 0) score = softcap * std::tanh(score / softcap);
    scores.push_back(score);
    maximum = std::max(maximum, score);
  }
  if (c.inputs.size() > 5) {
    std::vector<float> sinks(static_cast<size_t>(c.inputs[5].row_elems()));
    read_row(c.inputs[5], 0, sinks.data());
    const double sink = sinks[static_cast<size_t>(head)];
    maximum = std::max(maximum, sink);
    sum += std::exp(sink - maximum);
  }
  std::vector<double> mixed(static_cast<size_t>(values.head_dim));
  for (int64_t p = first; p <= position; ++p) {
    const double weight = std::exp(scores[static_cast<size_t>(p - first)] - maximum);
    const float* v = values.data.data() + (slot_of(p) * values.n_head_kv + kv_head) * values.head_dim;
    sum += weight;
    for (size_t i = 0; i < mixed.size(); ++i) mixed[i] += weight * v[i];
  }
  for (size_t i = 0; i < mixed.size(); ++i) out[i] = static_cast<float>(mixed[i] / sum);
}

void flash_attn_ext(const OpContext& c) {
  const int64_t n_head = c.inputs[0].value->shape[1];
  parallel_ranges(c.output.n_rows(), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) attend_row(c, r / n_head, r % n_head, c.output.row(r));
  });
}

constexpr auto kKernels = std::to_array<OpKernel>({
    {Op::get_rows, get_rows},
    {Op::add, add},
    {Op::sub, sub},
    {Op::mul, mul},
    {Op::div, div},
    {Op::scale, scale},
    {Op::clamp, clamp},
    {Op::unary, unary},
    {Op::glu, glu},
    {Op::norm, norm},
    {Op::rms_norm, rms_norm},
    {Op::l2_norm, l2_norm},
    {Op::soft_max, soft_max},
    {Op::sum_rows, sum_rows},
    {Op::argsort, argsort},
    {Op::mask_groups, mask_groups},
    {Op::concat, concat},
    {Op::cont, cont},
    {Op::mul_mat, mul_mat},
    {Op::mul_mat_id, mul_mat_id},
    {Op::add_id, add_id},
    {Op::rope, rope},
    {Op::attn_temp, attn_temp},
    {Op::set_rows, set_rows},
    {Op::flash_attn_ext, flash_attn_ext},
    {Op::ssm_conv, ssm_conv},
    {Op::ssm_conv_state, ssm_conv_state},
    {Op::gated_delta_net, gated_delta_net},
    {Op::cpy, cpy},
    {Op::cross_entropy_loss, cross_entropy_loss},
    {Op::reshape, nullptr},
    {Op::view, nullptr},
});
constexpr bool kernels_match_ops() {
  for (size_t i = 0; i < kKernels.size(); ++i)
    if (static_cast<size_t>(kKernels[i].op) != i) return false;
  return kKernels.size() == static_cast<size_t>(Op::count_);
}
static_assert(kernels_match_ops());
}  // namespace

std::span<const OpKernel> op_kernels() { return kKernels; }

void read_row(const Tensor& tensor, int64_t row, float* out) {
  const int64_t n = tensor.row_elems();
  if (tensor.encoded) {
    decode_row(tensor.value->dtype,
               tensor.encoded + static_cast<uint64_t>(row) * dtype_bytes(tensor.value->dtype, static_cast<uint64_t>(n)),
               n, out);
  } else {
    std::copy_n(tensor.row(row), n, out);
  }
}

}  // namespace tokamak::reference
