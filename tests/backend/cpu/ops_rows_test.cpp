// Norms, element-wise ops, activations, conversions: each kernel of every instruction set against plain f64 loops, and
// against the scalar kernel bit for bit.
#include <functional>
#include <limits>
#include <numbers>

#include "backend/cpu/ops_test_util.h"
#include "base/half.h"
#include "quant/codec.h"

namespace tokamak::cpu {
namespace {

constexpr int64_t kRows = 5;
constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

std::string label(Isa isa, int64_t n) { return std::string(isa_name(isa)) + " n=" + std::to_string(n); }

// Runs `call(ops, begin, end)` for all instruction sets, whole and in pieces, on a fresh y each time; all bits must
// agree. Returns them.
using Call = std::function<void(const OpSet& ops, float* y, int64_t begin, int64_t end)>;
std::vector<float> run_all(int64_t n, const Call& call, const std::vector<float>& start = {}) {
  std::vector<float> expected;
  for (const auto& [isa, name, needs] : kIsas) {  // scalar first
    if (!isa_available(isa)) continue;
    std::vector<float> y = start.empty() ? std::vector<float>(static_cast<size_t>(kRows * n), 7.0f) : start;
    std::vector<float> pieces = y;
    call(op_set(isa), y.data(), 0, kRows);
    for (int64_t r : {3, 0, 4, 1, 2}) call(op_set(isa), pieces.data(), r, r + 1);
    call(op_set(isa), pieces.data(), 2, 2);  // nothing
    if (expected.empty()) expected = y;
    expect_same_bits(expected, y, label(isa, n));
    expect_same_bits(expected, pieces, label(isa, n) + " in pieces");
  }
  return expected;
}

TEST(CpuOps, ListsEveryKernelScalarLast) {
  const std::vector<KernelName> names = op_kernel_names();
  ASSERT_FALSE(names.empty());
  EXPECT_EQ(names.back().isa, Isa::scalar);
  EXPECT_EQ(names.front().name, "norm_f32_" + std::string(isa_name(names.front().isa)));
  usable_isas();  // prints what is skipped
}

// Sums of n terms in 64 lanes: n / 64 + 1 additions in a lane, then 2 and 4 in the tree.
double sum_bound(int64_t n) { return (static_cast<double>(n / 64) + 8) * kUnit; }

TEST(CpuOps, NormAgainstF64) {
  for (int64_t n : kRowSizes)
    for (bool centred : {false, true})
      for (int form = 0; form < 6; ++form) {  // plain, mul, add, mul+add; 4 and 5: one addend row for all
        const auto x = random_floats(static_cast<size_t>(kRows * n), 1), w = random_floats(static_cast<size_t>(n), 2);
        const auto add = random_floats(static_cast<size_t>(kRows * n), 3);
        const bool with_w = form == 1 || form == 3 || form == 5, with_add = form >= 2;
        NormArgs a{.kind = centred ? NormKind::centred : NormKind::rms,
                   .eps = 1e-5f,
                   .row_elems = n,
                   .x = x.data(),
                   .x_stride = n};
        if (with_w) a.weight = w.data();
        if (with_add) a.addend = add.data();
        a.addend_stride = form >= 4 ? 0 : n;
        a.y_stride = n;
        const auto y = run_all(n, [a](const OpSet& ops, float* out, int64_t b, int64_t e) mutable {
          a.y = out;
          ops.norm(a, b, e);
        });
        for (int64_t r = 0; r < kRows; ++r) {
          const float* row = x.data() + r * n;
          double mean = 0, square = 0, magnitude = 0;
          for (int64_t i = 0; i < n; ++i) mean += row[i], magnitude += std::fabs(row[i]);
          mean = centred ? mean / static_cast<double>(n) : 0;
          magnitude /= static_cast<double>(n);
          for (int64_t i = 0; i < n; ++i) square += (row[i] - mean) * (row[i] - mean);
          const double root = std::sqrt(square / static_cast<double>(n) + double{1e-5f});
          // The mean is off by sum_bound * mean |x|; the root by that plus its own sum and four roundings.
          const double shift = centred ? (sum_bound(n) + 2 * kUnit) * magnitude : 0;
          const double relative = sum_bound(n) + 6 * kUnit;
          for (int64_t i = 0; i < n; ++i) {
            const double s = (row[i] - mean) / root;
            const double weight = with_w ? double{w[static_cast<size_t>(i)]} : 1;
            const double extra = with_add ? double{add[static_cast<size_t>(form >= 4 ? i : r * n + i)]} : 0;
            const double exact = s * weight + extra;
            const double bound = std::fabs(weight) * (std::fabs(s) * (relative + 2 * shift / root) + 2 * shift / root) +
                                 2 * kUnit * (std::fabs(s * weight) + std::fabs(exact));
            ASSERT_NEAR(y[static_cast<size_t>(r * n + i)], exact, bound) << "n=" << n << " form " << form << centred;
          }
        }
      }
}

TEST(CpuOps, FusedNormEqualsItsMembers) {
  const int64_t n = 97;
  const auto x = random_floats(kRows * n, 4), w = random_floats(n, 5), add = random_floats(kRows * n, 6);
  for (bool centred : {false, true}) {
    const OpSet& ops = op_set(best_isa());
    std::vector<float> fused(x.size()), parts(x.size());
    const NormArgs base{.kind = centred ? NormKind::centred : NormKind::rms,
                        .eps = 1e-6f,
                        .row_elems = n,
                        .x = x.data(),
                        .x_stride = n,
                        .y_stride = n};
    NormArgs a = base;
    a.weight = w.data(), a.addend = add.data(), a.addend_stride = n, a.y = fused.data();
    ops.norm(a, 0, kRows);
    a = base;
    a.y = parts.data();
    ops.norm(a, 0, kRows);
    BinaryArgs b{.row_elems = n,
                 .a = parts.data(),
                 .a_stride = n,
                 .b = w.data(),
                 .n_b_rows = 1,
                 .y = parts.data(),
                 .y_stride = n};
    ops.mul(b, 0, kRows);
    b.b = add.data(), b.b_stride = n, b.n_b_rows = kNoRepeat;
    ops.add(b, 0, kRows);
    expect_same_bits(fused, parts, "fused norm");
  }
}

TEST(CpuOps, NormInPlace) {
  const int64_t n = 65;
  const auto x = random_floats(kRows * n, 7), w = random_floats(n, 8);
  NormArgs a{.eps = 1e-6f, .row_elems = n, .x_stride = n, .weight = w.data(), .y_stride = n};
  const auto apart = run_all(n, [&, a](const OpSet& ops, float* y, int64_t b, int64_t e) mutable {
    a.x = x.data(), a.y = y;
    ops.norm(a, b, e);
  });
  const auto in_place = run_all(
      n,
      [a](const OpSet& ops, float* y, int64_t b, int64_t e) mutable {
        a.x = y, a.y = y;
        ops.norm(a, b, e);
      },
      x);
  expect_same_bits(apart, in_place, "in place");
}

TEST(CpuOps, AddMulScale) {
  for (int64_t n : kRowSizes) {
    const auto x = random_floats(static_cast<size_t>(kRows * n), 9),
               b = random_floats(static_cast<size_t>(kRows * n), 10);
    for (int64_t stride : {n, int64_t{0}}) {
      BinaryArgs a{.row_elems = n, .a = x.data(), .a_stride = n, .b = b.data(), .b_stride = stride, .y_stride = n};
      const auto sum = run_all(n, [a](const OpSet& ops, float* y, int64_t from, int64_t to) mutable {
        a.y = y;
        ops.add(a, from, to);
      });
      const auto product = run_all(n, [a](const OpSet& ops, float* y, int64_t from, int64_t to) mutable {
        a.y = y;
        ops.mul(a, from, to);
      });
      for (size_t i = 0; i < sum.size(); ++i) {
        const float other = b[stride ? i : i % static_cast<size_t>(n)];
        ASSERT_EQ(sum[i], x[i] + other);
        ASSERT_EQ(product[i], x[i] * other);
      }
    }
    MapArgs m{.row_elems = n, .x = x.data(), .x_stride = n, .y_stride = n, .scale = 0.3f, .bias = -2.0f};
    const auto scaled = run_all(n, [m](const OpSet& ops, float* y, int64_t from, int64_t to) mutable {
      m.y = y;
      ops.scale(m, from, to);
    });
    for (size_t i = 0; i < scaled.size(); ++i) ASSERT_EQ(scaled[i], std::fma(0.3f, x[i], -2.0f));
  }
}

TEST(CpuOps, AddChainEqualsSeparateAdds) {
  for (int64_t n : {1, 16, 33, 576})
    for (int n_inputs = 1; n_inputs <= ChainArgs::kMax; ++n_inputs) {
      ChainArgs a{.n_inputs = n_inputs, .row_elems = n, .y_stride = n};
      std::vector<std::vector<float>> inputs;
      for (int k = 0; k < n_inputs; ++k) {
        inputs.push_back(random_floats(static_cast<size_t>(kRows * n), 20 + static_cast<uint32_t>(k)));
        a.x[static_cast<size_t>(k)] = inputs.back().data();
        a.x_stride[static_cast<size_t>(k)] = k == 3 ? 0 : n;
      }
      const auto y = run_all(n, [a](const OpSet& ops, float* out, int64_t b, int64_t e) mutable {
        a.y = out;
        ops.add_chain(a, b, e);
      });
      for (size_t i = 0; i < y.size(); ++i) {
        float sum = inputs[0][i];
        for (size_t k = 1; k < inputs.size(); ++k) sum += inputs[k][k == 3 ? i % static_cast<size_t>(n) : i];
        ASSERT_EQ(y[i], sum);
      }
    }
}

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

struct Activation {
  UnaryKind kind;
  double (*exact)(double x);
  // Relative bound in units: `flat` + `slope` * |argument of exp|.
  double (*argument)(double x);
  double flat, slope;
};
double none(double) { return 0; }
double gelu_argument(double x) { return 2 * std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x); }
const Activation kActivations[] = {
    {UnaryKind::silu, [](double x) { return x * sigmoid(x); }, [](double x) { return x; }, 8, 4},
    {UnaryKind::gelu, [](double x) { return x * sigmoid(gelu_argument(x)); }, gelu_argument, 8, 4},
    {UnaryKind::gelu_erf, [](double x) { return 0.5 * x * std::erfc(-x / std::numbers::sqrt2); }, none, 40, 0},
    {UnaryKind::gelu_quick, [](double x) { return x * sigmoid(1.702 * x); }, [](double x) { return 1.702 * x; }, 8, 4},
    {UnaryKind::relu, [](double x) { return x > 0 ? x : 0; }, none, 0, 0},
    {UnaryKind::sigmoid, sigmoid, [](double x) { return x; }, 8, 4},
    {UnaryKind::tanh, [](double x) { return std::tanh(x); }, none, 8, 0},
    {UnaryKind::softplus, [](double x) { return x > 0 ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x)); }, none,
     8, 0},
    {UnaryKind::exp, [](double x) { return std::exp(x); }, none, 3, 0},
    {UnaryKind::sqr, [](double x) { return x * x; }, none, 1, 0},
    {UnaryKind::sqrt, [](double x) { return std::sqrt(x); }, none, 1, 0},
    {UnaryKind::sin, [](double x) { return std::sin(x); }, none, 4, 0},
};

// Dense near 0, out to where everything saturates, tiny values, and values whose exp overflows or underflows.
std::vector<float> activation_inputs(int64_t n) {
  std::vector<float> x(static_cast<size_t>(kRows * n));
  const auto spread = random_floats(x.size(), 30, 4);
  for (size_t i = 0; i < x.size(); ++i) {
    x[i] = spread[i];
    if (i % 5 == 1) x[i] *= 1e-3f;
    if (i % 5 == 2) x[i] *= 6;
    if (i % 35 == 3) x[i] *= 1e-30f;
    if (i % 35 == 4) x[i] *= 100;
  }
  return x;
}

TEST(CpuOps, ActivationsWithinTheirBounds) {
  static_assert(std::size(kActivations) == static_cast<size_t>(UnaryKind::count_));
  for (int64_t n : {1, 16, 17, 2048})
    for (const Activation& f : kActivations) {
      const auto x = activation_inputs(n);
      MapArgs a{.row_elems = n, .x = x.data(), .x_stride = n, .y_stride = n, .unary = f.kind};
      const auto y = run_all(n, [a](const OpSet& ops, float* out, int64_t b, int64_t e) mutable {
        a.y = out;
        ops.unary(a, b, e);
      });
      for (size_t i = 0; i < y.size(); ++i) {
        const double exact = f.exact(x[i]);
        if (std::isnan(exact) || std::fabs(exact) > 0x1.fffffep127) {  // roots of negative numbers, exp beyond f32
          ASSERT_FALSE(std::isfinite(y[i])) << "unary " << static_cast<int>(f.kind) << " of " << x[i];
          continue;
        }
        const double units = f.flat + f.slope * std::min(200.0, std::fabs(f.argument(x[i])));
        ASSERT_NEAR(y[i], exact, std::fabs(exact) * units * kUnit + std::fabs(x[i]) * 0x1p-126 + 0x1p-126)
            << "unary " << static_cast<int>(f.kind) << " of " << x[i];
      }
    }
}

TEST(CpuOps, GluIsActivationTimesUp) {
  const UnaryKind unary[] = {UnaryKind::relu,       UnaryKind::gelu,   UnaryKind::silu,    UnaryKind::gelu_erf,
                             UnaryKind::gelu_quick, UnaryKind::count_, UnaryKind::sigmoid, UnaryKind::softplus};
  static_assert(std::size(unary) == static_cast<size_t>(GluKind::count_));
  for (int64_t n : {1, 15, 16, 1536})
    for (size_t kind = 0; kind < std::size(unary); ++kind) {
      if (unary[kind] == UnaryKind::count_) continue;                              // swiglu_oai, below
      const auto both = random_floats(static_cast<size_t>(kRows * n * 2), 40, 3);  // gate first, then up
      GluArgs g{.kind = static_cast<GluKind>(kind),
                .row_elems = n,
                .gate = both.data(),
                .gate_stride = 2 * n,
                .up = both.data() + n,
                .up_stride = 2 * n,
                .y_stride = n};
      MapArgs m{.row_elems = n, .x = both.data(), .x_stride = 2 * n, .y_stride = n, .unary = unary[kind]};
      const auto y = run_all(n, [g](const OpSet& ops, float* out, int64_t b, int64_t e) mutable {
        g.y = out;
        ops.glu(g, b, e);
      });
      const auto act = run_all(n, [m](const OpSet& ops, float* out, int64_t b, int64_t e) mutable {
        m.y = out;
        ops.unary(m, b, e);
      });
      for (int64_t i = 0; i < kRows * n; ++i)
        ASSERT_EQ(y[static_cast<size_t>(i)],
                  act[static_cast<size_t>(i)] * both[static_cast<size_t>(i / n * 2 * n + n + i % n)]);
    }
}

// Each rounding of up + 1, the gated value and their product, and the activation's own bound.
TEST(CpuOps, SwigluOaiWithinItsBound) {
  const int64_t n = 97;
  const auto gate = random_floats(kRows * n, 42, 4), up = random_floats(kRows * n, 43, 4);
  GluArgs a{.kind = GluKind::swiglu_oai,
            .row_elems = n,
            .gate = gate.data(),
            .gate_stride = n,
            .up = up.data(),
            .up_stride = n,
            .y_stride = n,
            .alpha = 1.702f,
            .limit = 7};
  const auto y = run_all(n, [a](const OpSet& ops, float* out, int64_t b, int64_t e) mutable {
    a.y = out;
    ops.glu(a, b, e);
  });
  for (size_t i = 0; i < y.size(); ++i) {
    const double g = std::min(double{gate[i]}, 7.0), lane = std::clamp(double{up[i]}, -7.0, 7.0) + 1;
    const double k = double{1.702f} * g, exact = lane * g * sigmoid(k);
    ASSERT_NEAR(y[i], exact, (12 + 4 * std::fabs(k)) * kUnit * std::fabs(exact) + kUnit * std::fabs(g) * 0x1p-20);
  }
}

TEST(CpuOps, SineOfLargeAndSpecialNumbers) {
  std::vector<float> x = {65535.9f, 65536.0f, 65537.0f, 1e10f, -3e38f, 3.14159274f, -22 / 7.0f, 355.0f,
                          0.0f,     -0.0f,    1e-40f,   kInf,  -kInf,  kNan,        100.0f};
  MapArgs a{.row_elems = 3, .x = x.data(), .x_stride = 3, .y_stride = 3, .unary = UnaryKind::sin};
  const auto y = run_all(3, [a](const OpSet& ops, float* out, int64_t b, int64_t e) mutable {
    a.y = out;
    ops.unary(a, b, e);
  });
  for (size_t i = 0; i < x.size(); ++i) {
    const double exact = std::sin(double{x[i]});
    if (std::isnan(exact))
      EXPECT_TRUE(std::isnan(y[i])) << x[i];
    else
      EXPECT_NEAR(y[i], exact, 4 * kUnit * std::fabs(exact) + 0x1p-46) << x[i];
  }
}

TEST(CpuOps, SoftcapWithinItsBound) {
  const auto x = activation_inputs(33);
  for (float cap : {30.0f, 50.0f}) {
    MapArgs a{.row_elems = 33, .x = x.data(), .x_stride = 33, .y_stride = 33, .scale = 1 / cap, .cap = cap};
    const auto y = run_all(33, [a](const OpSet& ops, float* out, int64_t b, int64_t e) mutable {
      a.y = out;
      ops.softcap(a, b, e);
    });
    for (size_t i = 0; i < y.size(); ++i) {
      const double exact = double{cap} * std::tanh(double{x[i]} / double{cap});
      ASSERT_NEAR(y[i], exact, 12 * kUnit * std::fabs(exact) + 0x1p-126);
    }
  }
}

TEST(CpuOps, InfinitiesAndNan) {
  const std::vector<float> x = {kInf, -kInf, kNan, 0.0f, -0.0f};
  const auto run = [&](UnaryKind kind) {
    MapArgs a{.row_elems = 1, .x = x.data(), .x_stride = 1, .y_stride = 1, .unary = kind};
    return run_all(1, [a](const OpSet& ops, float* y, int64_t b, int64_t e) mutable {
      a.y = y;
      ops.unary(a, b, e);
    });
  };
  EXPECT_EQ(run(UnaryKind::tanh)[0], 1.0f);
  EXPECT_EQ(run(UnaryKind::tanh)[1], -1.0f);
  EXPECT_EQ(run(UnaryKind::sigmoid)[0], 1.0f);
  EXPECT_EQ(run(UnaryKind::sigmoid)[1], 0.0f);
  EXPECT_EQ(run(UnaryKind::gelu_erf)[0], kInf);
  EXPECT_EQ(run(UnaryKind::gelu_erf)[1], 0.0f);
  EXPECT_EQ(run(UnaryKind::relu)[2], 0.0f);
  for (UnaryKind kind : {UnaryKind::silu, UnaryKind::gelu, UnaryKind::gelu_quick}) {
    EXPECT_EQ(run(kind)[0], kInf);
    EXPECT_TRUE(std::isnan(run(kind)[1]));
  }
  for (UnaryKind kind : {UnaryKind::silu, UnaryKind::gelu, UnaryKind::gelu_erf, UnaryKind::gelu_quick,
                         UnaryKind::sigmoid, UnaryKind::tanh}) {
    EXPECT_TRUE(std::isnan(run(kind)[2]));
    EXPECT_EQ(run(kind)[3], kind == UnaryKind::sigmoid ? 0.5f : 0.0f);
  }
}

TEST(CpuOps, GetRowsEqualsTheCodec) {
  const int64_t n_vocab = 11;
  const int32_t ids[kRows] = {10, 0, 3, 3, 7};
  for (DType type : {DType::f32, DType::f16, DType::bf16, DType::q8_0, DType::q4_1, DType::q6_k})
    for (int64_t n : {256, 512}) {
      const auto row_bytes = dtype_bytes(type, static_cast<uint64_t>(n));
      std::vector<std::byte> table(n_vocab * row_bytes + 1);
      std::byte* rows = table.data() + (type == DType::f32 ? 0 : 1);  // files do not align rows of blocks
      for (int64_t r = 0; r < n_vocab; ++r) {
        const auto x = random_floats(static_cast<size_t>(n), 50 + static_cast<uint32_t>(r));
        ASSERT_TRUE(encode_row(type, x.data(), n, nullptr, rows + static_cast<uint64_t>(r) * row_bytes));
      }
      GetRowsArgs a{.type = type,
                    .table = rows,
                    .row_elems = n,
                    .row_bytes = static_cast<int64_t>(dtype_bytes(type, static_cast<uint64_t>(n))),
                    .ids = ids,
                    .y_stride = n};
      const auto y = run_all(n, [a](const OpSet& ops, float* out, int64_t b, int64_t e) mutable {
        a.y = out;
        ops.get_rows(a, b, e);
      });
      std::vector<float> expected(y.size());
      for (int64_t r = 0; r < kRows; ++r)
        decode_row(type, rows + static_cast<uint64_t>(ids[r]) * row_bytes, n, expected.data() + r * n);
      expect_same_bits(expected, y, std::string(dtype_name(type)));
    }
}

TEST(CpuOps, CopyConverts) {
  const DType types[] = {DType::f32, DType::f16, DType::bf16};
  for (int64_t n : {1, 15, 16, 17, 64})
    for (DType from : types)
      for (DType to : types)
        for (Isa isa : usable_isas()) {
          auto x = random_floats(static_cast<size_t>(kRows * n), 60, 100);
          x[0] = 1e-7f;  // subnormal in f16
          const auto put = [](DType t, float v) {
            return t == DType::f16 ? f32_to_f16(v) : t == DType::bf16 ? f32_to_bf16(v) : 0;
          };
          const auto get = [](DType t, uint16_t v) { return t == DType::f16 ? f16_to_f32(v) : bf16_to_f32(v); };
          std::vector<uint16_t> in16, out16(x.size());
          std::vector<float> out32(x.size());
          for (float& v : x) {
            in16.push_back(put(from, v));
            if (from != DType::f32) v = get(from, in16.back());
          }
          const CopyArgs a{.row_elems = n,
                           .x_type = from,
                           .y_type = to,
                           .x = from == DType::f32 ? static_cast<const void*>(x.data()) : in16.data(),
                           .x_stride = n,
                           .y = to == DType::f32 ? static_cast<void*>(out32.data()) : out16.data(),
                           .y_stride = n};
          op_set(isa).copy(a, 0, kRows);
          for (size_t i = 0; i < x.size(); ++i) {
            if (to == DType::f32)
              ASSERT_EQ(out32[i], x[i]);
            else
              ASSERT_EQ(out16[i], put(to, x[i])) << dtype_name(from) << " to " << dtype_name(to);
          }
        }
}

}  // namespace
}  // namespace tokamak::cpu
